// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Internet checksums: computed over all bytes (RFC 1071), or updated by the difference (RFC 1624).

use std::net::{Ipv4Addr, Ipv6Addr};

/// An unfolded sum of 16-bit words in network order. It overflows after 2^47 words.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sum(u64);

impl Sum {
    /// Creates a sum from its numeric value.
    #[cfg(test)]
    pub(crate) fn of(total: u64) -> Sum {
        Sum(total)
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub fn word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word))
    }

    /// Adds another sum.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Sum) -> Sum {
        Sum(self.0 + other.0)
    }

    /// Subtracts another sum: one's complement addition of its complement.
    #[inline]
    #[must_use]
    pub fn minus(self, other: Sum) -> Sum {
        self.word(!other.fold())
    }

    /// Adds a 32-bit number as two words.
    #[inline]
    #[must_use]
    pub fn long(self, long: u32) -> Sum {
        Sum(self.0 + u64::from(long >> 16) + u64::from(long & 0xffff))
    }

    /// Adds an IPv4 address.
    #[inline]
    #[must_use]
    pub fn ipv4(self, addr: Ipv4Addr) -> Sum {
        self.long(addr.to_bits())
    }

    /// Adds an IPv6 address.
    #[inline]
    #[must_use]
    pub fn ipv6(self, addr: Ipv6Addr) -> Sum {
        let bits = addr.to_bits();
        // 2^16 is 1 in one's complement arithmetic, so wide words can be added directly.
        Sum(self.0 + u64::from((bits >> 96) as u32) + u64::from((bits >> 64) as u32))
            .plus(Sum(u64::from((bits >> 32) as u32) + u64::from(bits as u32)))
    }

    /// Folds the carries into 16 bits. The result is zero only if all added words are zero.
    #[inline]
    #[must_use]
    pub fn fold(self) -> u16 {
        let mut sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        sum = (sum >> 32) + (sum & 0xffff_ffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum as u16
    }
}

/// Sums bytes as words in network order. An odd last byte is the upper half of its word.
#[must_use]
pub fn sum(bytes: &[u8]) -> Sum {
    // The sum is independent of byte order, except for a swap at the end (RFC 1071 section 2 (B)).
    let mut chunks = bytes.chunks_exact(4);
    let mut native = 0u64;
    for chunk in &mut chunks {
        native += u64::from(u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    }
    let rest = chunks.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    native += u64::from(u32::from_ne_bytes(last));
    Sum(u64::from(u16::from_be(Sum(native).fold())))
}

/// The sum of the pseudo-header of an IPv4 transport (RFC 9293 section 3.1).
#[must_use]
pub fn pseudo_ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> Sum {
    Sum::default()
        .ipv4(src)
        .ipv4(dst)
        .word(u16::from(protocol))
        .long(len as u32)
}

/// The sum of the pseudo-header of an IPv6 transport (RFC 8200 section 8.1).
#[must_use]
pub fn pseudo_ipv6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: usize) -> Sum {
    Sum::default()
        .ipv6(src)
        .ipv6(dst)
        .word(u16::from(protocol))
        .long(len as u32)
}

/// Updates a checksum after its data has changed by `new - old`: HC' = ~(~HC + ~m + m') (RFC 1624
/// section 3, equation 3).
#[inline]
#[must_use]
pub fn update(checksum: u16, old: Sum, new: Sum) -> u16 {
    !Sum::default().word(!checksum).plus(new).minus(old).fold()
}

/// Updates a field that holds only the folded sum of the pseudo-header
/// ([`crate::Checksum::Partial`]).
#[inline]
#[must_use]
pub fn update_seed(seed: u16, old: Sum, new: Sum) -> u16 {
    Sum::default().word(seed).plus(new).minus(old).fold()
}

/// Returns true if both sums are equal. A checksum over one is then valid over the other (RFC 6052
/// section 4.1: checksum-neutral).
#[inline]
#[must_use]
pub fn are_neutral(old: Sum, new: Sum) -> bool {
    matches!(new.minus(old).fold(), 0 | 0xffff)
}

/// Reads the checksum field at byte `at`.
#[inline]
#[must_use]
pub fn field(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes the checksum field at byte `at`.
#[inline]
pub fn set_field(bytes: &mut [u8], at: usize, checksum: u16) {
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Replaces zero, for protocols in which a zero checksum means no checksum (RFC 768).
#[inline]
#[must_use]
pub fn never_zero(checksum: u16) -> u16 {
    match checksum {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Computes the checksum of `bytes` and `pseudo` and writes it to the field at byte `at`.
pub fn fill_in(bytes: &mut [u8], at: usize, pseudo: Sum) {
    set_field(bytes, at, 0);
    let checksum = !sum(bytes).plus(pseudo).fold();
    set_field(bytes, at, checksum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1071_section_3_example() {
        assert_eq!(
            sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).fold(),
            0xddf2
        );
    }

    #[test]
    fn an_odd_byte_is_the_upper_half_of_a_word() {
        assert_eq!(sum(&[0x12]).fold(), 0x1200);
        assert_eq!(sum(&[0x12, 0x34, 0x56]).fold(), 0x6834);
        assert_eq!(sum(&[0, 0, 0, 0, 0xff]).fold(), 0xff00);
    }

    #[test]
    fn rfc_1624_section_4_example() {
        // The header of the example: HC = 0xDD2F, m = 0x5555, m' = 0x3285; HC' must be 0x0000.
        assert_eq!(
            update(
                0xdd2f,
                Sum::default().word(0x5555),
                Sum::default().word(0x3285)
            ),
            0x0000
        );
    }

    #[test]
    fn neutral_is_what_changes_no_checksum() {
        let word = |word| Sum::default().word(word);
        assert!(are_neutral(word(0x1234), word(0x1200).word(0x34)));
        assert!(are_neutral(word(0xffff), Sum::default()));
        assert!(are_neutral(Sum::default(), word(0xffff)));
        assert!(!are_neutral(word(0x1234), word(0x1235)));
        assert!(!are_neutral(word(0xffff), word(1)));
    }

    #[test]
    fn only_zeros_fold_to_zero() {
        assert_eq!(Sum::default().fold(), 0);
        assert_eq!(Sum::default().word(0xffff).fold(), 0xffff);
        assert_eq!(Sum(u64::MAX).fold(), 0xffff);
        assert_eq!(Sum::default().word(0x8000).word(0x7fff).word(1).fold(), 1);
    }

    #[test]
    fn addresses_are_summed_as_their_bytes() {
        let v4: Ipv4Addr = "198.51.100.255".parse().unwrap();
        let v6: Ipv6Addr = "2001:db8:ffff:eeee:dddd:cccc:bbbb:aaaa".parse().unwrap();
        assert_eq!(Sum::default().ipv4(v4).fold(), sum(&v4.octets()).fold());
        assert_eq!(Sum::default().ipv6(v6).fold(), sum(&v6.octets()).fold());
    }
}
