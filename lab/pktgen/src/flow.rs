// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 4-tuples of flows: all different, in a pseudorandom order (RFC 4814 section 4, RFC 9693 section 4.4).
//!
//! number of the flow → scattered index in the space of all 4-tuples → source port, destination port, addresses
//!
//! `bpf/flow.h` contains the same algorithm.

use crate::kernel::Plan;

/// A 4-tuple. With ICMP, the source port is the identifier, and the destination port the sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// Source port.
    pub sport: u32,
    /// Destination port.
    pub dport: u32,
    /// The last 32 bits of the source address.
    pub src: u32,
    /// The last 32 bits of the destination address.
    pub dst: u32,
}

/// The 4-tuple of a flow.
pub fn flow_at(plan: &Plan, number: u64) -> Flow {
    let mut x = scatter_in(number, plan.scatter, plan.space, plan.space_bits);
    let mut one_of = |count: u32| {
        let count = u64::from(count.max(1));
        let chosen = (x % count) as u32;
        x /= count;
        chosen
    };
    Flow {
        sport: plan.sport_low + one_of(plan.sports),
        dport: plan.dport_low + one_of(plan.dports),
        src: plan.src_low.wrapping_add(one_of(plan.srcs)),
        dst: plan.dst_low.wrapping_add(one_of(plan.dsts)),
    }
}

/// The least number of bits that can represent all numbers below `space`.
pub fn bits_of(space: u64) -> u32 {
    u64::BITS - space.saturating_sub(1).leading_zeros()
}

/// A bijection of the numbers with `bits` bits: each step of each round is a bijection.
fn scatter(x: u64, start: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let half = bits.div_ceil(2);
    // The addition avoids that 0 maps to 0, and that small numbers have small steps.
    let mut x = x.wrapping_add(start).wrapping_add(0x94d0_49bb_1331_11eb) & mask;
    x ^= x >> half;
    for factor in [
        0x9e37_79b9_7f4a_7c15,
        0xd6e8_feb8_6659_fd93,
        0xbf58_476d_1ce4_e5b9,
    ] {
        x = x.wrapping_mul(factor) & mask;
        x ^= x >> half;
    }
    x
}

/// A bijection of the numbers below `space`: a result outside of the space is scattered again.
fn scatter_in(x: u64, start: u64, space: u64, bits: u32) -> u64 {
    if space <= 1 {
        return 0;
    }
    let mut x = x;
    // More than half of the numbers are inside the space, so the loop ends soon.
    for _ in 0..64 {
        x = scatter(x, start, bits);
        if x < space {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_used_twice_and_none_is_left_out() {
        for space in [1, 2, 3, 5, 1000, 4096, 64512, 100_003] {
            for start in [0, 1, 0x1234_5678_9abc_def0] {
                let mut places: Vec<u64> = (0..space)
                    .map(|i| scatter_in(i, start, space, bits_of(space)))
                    .collect();
                places.sort_unstable();
                assert_eq!(places, (0..space).collect::<Vec<_>>(), "{space} {start}");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        for space in [64512 * 49151, 64512 << 16, 100_000] {
            let places: Vec<u64> = (0..1000)
                .map(|i| scatter_in(i, 0, space, bits_of(space)))
                .collect();
            let ascending = places.windows(2).filter(|w| w[0] < w[1]).count();
            assert!((450..550).contains(&ascending), "{ascending}");
            // A regular sequence would have only a few different steps, also modulo the space.
            let mut steps: Vec<u64> = places
                .windows(2)
                .map(|w| (w[1] + space - w[0]) % space / (space / 10_000))
                .collect();
            steps.sort_unstable();
            steps.dedup();
            assert!(steps.len() > 900, "{}", steps.len());
        }
    }

    #[test]
    fn bits() {
        assert_eq!([1, 2, 3, 4, 5, 1 << 32].map(bits_of), [0, 1, 2, 2, 3, 32]);
    }
}
