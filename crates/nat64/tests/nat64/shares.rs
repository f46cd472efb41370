// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Greedy nodes, greedy networks and spoofed sources, with the default limits: a newcomer always finds room.

use crate::harness::*;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Limits, Nat64Config, Protocol};
use diolkos_nat64::session::{Inward, Segment};
use diolkos_xlat::Reason;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::Ipv6Addr;

const UDP: Protocol = Protocol::Udp;
const OTHER: Segment = Segment::Other;
/// Ports of one address in the pool.
const PORTS: u64 = 64_512;

fn shared(change: impl FnOnce(&mut Nat64Config)) -> Tables {
    let mut config = config();
    config.limits = Limits::default();
    change(&mut config);
    Tables::new(&config)
}

/// A node, given by its /48, a subnet of it, and a host number.
fn node(site: u16, subnet: u16, host: u64, port: u16) -> Endpoint6 {
    let network = 0x2001_0db8_0000_0000 | u64::from(site) << 16 | u64::from(subnet);
    Endpoint6 {
        addr: Ipv6Addr::from_bits(u128::from(network) << 64 | u128::from(host)),
        port,
    }
}

impl Tables {
    /// Opens bindings until one is refused or `most` is reached.
    fn grab(&mut self, most: u32, mut from: impl FnMut(u32) -> Endpoint6) -> (u32, Option<Reason>) {
        for n in 0..most {
            let node = from(n);
            self.watch.events.clear();
            if let Err(reason) = self.out(UDP, node, "192.0.2.1:53", OTHER) {
                return (n, Some(reason));
            }
        }
        (most, None)
    }

    fn free_ports(&self) -> u64 {
        self.state.pool().free_ports(UDP)
    }
}

/// Two /64s of different sites open as many UDP bindings as they can on the only address.
#[test]
fn two_sources_do_not_empty_a_pool_of_one_address() {
    let mut t = shared(|_| {});
    for site in [1, 2] {
        // Each uses as many addresses as it likes.
        let (_, refused) = t.grab(60_000, |n| node(site, 0, n.into(), 5000));
        assert_eq!(refused, Some(Reason::SourceBindingLimit));
    }
    assert!(t.free_ports() > PORTS / 2, "{} are free", t.free_ports());
    for (site, subnet) in [(3, 0), (1, 1)] {
        assert_eq!(
            t.grab(2000, |n| node(site, subnet, 1, n as u16)),
            (2000, None)
        );
    }
}

#[test]
fn a_host_leaves_something_to_its_neighbours() {
    let mut t = shared(|_| {});
    let (of_host, refused) = t.grab(60_000, |n| node(1, 0, 1, n as u16));
    assert_eq!(refused, Some(Reason::HostBindingLimit));
    // 50 % of 50 % of 75 % of 75 %, each rounded up.
    assert_eq!(of_host, 9072);
    let (of_next, _) = t.grab(60_000, |n| node(1, 0, 2, n as u16));
    assert!(of_next > of_host / 3, "{of_next}");
    // Sessions of one binding are limited in the same way: half of half of 75 % of 75 % of 4 000 000.
    let mut t = shared(|config| config.limits.sessions = 4000);
    let mut opened = 0;
    let refused = loop {
        let peer = format!("192.0.2.{}:{}", opened / 250, 1000 + opened % 250);
        match t.out(UDP, node(1, 0, 1, 1), &peer, OTHER) {
            Ok(_) => opened += 1,
            Err(reason) => break reason,
        }
    };
    assert_eq!((opened, refused), (563, Reason::HostSessionLimit));
}

/// A subscriber uses random addresses in its whole /48, or in a /56.
#[test]
fn a_site_leaves_something_whatever_addresses_it_makes_up() {
    for (subnets, share) in [(0x1_0000, 75), (0x100, 57)] {
        let mut t = shared(|_| {});
        let mut random = random();
        let mut refused = HashMap::<Reason, u32>::new();
        let before = t.state.memory();
        for _ in 0..100_000 {
            let from = node(1, (random() % subnets) as u16, random(), random() as u16);
            if let Err(reason) = t.out(UDP, from, "192.0.2.1:53", OTHER) {
                *refused.entry(reason).or_default() += 1;
            }
            t.watch.events.clear();
        }
        // The less is left to the site, the smaller is the part of its sources and hosts.
        let by_shares = [
            Reason::SiteBindingLimit,
            Reason::SourceBindingLimit,
            Reason::HostBindingLimit,
        ];
        assert!(
            refused.keys().all(|reason| by_shares.contains(reason)),
            "{refused:?}"
        );
        assert!(refused.values().sum::<u32>() > 40_000, "{refused:?}");
        let taken = PORTS - t.free_ports();
        assert!(taken <= PORTS * share / 100, "{taken}");
        // Addresses without a binding are forgotten.
        assert!(u64::from(t.state.counts().sources) <= taken);
        let bytes = (t.state.memory() - before) as u64 / taken;
        assert!(bytes < 500, "{bytes} for each");
        assert_eq!(t.grab(1000, |n| node(2, 0, 1, n as u16)), (1000, None));
        t.wait(301.0);
        assert!(t.is_empty());
    }
}

#[test]
fn a_refusal_says_whose_share_it_is() {
    let only = |site, outside| {
        move |config: &mut Nat64Config| {
            config.limits = Limits {
                sessions: 400,
                site_share: site,
                outside_share: outside,
                ..without_shares(Limits::default())
            };
        }
    };
    let mut t = shared(only(75, 100));
    let peer = |n: u32| format!("192.0.2.1:{n}");
    // 75 % of 75 %: the node is in a /56 and in a /48.
    let refused = (1..).find_map(|n| t.out(UDP, node(1, 0, 1, 1), &peer(n), OTHER).err());
    assert_eq!(
        (refused, t.sessions()),
        (Some(Reason::SiteSessionLimit), 225)
    );
    let mut t = shared(|config| {
        only(75, 100)(config);
        (config.limits.sessions, config.limits.bindings) = (4000, 400);
    });
    let (got, refused) = t.grab(400, |n| node(1, 0, 1, n as u16));
    assert_eq!((got, refused), (225, Some(Reason::SiteBindingLimit)));
    let mut t = shared(only(100, 25));
    let v4 = t.out(UDP, node(1, 0, 1, 1), &peer(1), OTHER).unwrap();
    let refused = (2..).find_map(|n| t.inward(UDP, v4, &peer(n), OTHER).err());
    // A quarter of 399, rounded up, in addition to the node's own.
    assert_eq!(
        (refused, t.sessions()),
        (Some(Reason::OutsideSessionLimit), 101)
    );
}

/// The same percentages suit a large pool, where the table is the scarce resource.
#[test]
fn a_large_pool_is_limited_by_the_tables() {
    let mut t = shared(|config| {
        config.pool4[0].net = "203.0.0.0/20".parse().unwrap();
        config.limits.bindings = 20_000;
    });
    let (of_source, refused) = t.grab(60_000, |n| node(1, 0, n.into(), 5000));
    assert_eq!(refused, Some(Reason::SourceBindingLimit));
    assert_eq!(of_source, 5625);
    assert_eq!(t.grab(1000, |n| node(2, 0, 1, n as u16)), (1000, None));
}

#[test]
fn one_protocol_does_not_use_up_the_ports_of_another() {
    let mut t = shared(|_| {});
    t.grab(60_000, |n| node(1, 0, 1, n as u16));
    let tcp = t.out(
        Protocol::Tcp,
        node(1, 0, 1, 80),
        "192.0.2.1:80",
        Segment::Syn,
    );
    assert!(tcp.is_ok());
}

/// A single node may use the whole limit that the operator sets for a source: a limit of 2000 ports for a
/// subscriber is meant for the subscriber's CLAT.
#[test]
fn a_limit_of_the_operator_is_not_shared_again() {
    let mut t = shared(|config| config.limits.bindings_per_source = 2000);
    let grabbed = t.grab(3000, |n| node(1, 0, 1, n as u16));
    assert_eq!(grabbed, (2000, Some(Reason::SourceBindingLimit)));
}

/// Nodes with one bound port each, and an attacker that spoofs sources.
fn bound(t: &mut Tables, nodes: u16) -> Vec<Endpoint4> {
    (0..nodes)
        .map(|n| t.out(UDP, node(n, 0, 1, 5000), "192.0.2.1:53", OTHER))
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn strangers_do_not_fill_the_table() {
    let mut t = shared(|config| config.limits.sessions = 10_000);
    let ports = bound(&mut t, 20);
    let mut random = random();
    let mut refused = HashMap::<Reason, u32>::new();
    // The existing sessions are kept alive by repeated packets.
    for round in 0..3 {
        for n in 0..30_000u32 {
            let peer = format!("198.51.{}.{}:{}", n >> 8 & 255, n & 255, 1024 + n % 7);
            let to = ports[(random() % 20) as usize];
            if let Err(reason) = t.inward(UDP, to, &peer, OTHER) {
                *refused.entry(reason).or_default() += 1;
            }
            t.watch.events.clear();
        }
        t.wait(100.0);
        // A quarter of all sessions except those of the nodes, rounded up.
        assert!(
            t.sessions() <= 20 + 2495,
            "{} in round {round}",
            t.sessions()
        );
        let (got, refused) = t.grab(500, |n| node(100 + round, 0, 1, n as u16));
        assert_eq!((got, refused), (500, None));
    }
    let by_shares = [
        Reason::OutsideSessionLimit,
        Reason::OutsideNodeLimit,
        Reason::OutsidePeerLimit,
    ];
    assert!(
        refused.keys().all(|reason| by_shares.contains(reason)),
        "{refused:?}"
    );
    assert!(refused.values().sum::<u32>() > 50_000, "{refused:?}");
    t.wait(301.0);
    assert!(t.is_empty());
}

/// One port is flooded: other nodes, and other ports of the node, can still be reached.
#[test]
fn strangers_at_one_port_leave_the_others_reachable() {
    let mut t = shared(|config| config.limits.sessions = 10_000);
    let ports = bound(&mut t, 2);
    let second = t
        .out(UDP, node(0, 0, 1, 5001), "192.0.2.1:53", OTHER)
        .unwrap();
    let mut last = Ok(Inward::Held);
    for n in 0..20_000u32 {
        let peer = format!("198.51.{}.{}:1024", n >> 8, n & 255);
        last = t.inward(UDP, ports[0], &peer, OTHER);
    }
    assert_eq!(last, Err(Reason::OutsideNodeLimit));
    for port in [ports[1], second] {
        for n in 0..20 {
            let peer = format!("192.0.2.9:{}", 1000 + n);
            assert!(t.inward(UDP, port, &peer, OTHER).is_ok());
        }
    }
    // The node itself opens sessions without this limit.
    assert_eq!(t.grab(500, |n| node(0, 0, 1, 6000 + n as u16)), (500, None));
}

/// A peer with a real address scans the pool.
#[test]
fn one_stranger_has_a_share_of_what_strangers_have() {
    let mut t = shared(|config| config.limits.sessions = 10_000);
    let ports = bound(&mut t, 50);
    let mut refused = HashMap::<Reason, u32>::new();
    for n in 0..30_000u16 {
        let to = ports[usize::from(n) % 50];
        if let Err(reason) = t.inward(UDP, to, &format!("198.51.100.1:{n}"), OTHER) {
            *refused.entry(reason).or_default() += 1;
        }
    }
    assert!(refused[&Reason::OutsidePeerLimit] > 20_000, "{refused:?}");
    for (n, &port) in ports.iter().enumerate() {
        let peer = format!("198.51.100.2:{n}");
        assert!(t.inward(UDP, port, &peer, OTHER).is_ok());
    }
}

/// A peer with a real address does not block a published port for others, however many source ports it uses.
#[test]
fn one_stranger_leaves_a_port_to_others() {
    let mut t = shared(|config| config.limits.sessions = 2000);
    let ports = bound(&mut t, 1);
    let mut last = Ok(Inward::Held);
    for n in 0..30_000u16 {
        last = t.inward(UDP, ports[0], &format!("198.51.100.1:{n}"), OTHER);
    }
    assert_eq!(last, Err(Reason::OutsidePeerLimit));
    for n in 0..5 {
        let peer = format!("198.51.100.2:{n}");
        assert!(t.inward(UDP, ports[0], &peer, OTHER).is_ok(), "{n}");
    }
}

/// Sessions that began when there was room are restored after a restart, in any order.
#[test]
fn everything_comes_back() {
    let mut before = shared(|config| config.limits.sessions = 2000);
    for site in [1, 2, 3] {
        before.grab(1000, |n| node(site, 0, n.into(), 5000));
    }
    let mut views: Vec<_> = before.state.sessions().collect();
    views.reverse();
    let mut after = shared(|config| config.limits.sessions = 2000);
    for view in &views {
        let now = after.now;
        let restored = after.state.restore_session(view, now, &mut after.watch);
        assert_eq!(restored, Ok(()));
    }
    assert_eq!(after.sessions() as usize, views.len());
}

#[derive(Clone, Debug)]
enum Step {
    Out(Endpoint6, u16),
    In(u16, u16),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u16, 0..600u16, 0..3u64, 0..9u16, 1..20u16).prop_map(
            |(site, subnet, host, port, peer)| Step::Out(node(site, subnet, host, port), peer)),
        3 => (1024..1200u16, 1..400u16).prop_map(|(port, peer)| Step::In(port, peer)),
        1 => (1..200u16).prop_map(Step::Wait),
    ]
}

proptest! {
    /// For all actions of three sites and of spoofed sources, a fourth site gets in; and the counters equal a
    /// full recount.
    #[test]
    fn whoever_comes_next_gets_in(steps in prop::collection::vec(step(), 1..600)) {
        let mut config = config();
        config.limits = Limits { sessions: 300, bindings: 200, ..Limits::default() };
        config.pool4[0].ports = 1024..=1199;
        let mut t = Tables::new(&config);
        for step in steps {
            match step {
                Step::Out(node, peer) => {
                    let _ = t.out(UDP, node, &format!("192.0.2.1:{peer}"), OTHER);
                }
                Step::In(port, peer) => {
                    let to = e4(&format!("203.0.113.1:{port}"));
                    let _ = t.inward(UDP, to, &format!("198.51.100.{}:{peer}", peer % 9), OTHER);
                }
                Step::Wait(seconds) => {
                    t.wait(seconds.into());
                }
            }
        }
        let nodes: Vec<_> = t.state.bindings().map(|view| view.binding.v6.addr).collect();
        let usage = |t: &Tables| -> Vec<_> { nodes.iter().map(|&at| t.state.usage(at)).collect() };
        let (before, counts) = (usage(&t), t.state.counts());
        t.state.reconfigure(&config, &mut t.watch);
        prop_assert_eq!(usage(&t), before);
        prop_assert_eq!(t.state.counts(), counts);
        prop_assert!(t.out(UDP, node(9, 0, 1, 1), "192.0.2.1:1", OTHER).is_ok());
        t.wait(301.0);
        prop_assert!(t.is_empty());
    }
}
