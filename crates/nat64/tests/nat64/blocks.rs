// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources with port blocks: a port is in a block of its node's source, a block has one source, and unused blocks are
//! returned (RFC 6888 REQ-4, REQ-14).

use crate::harness::*;
use diolkos_nat64::config::{
    Endpoint4, Endpoint6, Limits, Nat64Config, PortBlocks, Protocol, Timeouts,
};
use diolkos_nat64::pool::BlockCount;
use diolkos_nat64::session::{BlockView, Event, Segment};
use diolkos_xlat::Reason;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const IDLE: f64 = 120.0;

fn blocks(ports: u16, per_source: u16) -> Nat64Config {
    Nat64Config {
        blocks: Some(PortBlocks {
            ports,
            per_source,
            source_prefix_len: 64,
        }),
        timeouts: Timeouts {
            port_block: Duration::from_secs(IDLE as u64),
            ..Timeouts::default()
        },
        ..config()
    }
}

/// A host of a /64 of a /48.
fn node(site: u16, subnet: u16, host: u64, port: u16) -> Endpoint6 {
    let network = 0x2001_0db8_0000_0000 | u64::from(site) << 16 | u64::from(subnet);
    let addr = Ipv6Addr::from_bits(u128::from(network) << 64 | u128::from(host));
    Endpoint6 { addr, port }
}

fn source(of: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(of.to_bits() >> 64 << 64)
}

/// The knowledge of a log that sees only events: the owner of each block.
#[derive(Default)]
struct Known(HashMap<(Ipv4Addr, u16), BlockView>);

impl Known {
    fn hear(&mut self, t: &mut Tables) {
        for event in std::mem::take(&mut t.watch.events) {
            match event {
                Event::BlockAllocated(view) => {
                    let before = self.0.insert((view.addr, view.first), view);
                    assert_eq!(before, None, "it was somebody's");
                }
                Event::BlockReleased(view) => {
                    let before = self.0.remove(&(view.addr, view.first));
                    assert_eq!(before, Some(view));
                }
                _ => {}
            }
        }
    }

    fn whose(&self, v4: Endpoint4) -> Option<Ipv6Addr> {
        let mut all = self.0.values();
        let there =
            |view: &&BlockView| view.addr == v4.addr && (view.first..=view.last).contains(&v4.port);
        all.find(there).map(|view| view.source)
    }

    /// Checks all invariants between the tables and this knowledge.
    fn check(&self, t: &Tables, per_source: usize, ports: u16) {
        let mut seen = HashSet::new();
        for view in t.state.bindings() {
            let binding = view.binding;
            assert!(
                seen.insert((binding.protocol, binding.v4)),
                "{binding:?} is there twice"
            );
            assert_eq!(
                self.whose(binding.v4),
                Some(source(binding.v6.addr)),
                "{binding:?}"
            );
            assert!(t.state.is_in_block(&binding));
        }
        let mut counts: HashMap<Ipv6Addr, usize> = HashMap::new();
        for view in self.0.values() {
            assert_eq!(view.last - view.first, ports - 1);
            *counts.entry(view.source).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count <= per_source));
        let real: HashSet<BlockView> = t.state.blocks_from(0, usize::MAX).into_iter().collect();
        assert_eq!(real, self.0.values().copied().collect());
        let BlockCount { free, all } = t.state.pool().blocks();
        assert_eq!(all - free, self.0.len() as u64);
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet: site, subnet, host, port, protocol.
    Out(u16, u16, u64, u16, bool),
    Unbind(usize),
    Lend(u16, u64, u16),
    GiveBack(usize),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3u16, 0..3u16, 1..4u64, any::<u16>(), any::<bool>())
            .prop_map(|(a, b, c, d, e)| Step::Out(a, b, c, d.max(1), e)),
        2 => any::<usize>().prop_map(Step::Unbind),
        2 => (0..3u16, 1..4u64, 0..2u16).prop_map(|(a, b, c)| Step::Lend(a, b, c)),
        1 => any::<usize>().prop_map(Step::GiveBack),
        1 => (1..400u16).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_port_is_in_a_block_of_its_source_alone(
        steps in prop::collection::vec(step(), 1..400), per_source in 1..4u16,
    ) {
        let mut config = blocks(64, per_source);
        config.pool4[0].ports = 1024..=2047;
        config.pool4[0].net = "203.0.113.0/31".parse().unwrap();
        let mut t = Tables::new(&config);
        let mut known = Known::default();
        let mut lent: Vec<(Protocol, Ipv4Addr, u16, Ipv6Addr)> = Vec::new();
        let mut draw = random();
        for step in steps {
            match step {
                Step::Out(site, subnet, host, port, tcp) => {
                    let (protocol, segment) = match tcp {
                        true => (Protocol::Tcp, Segment::Syn),
                        false => (UDP, Segment::Other),
                    };
                    let _ = t.out(protocol, node(site, subnet, host, port), "192.0.2.1:53", segment);
                }
                Step::Unbind(n) => {
                    let all: Vec<_> = t.state.bindings().collect();
                    if let Some(view) = all.get(n % all.len().max(1)) {
                        t.state.unbind(view.binding.protocol, view.binding.v4, &mut t.watch).unwrap();
                    }
                }
                Step::Lend(site, host, like) => {
                    let addr = node(site, 0, host, 0).addr;
                    let address = t.state.address_of(addr).unwrap();
                    let port = t.state.lend(UDP, (addr, address), like, &mut draw, &mut t.watch);
                    lent.extend(port.map(|port| (UDP, address, port, addr)));
                }
                Step::GiveBack(n) if !lent.is_empty() => {
                    let (protocol, address, port, _) = lent.swap_remove(n % lent.len());
                    t.state.pool_mut().give_back(protocol, address, port);
                }
                Step::GiveBack(_) => {}
                Step::Wait(seconds) => drop(t.wait(seconds.into())),
            }
            known.hear(&mut t);
            known.check(&t, per_source.into(), 64);
            for (_, addr, port, node) in &lent {
                let v4 = Endpoint4 { addr: *addr, port: *port };
                prop_assert_eq!(known.whose(v4), Some(source(*node)));
            }
        }
        // Everything is returned.
        for (protocol, address, port, _) in lent {
            t.state.pool_mut().give_back(protocol, address, port);
        }
        for _ in 0..20 {
            t.wait(1000.0);
        }
        known.hear(&mut t);
        prop_assert!(known.0.is_empty());
        prop_assert!(t.is_empty());
    }
}

#[test]
fn a_block_stays_for_a_while_after_its_last_use() {
    let mut t = Tables::new(&blocks(256, 4));
    t.out(UDP, node(1, 1, 1, 5000), "192.0.2.1:53", Segment::Other)
        .unwrap();
    let taken = |t: &Tables| {
        let BlockCount { free, all } = t.state.pool().blocks();
        all - free
    };
    assert_eq!(taken(&t), 1);
    // The session ends after five minutes, the block two minutes later.
    t.wait(302.0);
    assert_eq!((t.state.bindings().count(), taken(&t)), (0, 1));
    t.wait(100.0);
    // Another port restarts the timeout.
    t.out(UDP, node(1, 1, 1, 5001), "192.0.2.1:53", Segment::Other)
        .unwrap();
    t.wait(302.0);
    assert_eq!(taken(&t), 1);
    t.wait(119.0);
    t.wait(2.0);
    assert_eq!(taken(&t), 0);
}

/// RFC 6888 REQ-4: the limit of a source does not affect other sources.
#[test]
fn a_source_has_so_many_blocks_at_the_most() {
    let mut t = Tables::new(&blocks(64, 3));
    let mut got = 0;
    let refused = (1..=u16::MAX).find_map(|port| {
        let out = t.out(
            UDP,
            node(1, 1, u64::from(port % 7) + 1, port),
            "192.0.2.1:53",
            Segment::Other,
        );
        got += u32::from(out.is_ok());
        out.err()
    });
    assert_eq!((got, refused), (3 * 64, Some(Reason::SourceBindingLimit)));
    t.out(UDP, node(1, 2, 1, 5), "192.0.2.1:53", Segment::Other)
        .unwrap();
    // Each protocol has all ports of a block.
    t.out(
        Protocol::Tcp,
        node(1, 1, 1, 5),
        "192.0.2.1:53",
        Segment::Syn,
    )
    .unwrap();
}

/// A /48 whose owner creates as many sources as possible, with the default shares.
#[test]
fn one_site_does_not_take_all_blocks() {
    let mut config = blocks(512, 8);
    config.limits = Limits::default();
    let mut t = Tables::new(&config);
    let all = t.state.pool().blocks().all;
    assert_eq!(all, (65_536 - 1024) / 512);
    for subnet in 0..5000 {
        let _ = t.out(UDP, node(1, subnet, 1, 5), "192.0.2.1:53", Segment::Other);
    }
    let free = t.state.pool().blocks().free;
    assert!(free >= all / 4, "{free} of {all}");
    t.out(UDP, node(2, 1, 1, 5), "192.0.2.1:53", Segment::Other)
        .unwrap();
    // One host also leaves ports to other hosts of its link.
    let refused = (1..=u16::MAX).find_map(|port| {
        t.out(UDP, node(2, 1, 1, port), "192.0.2.1:53", Segment::Other)
            .err()
    });
    assert_eq!(refused, Some(Reason::HostBindingLimit));
    t.out(UDP, node(2, 1, 2, 5), "192.0.2.1:53", Segment::Other)
        .unwrap();
}

/// RFC 6056 section 3.3, for the ports of a block and for the choice of the block.
#[test]
fn ports_of_a_block_are_equally_likely() {
    let mut counts = HashMap::<u16, u32>::new();
    let mut starts = HashSet::new();
    let mut t = Tables::new(&blocks(64, 1));
    for n in 0..6400u32 {
        let v4 = t
            .out(
                UDP,
                node(1, 1, 1, 5000 + (n % 2) as u16),
                "192.0.2.1:53",
                Segment::Other,
            )
            .unwrap();
        *counts.entry(v4.port % 64).or_default() += 1;
        starts.insert(v4.port / 64);
        t.state.unbind(UDP, v4, &mut t.watch).unwrap();
        if n % 64 == 63 {
            t.wait(1.0);
            t.wait(IDLE + 1.0);
        }
    }
    assert_eq!(counts.len(), 64);
    assert!(
        counts.values().all(|count| (50..160).contains(count)),
        "{counts:?}"
    );
    assert!(starts.len() > 50, "{}", starts.len());
}

#[test]
fn sessions_that_come_back_bring_their_blocks() {
    let config = blocks(64, 4);
    let mut t = Tables::new(&config);
    for port in 1..=100 {
        t.out(UDP, node(1, 1, 1, port), "192.0.2.1:53", Segment::Other)
            .unwrap();
    }
    let before: HashSet<_> = t.state.blocks_from(0, usize::MAX).into_iter().collect();
    assert_eq!(before.len(), 2);
    let mut again = Tables::new(&config);
    for view in t.state.sessions() {
        let now = Duration::from_secs(1);
        again
            .state
            .restore_session(&view, now, &mut again.watch)
            .unwrap();
    }
    let mut known = Known::default();
    known.hear(&mut again);
    known.check(&again, 4, 64);
    assert_eq!(before, known.0.values().copied().collect());

    // A reload without changes reports no event.
    again.state.reconfigure(&config, &mut again.watch);
    assert_eq!(again.watch.events, []);
    known.check(&again, 4, 64);
    // Larger blocks: the old ones are released, and the sessions stay in new ones.
    again.state.reconfigure(&blocks(128, 4), &mut again.watch);
    known.hear(&mut again);
    known.check(&again, 4, 128);
    assert_eq!(again.sessions(), 100);
    again
        .state
        .reconfigure(&crate::harness::config(), &mut again.watch);
    known.hear(&mut again);
    assert!(known.0.is_empty() && again.sessions() == 100);
}
