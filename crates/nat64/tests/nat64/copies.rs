// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of other gateways' bindings: they are valid until the deadline of their owner, and never count as this
//! gateway's own.

use crate::harness::*;
use crate::inherit::{OTHER, SERVER, TCP, UDP};
use crate::rests::second;
use diolkos_nat64::config::{Endpoint6, Limits, Nat64Config, Pool4, Pools, Protocol};
use diolkos_nat64::session::{Event, Inward, Missing, Origin, Segment, SessionState, Way};
use diolkos_xlat::Reason;
use std::time::Duration;

/// An address of the first gateway, and one of the third.
const FIRST: &str = "203.0.113.4:5000";
const THIRD: &str = "203.0.113.6:5000";

pub fn node() -> Endpoint6 {
    e6("2001:db8:0:1::1", 6000)
}

pub fn serving(config: &Nat64Config) -> Tables {
    let mut t = Tables::new(config);
    t.state.serve(true, &mut ());
    t.watch.boottime = Duration::from_secs(1000);
    t
}

/// Tables that may use copies of a binding of the first gateway for ten seconds.
fn holder(protocol: Protocol) -> Tables {
    let mut t = serving(&second(0));
    t.watch.standby = vec![binding(protocol, FIRST, node())];
    t.state.set_deadline(0, Duration::from_secs(1010));
    t
}

#[test]
fn a_copy_serves_either_side_until_the_deadline_of_its_owner() {
    for protocol in Protocol::ALL {
        let peer = match protocol {
            Protocol::Icmp => "192.0.2.1:0",
            _ => SERVER,
        };
        for is_first_out in [true, false] {
            let mut t = holder(protocol);
            let there = |t: &mut Tables, out: bool| match out {
                true => t
                    .out(protocol, node(), peer, OTHER)
                    .map(|v4| v4 == e4(FIRST)),
                false => t
                    .inward(protocol, e4(FIRST), peer, OTHER)
                    .map(|to| to == Inward::Node(node(), 0)),
            };
            assert_eq!(there(&mut t, is_first_out), Ok(true));
            assert_eq!(there(&mut t, !is_first_out), Ok(true));
            assert_eq!(t.state.copies(), (1, 1));
            t.watch.boottime += Duration::from_millis(9_999);
            assert_eq!(there(&mut t, true), Ok(true));
            assert_eq!(there(&mut t, false), Ok(true));
            t.watch.boottime += Duration::from_millis(1);
            assert_eq!(there(&mut t, true), Err(Reason::OwnerUnreachable));
            assert_eq!(there(&mut t, false), Err(Reason::OwnerUnreachable));
            // The owner has confirmed the binding again.
            t.state.set_deadline(0, Duration::from_secs(1020));
            assert_eq!(there(&mut t, true), Ok(true));
        }
    }
}

#[test]
fn without_a_clock_and_without_a_deadline_no_copy_serves() {
    let mut t = holder(UDP);
    t.watch.boottime = Duration::MAX;
    assert_eq!(
        t.out(UDP, node(), SERVER, OTHER),
        Err(Reason::OwnerUnreachable)
    );
    let mut t = holder(UDP);
    t.watch.standby = vec![binding(UDP, THIRD, node())];
    assert_eq!(
        t.out(UDP, node(), SERVER, OTHER),
        Err(Reason::OwnerUnreachable)
    );
    assert_eq!(t.state.copies(), (0, 0));
}

/// The second gateway, where the first one's addresses are of the pool for this prefix.
fn first_is_for(prefix: &str) -> Nat64Config {
    let mut config = second(0);
    let owners = config.owners.as_mut().unwrap();
    owners.pools = Pools::of(&[Pool4 {
        net: "203.0.113.4/31".parse().unwrap(),
        sources: vec![prefix.parse().unwrap()],
        ..config.pool4[0].clone()
    }]);
    config
}

#[test]
fn no_copy_brings_a_node_to_the_pool_of_others() {
    let (own, of_others) = ("2001:db8:0:1::/64", "2001:db8:0:2::/64");
    for is_first_out in [true, false] {
        let there = |t: &mut Tables| match is_first_out {
            true => t.out(UDP, node(), SERVER, OTHER).map(|_| ()),
            false => t.inward(UDP, e4(FIRST), SERVER, OTHER).map(|_| ()),
        };
        let mut t = serving(&first_is_for(of_others));
        t.watch.standby = vec![binding(UDP, FIRST, node())];
        t.state.set_deadline(0, Duration::from_secs(1010));
        assert_eq!(there(&mut t), Err(Reason::NoBinding));
        assert_eq!(t.state.copies(), (0, 0));
        // Copies in use end with the pool, and this gateway serves as before.
        t.state.reconfigure(&first_is_for(own), &mut t.watch);
        assert_eq!(there(&mut t), Ok(()));
        assert_eq!(t.state.copies(), (1, 1));
        t.state.reconfigure(&first_is_for(of_others), &mut t.watch);
        assert_eq!(t.state.copies(), (0, 0));
        assert_eq!(there(&mut t), Err(Reason::NoBinding));
        assert!(t.state.serves());
    }
}

#[test]
fn a_connection_goes_on_in_its_middle() {
    let mut t = holder(TCP);
    t.out(TCP, node(), SERVER, OTHER).unwrap();
    assert_eq!(t.only(), Some(SessionState::Trans));
    t.inward(TCP, e4(FIRST), SERVER, OTHER).unwrap();
    assert_eq!(t.only(), Some(SessionState::Established));
    // It ends without a probe, because the owner sends probes.
    assert_eq!(t.wait(7441.0), []);
    assert_eq!(t.only(), Some(SessionState::Trans));
    t.wait(241.0);
    assert_eq!(t.state.copies(), (0, 0));
}

#[test]
fn who_watches_is_asked_for_every_packet_and_decides() {
    let mut t = holder(UDP);
    for _ in 0..3 {
        t.out(UDP, node(), SERVER, OTHER).unwrap();
    }
    assert_eq!(t.watch.asked, [(Missing::V6(UDP, node()), true); 3]);
    // The owner is reachable again.
    t.watch.standby.clear();
    t.watch.otherwise = Way::Forward(0);
    assert_eq!(t.out(UDP, node(), SERVER, OTHER), Err(Reason::Elsewhere));
    assert_eq!(t.state.way(), Some(0));
    assert_eq!(
        t.inward(UDP, e4(FIRST), SERVER, OTHER),
        Err(Reason::Elsewhere)
    );
    t.watch.otherwise = Way::Forward(2);
    assert_eq!(
        t.inward(UDP, e4(THIRD), SERVER, OTHER),
        Err(Reason::Elsewhere)
    );
    assert_eq!(t.state.way(), Some(2));
    for reason in [Reason::ForwardedAstray, Reason::NotServing] {
        t.watch.otherwise = Way::Drop(reason);
        assert_eq!(t.out(UDP, node(), SERVER, OTHER), Err(reason));
    }
    // For a node without a binding it asks once; for bindings that no other gateway can have, it never asks.
    t.watch.otherwise = Way::Open;
    let own = e6("2001:db8:0:2::1", 1);
    t.watch.asked.clear();
    t.out(UDP, own, SERVER, OTHER).unwrap();
    let v4 = t.out(UDP, own, SERVER, OTHER).unwrap();
    t.inward(UDP, v4, SERVER, OTHER).unwrap();
    assert_eq!(t.inward(TCP, v4, SERVER, OTHER), Err(Reason::NoBinding));
    assert_eq!(t.watch.asked, [(Missing::V6(UDP, own), true)]);
    // The IPv4 side opens no binding.
    assert_eq!(
        t.inward(UDP, e4(THIRD), SERVER, OTHER),
        Err(Reason::NoBinding)
    );
    assert_eq!(
        t.inward(TCP, e4(THIRD), SERVER, Segment::Syn),
        Err(Reason::NoBinding)
    );
}

#[test]
fn a_segment_that_opens_nothing_may_still_be_anothers() {
    let mut t = serving(&second(0));
    t.watch.otherwise = Way::Forward(0);
    assert_eq!(t.out(TCP, node(), SERVER, OTHER), Err(Reason::Elsewhere));
    t.watch.otherwise = Way::Open;
    assert_eq!(t.out(TCP, node(), SERVER, OTHER), Err(Reason::NoConnection));
}

#[test]
fn nothing_of_a_copy_is_this_gateways() {
    let mut config = second(0);
    config.limits = Limits {
        bindings: 1,
        sessions: 1,
        ..config.limits
    };
    let mut t = serving(&config);
    t.state.set_deadline(0, Duration::from_secs(2000));
    let copy = binding(UDP, FIRST, node());
    t.watch.standby = vec![copy];
    t.out(UDP, node(), SERVER, OTHER).unwrap();
    assert_eq!(t.state.copies(), (1, 1));
    assert!(t.is_empty());
    let usage = t.state.usage(node().addr);
    assert_eq!((usage.bindings, usage.sessions), (0, 0));
    assert!(usage.of_level.iter().all(|has| *has == (0, 0)));
    assert_eq!(t.state.holdings_of(node().addr)[0].bindings.has, 0);
    let free = t.state.pool().free_ports(UDP);
    assert_eq!(free, t.state.pool().ports(UDP));
    assert_eq!(t.watch.events[0], Event::CopyMade(copy, 0));
    // A copy takes no room from own bindings: there is room for one.
    let own = e6("2001:db8:0:2::1", 1);
    t.out(UDP, own, SERVER, OTHER).unwrap();
    assert_eq!(t.state.counts().bindings, 1);
    // Copies have the same limits among themselves.
    let another = binding(UDP, "203.0.113.4:5001", e6("2001:db8:0:3::1", 1));
    t.watch.standby = vec![another];
    assert_eq!(
        t.out(UDP, another.v6, SERVER, OTHER),
        Err(Reason::BindingLimit)
    );
    // The copy expires by itself, and no closed binding is reported.
    t.wait(301.0);
    assert_eq!(t.state.copies(), (0, 0));
    let is_of_copy = |event: &&Event| match event {
        Event::BindingOpened(b) | Event::BindingClosed(b) => *b == copy,
        _ => false,
    };
    assert_eq!(t.watch.events.iter().find(is_of_copy), None);
    assert!(t.watch.events.contains(&Event::CopyEnded(copy, 0)));
    assert_eq!(t.state.resting(), 1, "the port of the own one");
}

#[test]
fn a_subscriber_has_no_more_than_its_share_of_the_copies() {
    let mut config = second(0);
    config.limits = Limits {
        bindings: 100,
        source_share: 50,
        ..config.limits
    };
    let mut t = serving(&config);
    t.state.set_deadline(0, Duration::from_secs(2000));
    let mut results = vec![];
    for port in 0..60 {
        let v4 = format!("203.0.113.4:{}", 2000 + port);
        let copy = binding(UDP, &v4, e6("2001:db8:0:1::1", 100 + port));
        t.watch.standby = vec![copy];
        results.push(t.out(UDP, copy.v6, SERVER, OTHER).is_ok());
    }
    assert_eq!(results.iter().filter(|is_ok| **is_ok).count(), 50);
}

#[test]
fn forgetting_is_bounded_and_ends_what_was_named() {
    let mut t = serving(&second(0));
    for owner in [0, 2] {
        t.state.set_deadline(owner, Duration::from_secs(2000));
    }
    for port in 0..10u16 {
        for addr in ["203.0.113.4", "203.0.113.6"] {
            let host = if addr.ends_with('4') { 1 } else { 2 };
            let v4 = format!("{addr}:{}", 2000 + port);
            let copy = binding(UDP, &v4, e6(&format!("2001:db8:0:{host}::1"), port));
            t.watch.standby = vec![copy];
            for peer in ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"] {
                t.out(UDP, copy.v6, peer, OTHER).unwrap();
            }
        }
        let own = e6("2001:db8:0:3::1", port);
        t.watch.standby.clear();
        t.out(UDP, own, SERVER, OTHER).unwrap();
    }
    assert_eq!(t.state.copies(), (20, 60));
    // Forget one of them: first its sessions, then the copy.
    let v4 = e4("203.0.113.4:2000");
    let mut calls = 0;
    while !t.state.forget(UDP, v4, 2, &mut t.watch) {
        calls += 1;
    }
    assert_eq!((calls, t.state.copies()), (1, (19, 57)));
    assert!(t.state.forget(UDP, v4, 0, &mut t.watch), "it is gone");
    let own = t.state.counts();
    let mut calls = 0;
    while !t.state.forget_all(0, 5, &mut t.watch) {
        calls += 1;
        assert!(calls < 40);
    }
    assert!(calls > 5, "{calls}");
    assert_eq!(t.state.copies(), (10, 30));
    assert_eq!(t.state.counts(), own);
    let is_of_first = |addr: std::net::Ipv4Addr| t.state.owner_of(addr) == Some(0);
    assert!(!t
        .state
        .bindings()
        .any(|view| is_of_first(view.binding.v4.addr)));
    // No own binding of this gateway is a copy.
    let v4 = t.state.v4_of(UDP, e6("2001:db8:0:3::1", 1)).unwrap();
    assert!(t.state.forget(UDP, v4, 9, &mut t.watch));
    assert!(t.state.forget_all(1, usize::MAX, &mut t.watch));
    assert_eq!(t.state.counts(), own);
}

#[test]
fn a_binding_of_ones_own_takes_the_place_of_a_copy() {
    // The host gets another binding, because the other one is lost.
    let mut t = holder(UDP);
    t.out(UDP, node(), SERVER, OTHER).unwrap();
    t.watch.standby.clear();
    let v4 = t.out(UDP, node(), SERVER, OTHER).unwrap();
    assert_eq!(t.state.owner_of(v4.addr), Some(1));
    assert_eq!((t.state.copies(), t.sessions()), ((0, 0), 1));
    // A packet for the previous binding is refused: the host has another one now.
    t.watch.standby = vec![binding(UDP, FIRST, node())];
    assert_eq!(
        t.inward(UDP, e4(FIRST), SERVER, OTHER),
        Err(Reason::NoBinding)
    );
    // The operator creates a binding of the host's port.
    let mut t = holder(UDP);
    t.out(UDP, node(), SERVER, OTHER).unwrap();
    let own = binding(UDP, "203.0.113.0:1030", node());
    t.state.bind(own, &mut t.watch).unwrap();
    assert_eq!(t.state.copies(), (0, 0));
    // Another gateway returns a binding.
    let mut t = holder(UDP);
    t.out(UDP, node(), SERVER, OTHER).unwrap();
    t.state.serve(false, &mut ());
    t.state.inherit(own, t.now, &mut t.watch).unwrap();
    assert_eq!(t.state.copies(), (0, 0));
    let origins: Vec<_> = t.state.bindings().map(|view| view.origin).collect();
    assert_eq!(origins, [Origin::Inherited]);
    assert_eq!(t.out(UDP, node(), SERVER, OTHER), Ok(own.v4));
}

#[test]
fn nothing_is_bound_to_an_address_of_another_gateway() {
    let mut t = holder(UDP);
    let foreign = binding(UDP, FIRST, node());
    assert!(t.state.bind(foreign, &mut t.watch).is_err());
    assert_eq!(
        t.state.inherit(foreign, t.now, &mut t.watch),
        Err(Reason::PoolExhausted)
    );
    // An own binding, or one with an address of no gateway, is not accepted as a copy.
    for lie in ["203.0.113.0:1030", "198.51.100.1:1030"] {
        t.watch.lie = Some(binding(UDP, lie, node()));
        assert_eq!(t.out(UDP, node(), SERVER, OTHER), Err(Reason::NoBinding));
    }
    t.watch.lie = Some(binding(UDP, FIRST, e6("2001:db8:0:1::1", 1)));
    assert_eq!(t.out(UDP, node(), SERVER, OTHER), Err(Reason::NoBinding));
    assert_eq!(t.state.copies(), (0, 0));
}
