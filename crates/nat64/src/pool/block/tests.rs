// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free ports compared with a set, and the memory of a block.

use super::*;
use proptest::prelude::*;

fn block(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> Block {
    Block::new(Arc::new(PortSet::new(ranges.into_iter())))
}

/// A pool of 65 536 addresses has this many blocks for each protocol.
#[test]
fn a_block_keeps_what_is_taken_and_not_what_is_free() {
    let kept = |block: &Block| {
        let lent = block.lent.as_deref().into_iter().flatten();
        block.free.iter().chain(lent).flatten().count()
    };
    let mut block = block([1024..=65535]);
    assert_eq!(kept(&block), 0);
    for port in [2048, 2049, 3071] {
        block.take(port);
    }
    block.lend(50_000);
    assert_eq!(kept(&block), 3);
    assert!(block.end_loan(50_000) && !block.end_loan(50_000));
    for port in [2048, 2049, 3071, 50_000] {
        assert!(!block.is_free(port));
        block.put_back(port);
    }
    assert_eq!((kept(&block), block.free_ports()), (0, 64_512));
    assert!(size_of::<Block>() < 1024, "{}", size_of::<Block>());
}

#[test]
fn the_last_free_port_is_found() {
    let mut block = block([0..=65535]);
    for port in 0..=65535 {
        if port != 40_001 {
            block.take(port);
        }
    }
    assert_eq!(block.free_ports(), 1);
    assert_eq!(block.nth_free(Class::User, Parity::Odd, 0), Some(40_001));
    assert_eq!(block.nth_free(Class::All, Parity::Any, 0), Some(40_001));
    assert_eq!(block.nth_free(Class::All, Parity::Even, 0), None);
    assert_eq!(block.nth_free(Class::WellKnown, Parity::Any, 0), None);
    block.take(40_001);
    assert_eq!(block.nth_free(Class::All, Parity::Any, 0), None);
}

proptest! {
    #[test]
    fn a_block_has_the_ports_of_its_ranges(
        ranges in prop::collection::vec((any::<u16>(), any::<u16>()), 0..4), near in any::<u16>(),
    ) {
        let ranges: Vec<_> = ranges.iter().map(|&(a, b)| a.min(b)..=a.max(b)).collect();
        let block = block(ranges.clone());
        let edges = ranges.iter().flat_map(|r| [*r.start(), *r.end()]);
        for port in edges.flat_map(|p| [p, p.wrapping_add(1), p.wrapping_sub(1)]).chain([near]) {
            let expected = ranges.iter().any(|ports| ports.contains(&port));
            prop_assert_eq!((block.is_pooled(port), block.is_free(port)), (expected, expected));
        }
    }

    #[test]
    fn the_nth_free_port_is_the_one_that_looking_at_every_port_finds(
        taken in prop::collection::vec(900u16..1300, 0..400),
        n in 0u32..200, class in 0..3, parity in 0..3,
    ) {
        let mut block = block([950..=1280]);
        for port in taken {
            if block.is_free(port) {
                block.take(port);
            }
        }
        let class = [Class::All, Class::WellKnown, Class::User][class as usize];
        let parity = [Parity::Any, Parity::Even, Parity::Odd][parity as usize];
        let ports = match class {
            Class::All => 0..=u16::MAX,
            Class::WellKnown => 0..=1023,
            Class::User => 1024..=u16::MAX,
        };
        let fits = |port: &u16| {
            block.is_free(*port) && (parity == Parity::Any || Parity::of(*port) == parity)
        };
        let free: Vec<u16> = ports.filter(fits).collect();
        prop_assert_eq!(block.free_of(class, parity) as usize, free.len());
        prop_assert_eq!(block.nth_free(class, parity, n), free.get(n as usize).copied());
    }
}
