// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources with fixed ports (RFC 7422): no source gets a port of another one, and only blocks that are not fixed are
//! reported.

use crate::harness::*;
use diolkos_nat64::config::{
    Deterministic, Endpoint4, Endpoint6, Mappings, Nat64Config, Pools, PortBlocks, Protocol,
};
use diolkos_nat64::session::{Event, Segment};
use diolkos_xlat::Reason;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

const UDP: Protocol = Protocol::Udp;
const PEER: &str = "198.51.100.1:9";

/// Four sources of 64 fixed ports, and an overflow of blocks of 64.
fn fixed(sources: &str, blocks_per_source: u16) -> Nat64Config {
    let mut config = config();
    config.pool4[0].ports = 1024..=1535;
    config.blocks = (blocks_per_source > 0).then_some(PortBlocks {
        ports: 64,
        per_source: blocks_per_source,
        source_prefix_len: 64,
    });
    config.deterministic = Some(Deterministic {
        sources: vec![sources.parse().unwrap()],
        ports_per_source: Some(64),
        overflow_share: if blocks_per_source > 0 { 50 } else { 0 },
    });
    config.check().unwrap();
    config
}

fn mappings(config: &Nat64Config) -> Mappings {
    let pools = Arc::new(Pools::of(&config.pool4));
    Mappings::of(config, &pools).unwrap().unwrap()
}

fn udp(t: &mut Tables, from: Endpoint6) -> Result<Endpoint4, Reason> {
    t.out(UDP, from, PEER, Segment::Other)
}

fn node(subnet: u16, host: u16, port: u16) -> Endpoint6 {
    e6(&format!("2001:db8:0:{subnet:x}::{host:x}"), port)
}

fn told_of_blocks(t: &mut Tables) -> Vec<Event> {
    let events = std::mem::take(&mut t.watch.events);
    let of_block =
        |event: &Event| matches!(event, Event::BlockAllocated(_) | Event::BlockReleased(_));
    events.into_iter().filter(of_block).collect()
}

#[test]
fn without_an_overflow_a_source_has_its_ports_and_no_more() {
    let config = fixed("2001:db8::/62", 0);
    let mut t = Tables::new(&config);
    let mut ports = HashSet::new();
    for port in 5000..5064 {
        let v4 = udp(&mut t, node(1, port, port)).unwrap();
        // The second source has 1088 to 1151.
        assert!((1088..=1151).contains(&v4.port), "{v4}");
        ports.insert(v4.port);
    }
    assert_eq!(ports.len(), 64);
    assert_eq!(udp(&mut t, node(1, 1, 1)), Err(Reason::SourceBindingLimit));
    assert!(udp(&mut t, node(0, 1, 1)).is_ok());
    assert_eq!(udp(&mut t, node(4, 1, 1)), Err(Reason::SourceUnmapped));
    assert_eq!(told_of_blocks(&mut t), []);
}

#[test]
fn who_needs_more_gets_logged_blocks_of_the_overflow() {
    let config = fixed("2001:db8::/62", 2);
    let mapping = mappings(&config);
    let mut t = Tables::new(&config);
    let mut of = [0; 2];
    for port in 5000..5000 + 64 * 3 {
        let v4 = udp(&mut t, node(2, 1, port)).unwrap();
        of[usize::from(mapping.is_overflow(v4))] += 1;
        assert!(
            mapping.is_overflow(v4) || (1152..=1215).contains(&v4.port),
            "{v4}"
        );
    }
    assert_eq!(of, [64, 128]);
    assert_eq!(udp(&mut t, node(2, 1, 1)), Err(Reason::SourceBindingLimit));
    let blocks = told_of_blocks(&mut t);
    assert_eq!(blocks.len(), 2);
    for event in blocks {
        let Event::BlockAllocated(view) = event else {
            panic!("{event:?}")
        };
        assert!(
            view.first >= 1280 && view.last - view.first == 63,
            "{view:?}"
        );
        assert_eq!(view.source, node(2, 0, 0).addr);
    }
    assert!(t
        .state
        .bindings()
        .all(|view| t.state.is_in_block(&view.binding)));
}

/// RFC 7422 section 2, step 3, and RFC 6056 section 3.3: all ports of a range are equally likely.
#[test]
fn ports_of_a_range_are_drawn_from_all_of_it() {
    let mut t = Tables::new(&fixed("2001:db8::/62", 0));
    let mut counts = std::collections::HashMap::<u16, u32>::new();
    for _ in 0..6400 {
        let v4 = udp(&mut t, node(1, 1, 5000)).unwrap();
        *counts.entry(v4.port).or_default() += 1;
        t.state.unbind(UDP, v4, &mut t.watch).unwrap();
    }
    // The 32 even ones, 200 times each on average; the standard deviation is 14.
    assert!(counts.keys().all(|port| (1088..=1151).contains(port)));
    assert_eq!(counts.len(), 32);
    assert!(
        counts.values().all(|count| (130..270).contains(count)),
        "{counts:?}"
    );
}

/// A lease of the fast path contains only ports of the source.
#[test]
fn what_is_lent_is_the_sources() {
    let config = fixed("2001:db8::/62", 0);
    let mut t = Tables::new(&config);
    let node = node(3, 1, 1).addr;
    let address = t.state.address_of(node).unwrap();
    let mut draw = random();
    let mut lent = 0;
    while let Some(port) = t
        .state
        .lend(UDP, (node, address), lent % 2, &mut draw, &mut ())
    {
        assert!((1216..=1279).contains(&port), "{port}");
        lent += 1;
    }
    // A quarter is reserved for packets.
    assert_eq!(lent, 48);
    let stranger = e6("2001:db8:0:4::1", 1).addr;
    assert_eq!(t.state.address_of(stranger), None);
    assert_eq!(
        t.state.lend(UDP, (stranger, address), 0, draw, &mut ()),
        None
    );
}

/// Lent ports are returned before a block is opened and before a packet is refused (RFC 7422 section 2, step 3: a fixed
/// port as long as there is one).
#[test]
fn loans_are_wanted_back_before_fixed_ports_run_out() {
    for blocks_per_source in [0, 2] {
        let mut t = Tables::new(&fixed("2001:db8::/62", blocks_per_source));
        let borrower = node(1, 1, 1).addr;
        let address = t.state.address_of(borrower).unwrap();
        let mut draw = random();
        let mut lent = Vec::new();
        while let Some(port) = t.state.lend(
            UDP,
            (borrower, address),
            lent.len() as u16,
            &mut draw,
            &mut (),
        ) {
            lent.push(port);
        }
        // 48 of 64 are lent, which leaves 16. One of eight is 8: loans are to be returned when that many are left.
        for n in 1..=8 {
            assert_eq!(t.state.wanted_back(UDP, borrower), None);
            udp(&mut t, node(1, 2, 5000 + n)).unwrap();
        }
        let source = "2001:db8:0:1::/64".parse().unwrap();
        assert_eq!(t.state.wanted_back(UDP, borrower), Some(source));
        assert_eq!(t.state.wanted_back(Protocol::Tcp, borrower), None);
        assert_eq!(t.state.wanted_back(UDP, node(2, 1, 1).addr), None);
        for port in lent {
            t.state.pool_mut().give_back(UDP, address, port);
        }
        assert_eq!(t.state.wanted_back(UDP, borrower), None);
        for n in 9..=64 {
            let v4 = udp(&mut t, node(1, 2, 5000 + n)).unwrap();
            assert!((1088..=1151).contains(&v4.port), "{v4}");
        }
        assert_eq!(told_of_blocks(&mut t), []);
        // Without loans, nothing is to be returned, however few ports are left.
        assert_eq!(t.state.wanted_back(UDP, borrower), None);
    }
}

/// A source with overflow blocks gets a fixed port that has become free, of either parity, and lends it first.
#[test]
fn fixed_ports_come_before_those_of_blocks() {
    let mut t = Tables::new(&fixed("2001:db8::/62", 2));
    let all: Vec<Endpoint4> = (0..66)
        .map(|n| udp(&mut t, node(0, 1, 5000 + 2 * n)).unwrap())
        .collect();
    let is_fixed = |port: u16| (1024..=1087).contains(&port);
    assert_eq!(all.iter().filter(|v4| is_fixed(v4.port)).count(), 64);
    let odd = all.iter().find(|v4| v4.port % 2 == 1 && is_fixed(v4.port));
    let odd = *odd.unwrap();
    t.state.unbind(UDP, odd, &mut t.watch).unwrap();
    assert_eq!(udp(&mut t, node(0, 1, 6000)), Ok(odd));

    // While no fixed port is left, the existing block is lent, except for a quarter of it: 62 - 16.
    let (node, address) = (node(0, 1, 1).addr, t.state.address_of(node(0, 1, 1).addr));
    let whose = (node, address.unwrap());
    let mut draw = random();
    let mut lend = |t: &mut Tables, like| t.state.lend(UDP, whose, like, &mut draw, &mut ());
    for n in 0..46 {
        assert!(lend(&mut t, n).is_some_and(|port| !is_fixed(port)));
    }
    assert_eq!(lend(&mut t, 0), None);
    // Of 64 fixed ports, 16 free ones are reserved for packets.
    let fixed = all.iter().filter(|v4| is_fixed(v4.port) && **v4 != odd);
    for (free, &v4) in fixed.take(20).enumerate() {
        if free <= 16 {
            assert_eq!(lend(&mut t, free as u16), None, "{free} are free");
        }
        t.state.unbind(UDP, v4, &mut t.watch).unwrap();
    }
    let lent: Vec<u16> = (0..20).filter_map(|like| lend(&mut t, like)).collect();
    assert_eq!(lent.len(), 4);
    assert!(lent.iter().all(|&port| is_fixed(port)), "{lent:?}");
}

/// The share of a host counts lent ports as unused.
#[test]
fn loans_do_not_make_the_share_of_a_host_smaller() {
    let mut config = fixed("2001:db8::/62", 0);
    config.limits.host_share = 50;
    let mut t = Tables::new(&config);
    let borrower = node(1, 1, 1).addr;
    let address = t.state.address_of(borrower).unwrap();
    let mut draw = random();
    for like in 0..40 {
        let lent = t
            .state
            .lend(UDP, (borrower, address), like, &mut draw, &mut ());
        assert!(lent.is_some());
    }
    // All 64 are unbound: half of them are 32, although only 24 are free.
    for n in 0..24 {
        assert!(udp(&mut t, node(1, 2, 5000 + n)).is_ok(), "{n}");
    }
}

/// Bindings keep their ports, which are not in a block of their source, so a log names each of them.
#[test]
fn another_mapping_ends_no_session() {
    let mut t = Tables::new(&fixed("2001:db8::/62", 2));
    let before = udp(&mut t, node(0, 1, 5000)).unwrap();
    assert_eq!(before.port & !63, 1024);
    let config = fixed("2001:db8:0:1::/64", 2);
    t.state.reconfigure(&config, &mut t.watch);
    assert_eq!(udp(&mut t, node(0, 1, 5000)), Ok(before));
    let all: Vec<_> = t.state.bindings().collect();
    assert!(!t.state.is_in_block(&all[0].binding));
    assert_eq!(udp(&mut t, node(0, 1, 5001)), Err(Reason::SourceUnmapped));
    // The new owner of these ports gets the remaining ones.
    for port in 5000..5063 {
        let v4 = udp(&mut t, node(1, 1, port)).unwrap();
        assert!(v4.port & !63 == 1024 && v4 != before);
    }
    assert_eq!(told_of_blocks(&mut t), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For all packets and leases of hosts of many sources: the mapping or a logged block identifies the source.
    #[test]
    fn a_port_is_in_the_blocks_of_its_source(
        steps in prop::collection::vec((0..5u16, 1..4u16, 1u16.., 0..8u8), 1..500),
    ) {
        let config = fixed("2001:db8::/62", 2);
        let mapping = mappings(&config);
        let mut t = Tables::new(&config);
        let mut draw = random();
        for (subnet, host, port, what) in steps {
            let v6 = node(subnet, host, port);
            if what == 0 {
                if let Some(address) = t.state.address_of(v6.addr) {
                    t.state.lend(UDP, (v6.addr, address), port, &mut draw, &mut t.watch);
                }
                continue;
            }
            let protocol = if what < 4 { Protocol::Tcp } else { UDP };
            let segment = if what < 4 { Segment::Syn } else { Segment::Other };
            let _ = t.out(protocol, v6, PEER, segment);
        }
        let mut blocks = HashSet::new();
        for event in told_of_blocks(&mut t) {
            match event {
                Event::BlockAllocated(view) => prop_assert!(blocks.insert(view)),
                _ => prop_assert!(false, "{:?}", event),
            }
        }
        for view in t.state.bindings() {
            let (v4, v6) = (view.binding.v4, view.binding.v6);
            let source = v6.addr.to_bits() >> 64 << 64;
            let owner = mapping.source_of(v4).map(|net| net.addr());
            let given = blocks.iter().find(|b| (b.first..=b.last).contains(&v4.port)).map(|b| b.source);
            prop_assert_eq!(owner.or(given).map(|addr| addr.to_bits()), Some(source));
            prop_assert!(owner.is_some() != mapping.is_overflow(v4));
        }
    }
}
