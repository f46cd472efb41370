// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another configuration: allowed entries stay, all others end.

use crate::harness::*;
use diolkos_nat64::config::{Filtering, Protocol};
use diolkos_nat64::session::{Event, Inward, Origin, Segment};
use diolkos_xlat::Reason;
use std::collections::HashSet;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const OTHER: Segment = Segment::Other;
const PEER: &str = "192.0.2.1:53";

#[test]
fn a_configuration_that_allows_all_of_it_changes_nothing() {
    let mut t = Tables::new(&config());
    let before = some_sessions(&mut t);
    let mut other = config();
    other.filtering = Filtering::AddressDependent;
    t.state.reconfigure(&other, &mut t.watch);
    assert_eq!(sorted(&t), before);
}

#[test]
fn another_configuration_keeps_what_it_allows() {
    let kept_static = binding(TCP, "203.0.113.1:2001", e6("2001:db8::5", 1));
    let lost_static = binding(TCP, "203.0.113.1:2002", e6("2001:db8::6", 1));
    let by_operator = binding(TCP, "203.0.113.1:2003", e6("2001:db8::7", 1));
    let mut old = config();
    old.bindings = vec![kept_static, lost_static];
    let mut t = Tables::new(&old);
    t.state.bind(by_operator, &mut ()).unwrap();
    for v4 in ["203.0.113.1:2001", "203.0.113.1:2002", "203.0.113.1:2003"] {
        t.inward(TCP, e4(v4), PEER, Segment::Syn).unwrap();
    }
    let mut nodes = vec![];
    for n in 1..200 {
        let node = e6("2001:db8::1", n);
        nodes.push((node, t.out(UDP, node, PEER, OTHER).unwrap()));
    }

    let mut new = old.clone();
    new.bindings = vec![
        kept_static,
        binding(UDP, &nodes[0].1.to_string(), e6("2001:db8::9", 9)),
    ];
    new.pool4[0].ports = 1024..=32767;
    new.filtering = Filtering::AddressDependent;
    t.watch.events.clear();
    t.state.reconfigure(&new, &mut t.watch);

    let stays = |v4: &diolkos_nat64::config::Endpoint4| v4.port <= 32767;
    let expected: HashSet<_> = nodes[1..].iter().filter(|(_, v4)| stays(v4)).collect();
    let udp: Vec<_> = t
        .state
        .bindings()
        .filter(|b| b.binding.protocol == UDP && b.origin == Origin::Dynamic)
        .map(|b| (b.binding.v6, b.binding.v4))
        .collect();
    assert_eq!(udp.iter().collect::<HashSet<_>>(), expected);
    assert!(expected.len() > 50 && expected.len() < 150);
    let tcp: HashSet<_> = t
        .state
        .bindings()
        .filter(|b| b.binding.protocol == TCP)
        .map(|b| b.binding)
        .collect();
    assert_eq!(tcp, HashSet::from([kept_static, by_operator]));
    assert_eq!(
        t.state.v4_of(UDP, e6("2001:db8::9", 9)),
        Some(nodes[0].1),
        "the new binding of the configuration has taken its place"
    );
    let closed = t
        .watch
        .events
        .iter()
        .filter(|event| matches!(event, Event::BindingClosed(_)))
        .count();
    assert_eq!(closed, 199 - expected.len() + 1);
    // The new filtering applies, with the permissions of existing sessions.
    let &(node, v4) = expected.iter().next().unwrap();
    assert_eq!(t.inward(UDP, *v4, PEER, OTHER), Ok(Inward::Node(*node, 0)));
    assert_eq!(
        t.inward(UDP, *v4, "192.0.2.2:1", OTHER),
        Err(Reason::Filtered)
    );
    t.wait(301.0);
    assert_eq!(t.sessions(), 0);
    assert_eq!(t.state.counts().permissions, 0);
    assert_eq!(
        t.state.pool().free_ports(UDP),
        32768 - 1024 - u64::from(stays(&nodes[0].1))
    );
}

#[test]
fn a_prefix_that_moves_takes_its_sessions_along_and_one_that_goes_ends_them() {
    let mut t = Tables::new(&config());
    let node = e6("2001:db8::1", 1);
    for (prefix, peer) in [(0, "192.0.2.1:1"), (1, "192.0.2.2:1")] {
        let packet = diolkos_nat64::session::Outbound {
            protocol: UDP,
            v6: node,
            peer: e4(peer),
            prefix,
            segment: OTHER,
        };
        t.state.outbound(t.now, &packet, random(), &mut ()).unwrap();
    }
    let mut new = config();
    new.translator.pref64.remove(0);
    t.state.reconfigure(&new, &mut ());
    let left: Vec<_> = t.state.sessions().collect();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].peer, left[0].prefix), (e4("192.0.2.2:1"), 0));
    t.wait(301.0);
    assert!(t.is_empty());
}

#[test]
fn another_source_prefix_counts_again() {
    let mut t = Tables::new(&config());
    for n in 1..=4 {
        t.out(UDP, e6(&format!("2001:db8::{n}"), 1), PEER, OTHER)
            .unwrap();
    }
    assert_eq!(t.state.counts().sources, 1);
    let mut new = config();
    new.limits.source_prefix_len = 128;
    t.state.reconfigure(&new, &mut ());
    assert_eq!(t.state.counts().sources, 4);
    t.wait(301.0);
    assert!(t.is_empty());
}

/// Whether few bindings end or all of them, each session ends once, before its binding, and nothing is counted any more.
#[test]
fn of_what_ends_each_session_ends_once_and_before_its_binding() {
    for (last_port, lost) in [
        (1100, 0..10),
        (5000, 5..36),
        (30_000, 80..220),
        (65_000, 280..301),
    ] {
        let mut t = Tables::new(&config());
        let mut bindings = vec![];
        for n in 1..=300 {
            let node = e6(&format!("2001:db8:{:x}::1", n % 7), n);
            let mapped = t.out(UDP, node, PEER, OTHER).unwrap();
            for peer in 1..n % 5 {
                t.out(UDP, node, &format!("192.0.2.2:{peer}"), OTHER)
                    .unwrap();
            }
            bindings.push((node, mapped));
        }
        let before: Vec<_> = t.state.sessions().collect();
        let mut new = config();
        new.pool4[0].ports = last_port + 1..=65535;
        let is_lost = |v4: &diolkos_nat64::config::Endpoint4| v4.port <= last_port;

        t.watch.events.clear();
        t.state.reconfigure(&new, &mut t.watch);

        let (mut ended, mut closed) = (HashSet::new(), HashSet::new());
        for event in &t.watch.events {
            match event {
                Event::SessionClosed(view) => {
                    assert!(!closed.contains(&view.binding.v4), "its binding is closed");
                    assert!(ended.insert((view.binding.v4, view.peer)), "it ends twice");
                }
                Event::BindingClosed(binding) => assert!(closed.insert(binding.v4)),
                _ => {}
            }
        }
        let expected: HashSet<_> = before
            .iter()
            .filter(|view| is_lost(&view.binding.v4))
            .map(|view| (view.binding.v4, view.peer))
            .collect();
        assert_eq!(ended, expected, "{last_port}");
        let of_lost = bindings.iter().filter(|(_, v4)| is_lost(v4));
        assert_eq!(closed, of_lost.map(|(_, v4)| *v4).collect(), "{last_port}");
        assert!(lost.contains(&closed.len()), "{}", closed.len());
        let left = (before.len() - ended.len()) as u32;
        assert_eq!(t.state.sessions().count() as u32, left);
        for (node, v4) in &bindings {
            let usage = t.state.usage(node.addr);
            assert_eq!(
                (usage.sessions, usage.bindings),
                (left, 300 - closed.len() as u32)
            );
            let is_there = t.state.v4_of(UDP, *node) == Some(*v4);
            assert_eq!(is_there, !is_lost(v4), "{last_port}");
        }
        // What is left can be found, and ends in its time.
        t.state.expire(
            t.now + std::time::Duration::from_secs(1000),
            usize::MAX,
            &mut t.watch,
            |_| {},
        );
        assert_eq!(t.state.sessions().count() + t.state.bindings().count(), 0);
    }
}
