// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses the port of a new binding on an address.
//!
//! Preferences, strongest first: the node's own port, if ports are preserved; the range below or
//! above 1024 (RFC 6146 sections 3.5.1.1 and 3.5.2.3); the parity (RFC 4787 REQ-4). Each remaining
//! free port is equally likely (RFC 6056 section 3.3), even if few are free.

use super::block::{Block, Class, Parity};
use crate::config::Protocol;

/// The first port that is not well-known.
const FIRST_USER_PORT: u16 = 1024;

/// The preferences of a new binding.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The protocol.
    pub protocol: Protocol,
    /// The port or query identifier that the node uses.
    pub port: u16,
    /// The most preferred port: the one after the port of its other binding, or the node's own.
    pub best: Option<u16>,
}

/// Returns a free port of the block, or None if there is none. Does not take it.
pub fn choose(block: &Block, wish: Wish, mut random: impl FnMut() -> u64) -> Option<u16> {
    if block.free_ports() == 0 {
        return None;
    }
    if let Some(best) = wish.best.filter(|&best| block.is_free(best)) {
        return Some(best);
    }
    let parity = Parity::of(wish.port);
    let kinds = match wish.protocol {
        Protocol::Icmp => return draw(block, Class::All, Parity::Any, &mut random),
        Protocol::Tcp | Protocol::Udp if wish.port < FIRST_USER_PORT => {
            [Class::WellKnown, Class::User]
        }
        Protocol::Tcp | Protocol::Udp => [Class::User, Class::WellKnown],
    };
    kinds.into_iter().find_map(|class| {
        draw(block, class, parity, &mut random)
            .or_else(|| draw(block, class, Parity::Any, &mut random))
    })
}

fn draw(
    block: &Block,
    class: Class,
    parity: Parity,
    random: &mut impl FnMut() -> u64,
) -> Option<u16> {
    let free = u64::from(block.free_of(class, parity));
    // With 64 random bits, the bias between ports is too small to measure.
    let n = random().checked_rem(free)?;
    block.nth_free(class, parity, n as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::block::PortSet;
    use std::collections::HashSet;
    use std::ops::RangeInclusive;
    use std::sync::Arc;

    fn block<const N: usize>(ranges: [RangeInclusive<u16>; N]) -> Block {
        Block::new(Arc::new(PortSet::new(ranges.into_iter())))
    }

    /// A small generator (xorshift) with a fixed seed, so that failures are reproducible.
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
        let block = block([1..=65535]);
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
        let mut block = block([1024..=1027]);
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
        let mut block = block([1024..=65535]);
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
    fn every_free_port_is_equally_likely() {
        // A narrow range and a distant one, with gaps where ports are taken.
        let mut block = block([2000..=2063, 50_000..=50_063]);
        for port in (2000..2064)
            .chain(50_000..50_064)
            .filter(|port| port % 4 > 1)
        {
            block.take(port);
        }
        let mut random = random();
        let mut counts = std::collections::HashMap::<u16, u32>::new();
        for n in 0..64_000 {
            let wish = wish(Protocol::Udp, 5000 + n % 2);
            *counts
                .entry(choose(&block, wish, &mut random).unwrap())
                .or_default() += 1;
        }
        assert_eq!(counts.len(), 64);
        assert!(
            counts.values().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }
}
