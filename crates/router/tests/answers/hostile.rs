// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hostile frames: those of the vectors with bytes changed, cut and appended; half of them with corrected checksums,
//! so that the code after the checksums is reached.

use fastrand::Rng;

use crate::common::ones_sum;
use crate::reference::ETHERNET;

/// Bytes that are significant somewhere.
const TELLING: [u8; 14] = [
    0, 1, 2, 4, 8, 0x0e, 0x18, 0x20, 0x28, 0x33, 0x3a, 0x45, 0xfe, 0xff,
];
/// The kernel runs no frame that is shorter than its headers.
const SHORTEST: usize = ETHERNET + 40;
const LONGEST_TAIL: usize = 64;

pub struct Maker {
    random: Rng,
    seeds: Vec<Vec<u8>>,
}

impl Maker {
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Maker {
        Maker {
            random: Rng::with_seed(seed),
            seeds,
        }
    }

    pub fn frame(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut frame = self.seeds[random.usize(..self.seeds.len())].clone();
        for _ in 0..random.usize(..4) {
            let at = random.usize(..frame.len());
            frame[at] = match random.u8(..3) {
                0 => random.u8(..),
                1 => TELLING[random.usize(..TELLING.len())],
                _ => frame[at] ^ (1 << random.u8(..8)),
            };
        }
        match random.u8(..8) {
            0 => frame.truncate(random.usize(..=frame.len())),
            1 => frame.extend((0..random.usize(..LONGEST_TAIL)).map(|_| random.u8(..))),
            2 => lengthen(&mut frame, random),
            _ => {}
        }
        if random.bool() {
            correct(&mut frame);
        }
        if frame.len() < SHORTEST && !is_arp(&frame) || frame.len() < ETHERNET + 1 {
            frame.resize(SHORTEST, random.u8(..));
        }
        frame
    }
}

fn is_arp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x08, 0x06])
}

/// Appends more options to an IPv6 message, some of them well-formed, and adjusts the payload length.
fn lengthen(frame: &mut Vec<u8>, random: &mut Rng) {
    if frame.get(12..14) != Some(&[0x86, 0xdd]) || frame.len() < SHORTEST {
        return;
    }
    for _ in 0..random.usize(1..4) {
        let mut option = [0; 8];
        option.fill_with(|| random.u8(..));
        option[0] = [1, 2, 14, 200][random.usize(..4)];
        option[1] = [1, 1, 1, 2, 0][random.usize(..5)];
        frame.extend(option);
    }
    let len = (frame.len() - SHORTEST) as u16;
    frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&len.to_be_bytes());
}

/// Writes right checksums into the headers.
fn correct(frame: &mut [u8]) {
    let Some(rest) = frame.get_mut(ETHERNET..) else {
        return;
    };
    match rest.first().map(|byte| byte >> 4) {
        Some(4) if rest.len() >= 28 => {
            rest[10..12].fill(0);
            let header = !ones_sum(&rest[..20]);
            rest[10..12].copy_from_slice(&header.to_be_bytes());
        }
        Some(6) if rest.len() >= 44 => {
            let len = usize::from(u16::from_be_bytes([rest[4], rest[5]]));
            let Some(body) = rest.get(40..40 + len).filter(|body| body.len() >= 4) else {
                return;
            };
            let mut all = rest[8..40].to_vec();
            all.extend((len as u32).to_be_bytes());
            all.extend([0, 0, 0, 58]);
            all.extend(body);
            all[40 + 2..40 + 4].fill(0);
            let checksum = !ones_sum(&all);
            rest[42..44].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => {}
    }
}
