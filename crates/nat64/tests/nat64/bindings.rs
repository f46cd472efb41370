// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Static bindings, from the configuration and created at run time.

use crate::harness::*;
use diolkos_nat64::config::{Binding, Protocol};
use diolkos_nat64::session::{BindError, Event, Inward, Segment, SessionState};

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const OTHER: Segment = Segment::Other;
const PEER: &str = "192.0.2.1:53";

#[test]
fn a_static_binding_works_both_ways_and_stays() {
    let node = e6("2001:db8::5", 80);
    let mut config = config();
    config.bindings = vec![
        binding(TCP, "203.0.113.1:8080", node),
        binding(UDP, "198.51.100.1:53", node),
    ];
    let mut t = Tables::new(&config);
    assert_eq!(
        t.inward(TCP, e4("203.0.113.1:8080"), PEER, Segment::Syn),
        Ok(Inward::Node(node, 0))
    );
    assert_eq!(t.only(), Some(SessionState::V4Init));
    assert_eq!(
        t.inward(UDP, e4("198.51.100.1:53"), PEER, OTHER),
        Ok(Inward::Node(node, 0)),
        "outside of the pool"
    );
    assert_eq!(
        t.out(TCP, node, "192.0.2.7:7", Segment::Syn),
        Ok(e4("203.0.113.1:8080"))
    );
    t.wait(10_000.0);
    assert_eq!((t.sessions(), t.state.counts().bindings), (0, 2));
    // The pool does not allocate the port.
    for n in 0..64_511u32 {
        let node = e6(&format!("2001:db8:{:x}:{:x}::1", n >> 8, n & 0xff), 80);
        let v4 = t.out(TCP, node, PEER, Segment::Syn).unwrap();
        assert_ne!(v4, e4("203.0.113.1:8080"));
    }
}

/// Shares of ports are shares of a pool: where there is none, nothing is near one.
#[test]
fn a_static_binding_takes_no_share_of_a_pool_without_ports() {
    let node = e6("2001:db8::5", 80);
    let mut config = config();
    config.pool4 = Vec::new();
    config.bindings = vec![binding(TCP, "203.0.113.1:8080", node)];
    let mut t = Tables::new(&config);
    t.inward(TCP, e4("203.0.113.1:8080"), PEER, Segment::Syn)
        .unwrap();
    let held = t.state.holdings_of(node.addr);
    assert!(held.iter().any(|holding| holding.sessions.has == 1));
    let percent: Vec<u64> = held.iter().map(|holding| holding.percent()).collect();
    assert!(percent.iter().all(|percent| *percent < 50), "{percent:?}");
}

#[test]
fn bindings_at_run_time() {
    let mut t = Tables::new(&config());
    let node = e6("2001:db8::5", 80);
    let wanted = binding(TCP, "203.0.113.1:8080", node);
    t.state.bind(wanted, &mut t.watch).unwrap();
    t.state.bind(wanted, &mut t.watch).unwrap();
    assert_eq!(t.watch.events, [Event::BindingOpened(wanted)]);
    let other = binding(TCP, "203.0.113.1:8080", e6("2001:db8::6", 80));
    assert_eq!(t.state.bind(other, &mut ()), Err(BindError::Taken(node)));
    let other = binding(TCP, "203.0.113.1:8081", node);
    assert_eq!(
        t.state.bind(other, &mut ()),
        Err(BindError::Bound(wanted.v4))
    );
    let wrong = binding(TCP, "203.0.113.1:8081", e6("2001:db8:64::1", 1));
    assert!(matches!(
        t.state.bind(wrong, &mut ()),
        Err(BindError::Contradiction(_))
    ));

    t.inward(TCP, wanted.v4, PEER, Segment::Syn).unwrap();
    t.watch.events.clear();
    assert_eq!(t.state.unbind(TCP, wanted.v4, &mut t.watch), Ok(wanted));
    assert!(matches!(
        t.watch.events[..],
        [Event::SessionClosed(_), Event::BindingClosed(_)]
    ));
    assert!(t.is_empty());
    assert_eq!(
        t.state.unbind(TCP, wanted.v4, &mut ()),
        Err(BindError::NotFound)
    );
}

/// A dynamic binding ends with its last session (RFC 6146 section 3.1); a static one stays.
#[test]
fn a_session_ends_by_order() {
    let mut t = Tables::new(&config());
    let node = e6("2001:db8::5", 80);
    let v4 = t.out(UDP, node, PEER, OTHER).unwrap();
    assert_eq!(t.out(UDP, node, "192.0.2.7:7", OTHER), Ok(v4));
    t.watch.events.clear();
    let (first, second) = (e4(PEER), e4("192.0.2.7:7"));
    let elsewhere = Some(e4("203.0.113.1:9"));
    let state = &mut t.state;
    assert_eq!(
        state.end_session(TCP, node, None, first, &mut t.watch),
        None
    );
    assert_eq!(
        state.end_session(UDP, node, elsewhere, first, &mut t.watch),
        None
    );
    let ended = state.end_session(UDP, node, Some(v4), first, &mut t.watch);
    assert_eq!(ended.map(|view| view.peer), Some(first));
    assert_eq!(
        state.end_session(UDP, node, None, first, &mut t.watch),
        None
    );
    assert!(matches!(t.watch.events[..], [Event::SessionClosed(_)]));
    assert!(state
        .end_session(UDP, node, None, second, &mut t.watch)
        .is_some());
    assert!(matches!(
        t.watch.events[1..],
        [Event::SessionClosed(_), Event::BindingClosed(_)]
    ));
    assert!(t.is_empty());

    let fixed = binding(UDP, "203.0.113.1:8080", node);
    t.state.bind(fixed, &mut ()).unwrap();
    t.out(UDP, node, PEER, OTHER).unwrap();
    assert!(t
        .state
        .end_session(UDP, node, None, first, &mut ())
        .is_some());
    assert_eq!((t.sessions(), t.state.counts().bindings), (0, 1));
}

#[test]
fn a_binding_of_packets_can_be_made_to_stay() {
    let mut t = Tables::new(&config());
    let node = e6("2001:db8::5", 80);
    let v4 = t.out(UDP, node, PEER, OTHER).unwrap();
    let wanted = Binding {
        protocol: UDP,
        v4,
        v6: node,
    };
    t.state.bind(wanted, &mut ()).unwrap();
    t.wait(301.0);
    assert_eq!((t.sessions(), t.state.counts().bindings), (0, 1));
    assert_eq!(t.out(UDP, node, PEER, OTHER), Ok(v4));
}
