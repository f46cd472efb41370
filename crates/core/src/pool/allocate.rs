// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which port of an address a new binding gets.
//!
//! Wishes, the strongest first: the port itself, if ports are to be preserved; the range below or
//! above 1024 (RFC 6146 sections 3.5.1.1 and 3.5.2.3); the parity (RFC 4787 REQ-4). Among the ports
//! that are left the choice is random (RFC 6056 section 3.3.2: a few draws, and if all of them are
//! taken, the next free port after the last).

use super::block::{Block, Parity};
use crate::config::nat64::Protocol;
use std::ops::RangeInclusive;

/// The first port that is not well-known.
const FIRST_USER_PORT: u16 = 1024;

/// So many ports are drawn before the next free one is taken.
const DRAWS: u32 = 8;

/// What a new binding wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Of which protocol.
    pub protocol: Protocol,
    /// The port, or the query identifier, that the node uses itself.
    pub port: u16,
    /// It would like this port most: the next after that of its other binding, or its own.
    pub best: Option<u16>,
}

/// A free port of the block, if there is one. It is not taken yet.
pub fn choose(block: &Block, wish: Wish, mut random: impl FnMut() -> u64) -> Option<u16> {
    if block.free_ports() == 0 {
        return None;
    }
    if let Some(best) = wish.best.filter(|&best| block.is_free(best)) {
        return Some(best);
    }
    let well_known = 0..=FIRST_USER_PORT - 1;
    let user = FIRST_USER_PORT..=u16::MAX;
    let parity = Parity::of(wish.port);
    match wish.protocol {
        Protocol::Icmp => draw(block, 0..=u16::MAX, Parity::Any, &mut random),
        Protocol::Tcp | Protocol::Udp => {
            let (own, other) = if wish.port < FIRST_USER_PORT {
                (well_known, user)
            } else {
                (user, well_known)
            };
            draw(block, own.clone(), parity, &mut random)
                .or_else(|| draw(block, own, Parity::Any, &mut random))
                .or_else(|| draw(block, other.clone(), parity, &mut random))
                .or_else(|| draw(block, other, Parity::Any, &mut random))
        }
    }
}

fn draw(
    block: &Block,
    range: RangeInclusive<u16>,
    parity: Parity,
    random: &mut impl FnMut() -> u64,
) -> Option<u16> {
    let len = u64::from(range.end() - range.start()) + 1;
    let fits = |port: u16| parity == Parity::Any || Parity::of(port) == parity;
    let mut bits = random();
    let mut drawn = *range.start();
    for at in 0..DRAWS {
        if at == DRAWS / 2 {
            bits = random();
        }
        // 16 bits each; a range is a power of two but for the part above 1023, where the error of
        // 1 in 64 does not help anybody to guess.
        drawn = range.start() + (((bits & 0xffff) * len) >> 16) as u16;
        if parity != Parity::Any && !fits(drawn) {
            drawn ^= 1;
        }
        bits >>= 16;
        if block.is_free(drawn) {
            return Some(drawn);
        }
    }
    block.find(&range, drawn, parity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A small generator (xorshift), so that a failure repeats.
    fn random() -> impl FnMut() -> u64 {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    fn wish(protocol: Protocol, port: u16) -> Wish {
        Wish {
            protocol,
            port,
            best: None,
        }
    }

    #[test]
    fn parity_and_range_are_kept() {
        let block = Block::new([1..=65535].into_iter());
        let mut random = random();
        for port in [1, 2, 1023, 1024, 5000, 5001, 65535] {
            for _ in 0..200 {
                let got = choose(&block, wish(Protocol::Udp, port), &mut random).unwrap();
                assert_eq!(got % 2, port % 2);
                assert_eq!(got < 1024, port < 1024, "{port} got {got}");
                assert_ne!(got, 0);
            }
        }
    }

    #[test]
    fn without_a_port_of_the_kind_another_is_given() {
        let mut block = Block::new([1024..=1027].into_iter());
        let mut random = random();
        let mut got = vec![];
        for _ in 0..4 {
            let port = choose(&block, wish(Protocol::Tcp, 80), &mut random).unwrap();
            block.take(port);
            got.push(port);
        }
        assert!(got[0] % 2 == 0 && got[1] % 2 == 0, "{got:?}");
        assert_eq!(got.iter().collect::<HashSet<_>>().len(), 4);
        assert_eq!(choose(&block, wish(Protocol::Tcp, 80), &mut random), None);
    }

    #[test]
    fn the_best_port_if_it_is_free() {
        let mut block = Block::new([1024..=65535].into_iter());
        let mut random = random();
        let wish = Wish {
            best: Some(5000),
            ..wish(Protocol::Udp, 5000)
        };
        assert_eq!(choose(&block, wish, &mut random), Some(5000));
        block.take(5000);
        assert_ne!(choose(&block, wish, &mut random), Some(5000));
    }

    #[test]
    fn ports_are_spread_over_the_whole_range() {
        let block = Block::new([1024..=65535].into_iter());
        let mut random = random();
        let mut buckets = [0u32; 63];
        for _ in 0..63_000 {
            let port = choose(&block, wish(Protocol::Icmp, 7), &mut random).unwrap();
            buckets[usize::from(port - 1024) / 1024] += 1;
        }
        // The first free port after the ones below 1024, which are not in the pool, comes up more often.
        assert!(
            buckets.iter().all(|count| (800..1300).contains(count)),
            "{buckets:?}"
        );
    }
}
