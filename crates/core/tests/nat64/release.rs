// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slice that another gateway gets: what it has here ends, and nothing else.

use crate::harness::*;
use diolkos_core::config::nat64::{Endpoint6, Protocol};
use diolkos_core::session::{BindingView, Event, Origin, Segment};
use diolkos_core::slice::SliceId;
use std::collections::HashSet;

const PEERS: [&str; 3] = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"];

fn segment(protocol: Protocol) -> Segment {
    match protocol {
        Protocol::Tcp => Segment::Syn,
        _ => Segment::Other,
    }
}

/// Bindings of all kinds in every slice, with up to three sessions each.
fn full() -> Tables {
    let mut config = sliced_config();
    config.bindings = vec![
        binding(Protocol::Tcp, "203.0.113.0:2000", e6("2001:db8:aa::1", 1)),
        binding(Protocol::Udp, "203.0.113.1:60000", e6("2001:db8:aa::1", 1)),
    ];
    let mut t = Tables::new(&config);
    (0..8).for_each(|id| t.state.open_slice(id));
    for n in 0..40u16 {
        let operators = binding(
            Protocol::Udp,
            &format!("203.0.113.1:{}", 1100 + n),
            e6("2001:db8:bb::1", n + 1),
        );
        t.state.bind(operators, &mut t.watch).unwrap();
        let others = format!("203.0.113.0:{}", 64_000 + n);
        let inherited = binding(Protocol::Tcp, &others, e6("2001:db8:cc::1", n));
        t.state.inherit(inherited, t.now, &mut t.watch).unwrap();
    }
    for n in 0..600u16 {
        let node = e6(&format!("2001:db8:0:{n:x}::1"), n);
        for protocol in Protocol::ALL {
            for peer in &PEERS[..usize::from(n % 3) + 1] {
                let peer = match protocol {
                    Protocol::Icmp => peer.replace(":2", ":0").replace(":1", ":0"),
                    _ => peer.to_string(),
                };
                t.out(protocol, node, &peer, segment(protocol)).unwrap();
            }
        }
    }
    t
}

fn id_of(t: &Tables, view: &BindingView) -> SliceId {
    let v4 = view.binding.v4;
    t.state.slices().unwrap().of_port(v4.addr, v4.port).unwrap()
}

#[test]
fn it_ends_what_packets_made_in_the_slice_and_nothing_else() {
    for budget in [1, 7, usize::MAX] {
        let mut t = full();
        let lent = {
            let one: Endpoint6 = e6("2001:db8::1", 0);
            let address = t.state.address_of(one.addr).unwrap();
            t.state
                .lend(Protocol::Udp, (one.addr, address), 0, random(), &mut ())
                .unwrap()
        };
        for id in 0..8 {
            let before: Vec<_> = t.state.bindings().collect();
            let is_gone =
                |view: &&BindingView| id_of(&t, view) == id && view.origin.is_of_packets();
            let gone: HashSet<_> = before
                .iter()
                .filter(is_gone)
                .map(|view| view.binding)
                .collect();
            let sessions: u32 = before
                .iter()
                .filter(is_gone)
                .map(|view| view.sessions)
                .sum();
            assert!(gone.len() > 50 && sessions as usize > gone.len());
            let free = Protocol::ALL.map(|protocol| t.state.pool().free_ports(protocol));

            t.state.close_slice(id);
            t.watch.events.clear();
            let had = t.sessions();
            let mut calls = 1;
            while !t.state.release_slice(id, budget, &mut t.watch) {
                calls += 1;
                let ended = had - t.sessions();
                assert!(ended as usize <= calls * budget, "no more than the budget");
            }
            let after: HashSet<_> = t.state.bindings().map(|view| view.binding).collect();
            let expected: HashSet<_> = before.iter().map(|view| view.binding).collect();
            assert_eq!(after, expected.difference(&gone).copied().collect());
            assert_eq!(t.sessions(), had - sessions);
            for protocol in Protocol::ALL {
                let of = gone.iter().filter(|binding| binding.protocol == protocol);
                let now = t.state.pool().free_ports(protocol);
                assert_eq!(now, free[protocol.index()] + of.count() as u64);
            }
            let closed = |event: &&Event| matches!(event, Event::BindingClosed(_));
            assert_eq!(t.watch.events.iter().filter(closed).count(), gone.len());
            assert_eq!(t.watch.events.len(), gone.len() + sessions as usize);
            // Once more, there is nothing to do.
            assert!(t.state.release_slice(id, usize::MAX, &mut t.watch));
            assert_eq!(t.watch.events.len(), gone.len() + sessions as usize);
        }
        let left: Vec<_> = t.state.bindings().map(|view| view.origin).collect();
        let of = |origin| left.iter().filter(|its| **its == origin).count();
        assert_eq!(
            (left.len(), of(Origin::Operator), of(Origin::Configured)),
            (42, 40, 2)
        );
        let address = t.state.address_of(e6("2001:db8::1", 0).addr).unwrap();
        let pool = t.state.pool_mut();
        assert!(
            pool.take_leased(Protocol::Udp, address, lent),
            "a loan stays one"
        );
    }
}

#[test]
fn several_slices_are_released_in_turn() {
    let mut t = full();
    t.state.close_slices();
    let mut left: Vec<SliceId> = (0..8).collect();
    let mut turns = 0;
    while !left.is_empty() {
        left.retain(|&id| !t.state.release_slice(id, 5, &mut t.watch));
        turns += 1;
        assert!(turns < 10_000);
    }
    assert_eq!((t.state.counts().bindings, t.sessions()), (42, 0));
}

#[test]
fn there_is_nothing_to_release_without_such_a_slice() {
    let mut t = full();
    assert!(t.state.release_slice(8, 0, &mut ()));
    let mut lone = Tables::new(&config());
    lone.out(
        Protocol::Udp,
        e6("2001:db8::1", 1),
        PEERS[0],
        Segment::Other,
    )
    .unwrap();
    assert!(lone.state.release_slice(0, usize::MAX, &mut ()));
    assert_eq!(lone.sessions(), 1);
}
