// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signature at the beginning of each payload: the identity of the frame, the time at which it was written, and a check.
//! Translation changes every header, but not the payload.
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | sequence number |
//! | 8 | stream |
//! | 9 | 0xd1 |
//! | 10–15 | time stamp: ns of CLOCK_MONOTONIC, the last 48 bits |
//! | 16–17 | check of the above and the key |
//!
//! All fields are in network byte order. `bpf/signature.h` contains the same algorithm.

use crate::kernel::{SIGNATURE, STAMP_BITS};

/// Identifies a damaged signature as one of ours.
pub const MAGIC: u8 = 0xd1;

/// The identity of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Its stream.
    pub stream: u8,
    /// Its number in the stream, from 0.
    pub seq: u64,
    /// The time at which it was written, ns of CLOCK_MONOTONIC, modulo 2^48 (78 hours).
    pub stamp_ns: u64,
}

impl Signature {
    /// The signature in bytes.
    pub fn write(&self, key: u64) -> [u8; SIGNATURE] {
        let second = u64::from(self.stream) << 56
            | u64::from(MAGIC) << STAMP_BITS
            | self.stamp_ns & ((1 << STAMP_BITS) - 1);
        let mut bytes = [0; SIGNATURE];
        bytes[..8].copy_from_slice(&self.seq.to_be_bytes());
        bytes[8..16].copy_from_slice(&second.to_be_bytes());
        bytes[16..].copy_from_slice(&check(key, self.seq, second).to_be_bytes());
        bytes
    }

    /// Parses the beginning of a payload; `None` if it has no signature with this key, or a damaged one.
    pub fn read(payload: &[u8], key: u64) -> Option<Signature> {
        let (seq, rest) = payload.split_first_chunk()?;
        let (second, rest) = rest.split_first_chunk()?;
        let told = rest.first_chunk()?;
        let (seq, second) = (u64::from_be_bytes(*seq), u64::from_be_bytes(*second));
        (check(key, seq, second) == u16::from_be_bytes(*told)).then_some(Signature {
            stream: (second >> 56) as u8,
            seq,
            stamp_ns: second & ((1 << STAMP_BITS) - 1),
        })
    }
}

/// The check of two words. Two multiplications suffice: each bit of both words changes about half of the 16 bits.
fn check(key: u64, first: u64, second: u64) -> u16 {
    let x = (first ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 32 ^ second).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = x ^ x >> 32;
    (x ^ x >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Signature = Signature {
        stream: 3,
        seq: 0x0123_4567_89ab_cdef,
        stamp_ns: 0x1234_5678_9abc,
    };

    #[test]
    fn what_is_written_is_read() {
        let bytes = ONE.write(7);
        assert_eq!(Signature::read(&bytes, 7), Some(ONE));
        assert_eq!(Signature::read(&bytes, 8), None);
        assert_eq!(Signature::read(&bytes[..17], 7), None);
    }

    #[test]
    fn a_bit_that_flips_is_noticed_as_often_as_16_bits_can() {
        let mut missed = 0;
        for seq in 0..1000 {
            let one = Signature {
                seq,
                stamp_ns: seq * 560,
                ..ONE
            };
            for bit in 0..SIGNATURE * 8 {
                let mut bytes = one.write(0);
                bytes[bit / 8] ^= 1 << (bit % 8);
                missed += usize::from(Signature::read(&bytes, 0).is_some());
            }
        }
        // Chance misses one of 65536, that is two of these 144 000.
        assert!(missed <= 10, "{missed}");
    }
}
