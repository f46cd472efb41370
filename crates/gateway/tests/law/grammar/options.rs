// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of SYNs (RFC 9293 section 3.2): as systems send them, at every other place, and lists that make no sense.

use fastrand::Rng;

/// Bytes of the longest list.
const LONGEST: usize = 40;

/// Returns a list in whole words of 32 bits. `most` is the maximum segment size to which it may be lowered.
pub fn of_syn(most: Option<u16>, rng: &mut Rng) -> Vec<u8> {
    let most = most.unwrap_or(1440);
    let near = [most - 1, most, most + 1, 0, u16::MAX, 1460, rng.u16(..)];
    let [high, low] = near[rng.usize(..near.len())].to_be_bytes();
    let mss = [2, 4, high, low];
    let mut list = match rng.u8(..10) {
        0 => Vec::new(),
        // Most systems.
        1..6 => [&mss[..], &[4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]].concat(),
        // Behind others, at an even or an odd byte.
        6 => [&vec![1; rng.usize(1..20)], &mss[..], &[3, 3, 7]].concat(),
        7 => [&[3, 3, 7][..], &mss, &mss].concat(),
        // Impossible lengths.
        8 => [&[rng.u8(..12), rng.u8(..8)][..], &mss, &[2, rng.u8(..8)]].concat(),
        _ => (0..rng.usize(..LONGEST)).map(|_| rng.u8(..12)).collect(),
    };
    list.truncate(LONGEST);
    list.resize(list.len().next_multiple_of(4), 0);
    list
}
