// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings of this gateway that only other gateways still had: their flows continue here.
//!
//! RFC 6146 section 3.5.2.2 does not cover connections joined in their middle. The expected results are those for a
//! connection with packets of one side so far (V4 INIT, V6 INIT: `TCP_TRANS`, four minutes), and then of both
//! (ESTABLISHED: `TCP_EST`, 2 h 4 min).

use crate::harness::*;
use crate::packets::*;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{Event, Inward, Origin, Segment, SessionState, Side};
use diolkos_xlat::Reason;

pub const UDP: Protocol = Protocol::Udp;
pub const TCP: Protocol = Protocol::Tcp;
const ICMP: Protocol = Protocol::Icmp;
pub const OTHER: Segment = Segment::Other;
pub const SERVER: &str = "192.0.2.1:443";
pub const V4: &str = "203.0.113.1:5000";

pub fn of_other(protocol: Protocol) -> Binding {
    binding(protocol, V4, node())
}

pub fn node() -> Endpoint6 {
    e6(NODE, 6000)
}

fn peer(protocol: Protocol) -> &'static str {
    match protocol {
        ICMP => "192.0.2.1:0",
        _ => SERVER,
    }
}

/// Tables that have inherited a binding, and do not serve yet.
fn heir(protocol: Protocol) -> Tables {
    let mut t = Tables::new(&owning_config());
    inherit(&mut t, of_other(protocol)).unwrap();
    t
}

fn inherit(t: &mut Tables, binding: Binding) -> Result<(), Reason> {
    t.state.inherit(binding, t.now, &mut t.watch)
}

pub fn origin(t: &Tables) -> Option<Origin> {
    t.state.bindings().next().map(|view| view.origin)
}

/// Rates of new sessions do not hit flows that another gateway has served, and count them.
#[test]
fn a_flow_that_comes_back_is_not_too_fast() {
    let mut config = owning_config();
    config.limits.new_sessions_per_host = Some(1);
    config.limits.new_sessions_burst = 2;
    let mut t = Tables::new(&config);
    let of = |port: u16| binding(UDP, &format!("203.0.113.1:{port}"), e6(NODE, port));
    for port in 5000..5010 {
        inherit(&mut t, of(port)).unwrap();
    }
    t.state.serve(true, &mut t.watch);
    for port in 5000..5010 {
        let passed = t.out(UDP, e6(NODE, port), SERVER, OTHER);
        assert_eq!(passed, Ok(of(port).v4));
    }
    // Neither another peer of one of them, nor a binding that is new.
    for port in [5000, 6000] {
        let refused = t.out(UDP, e6(NODE, port), "192.0.2.2:443", OTHER);
        assert_eq!(refused, Err(Reason::HostRateLimit));
    }
    t.wait(10.0);
    assert!(t.out(UDP, e6(NODE, 6000), SERVER, OTHER).is_ok());
}

/// Handles a packet from this side; the result must be the other endpoint.
pub fn from(t: &mut Tables, protocol: Protocol, side: Side, segment: Segment) {
    match side {
        Side::V6 => {
            let got = t.out(protocol, node(), peer(protocol), segment);
            assert_eq!(got, Ok(e4(V4)));
        }
        Side::V4 => {
            let got = t.inward(protocol, e4(V4), peer(protocol), segment);
            assert_eq!(got, Ok(Inward::Node(node(), 0)));
        }
    }
}

/// The only session lives for this number of seconds, and no longer.
fn lives(t: &mut Tables, seconds: f64) {
    let state = t.only();
    t.wait(seconds - 1.0);
    assert_eq!(t.only(), state);
    t.wait(2.0);
}

#[test]
fn it_waits_for_its_first_session_as_long_as_one_would_live() {
    for (protocol, seconds) in [(UDP, 300.0), (ICMP, 60.0), (TCP, 7440.0)] {
        let mut t = heir(protocol);
        let free = t.state.pool().free_ports(protocol);
        assert_eq!(origin(&t), Some(Origin::Inherited));
        assert!(matches!(t.watch.events[..], [Event::BindingOpened(b)] if b == of_other(protocol)));
        assert!(t.state.next_due().is_some());
        t.wait(seconds - 1.0);
        // Again, it changes nothing.
        inherit(&mut t, of_other(protocol)).unwrap();
        assert_eq!(t.state.counts().bindings, 1);
        t.wait(1.0);
        assert!(t.is_empty());
        assert_eq!(t.state.next_due(), None);
        assert_eq!(t.state.pool().free_ports(protocol), free, "it rests");
        t.state.free(protocol, e4(V4), &mut ());
        assert_eq!(t.state.pool().free_ports(protocol), free + 1);
        assert_eq!(
            t.watch.events.last(),
            Some(&Event::BindingClosed(of_other(protocol)))
        );
    }
}

#[test]
fn datagrams_go_on_from_either_side() {
    for (protocol, seconds) in [(UDP, 300.0), (ICMP, 60.0)] {
        for side in [Side::V4, Side::V6] {
            let mut t = heir(protocol);
            t.wait(seconds - 10.0);
            from(&mut t, protocol, side, OTHER);
            // The waiting time ends; the session stays.
            t.wait(20.0);
            assert_eq!((origin(&t), t.sessions()), (Some(Origin::Inherited), 1));
            from(&mut t, protocol, side, OTHER);
            lives(&mut t, seconds);
            assert!(t.is_empty(), "the binding has ended with its last session");
            assert_eq!(t.state.next_due(), None);
        }
    }
}

#[test]
fn a_connection_is_transitory_until_both_sides_were_seen_and_established_then() {
    for (first, then) in [(Side::V6, Side::V4), (Side::V4, Side::V6)] {
        let mut t = heir(TCP);
        from(&mut t, TCP, first, OTHER);
        assert_eq!(t.only(), Some(SessionState::Trans));
        t.wait(1.0);
        from(&mut t, TCP, first, OTHER);
        assert_eq!(
            t.only(),
            Some(SessionState::Trans),
            "one side may say what it likes"
        );
        assert!(t.state.sessions().all(|view| !view.is_for_fast_path()));
        from(&mut t, TCP, then, OTHER);
        assert_eq!(t.only(), Some(SessionState::Established));
        assert!(t.state.sessions().all(|view| view.is_for_fast_path()));
        from(&mut t, TCP, first, OTHER);
        let remaining = t.state.sessions().next().unwrap().remaining;
        assert_eq!(remaining.as_secs(), 7440);
        // From here on as usual: FIN from both sides, or RST, and four minutes.
        from(&mut t, TCP, first, Segment::Fin);
        from(&mut t, TCP, then, Segment::Fin);
        assert_eq!(t.only(), Some(SessionState::V4FinV6FinRcv));
        lives(&mut t, 240.0);
        assert!(t.is_empty());

        let mut t = heir(TCP);
        from(&mut t, TCP, first, OTHER);
        from(&mut t, TCP, then, OTHER);
        from(&mut t, TCP, then, Segment::Rst);
        assert_eq!(t.only(), Some(SessionState::Trans));
        from(&mut t, TCP, then, OTHER);
        assert_eq!(
            t.only(),
            Some(SessionState::Established),
            "both have been seen before"
        );
    }
}

#[test]
fn a_connection_of_which_one_side_is_seen_ends_after_four_minutes() {
    // The node can keep it alive, as with a SYN (V6 INIT); the IPv4 side cannot (V4 INIT).
    for (side, left) in [(Side::V6, 240.0), (Side::V4, 140.0)] {
        for segment in [OTHER, Segment::Fin] {
            let mut t = heir(TCP);
            from(&mut t, TCP, side, segment);
            t.wait(100.0);
            from(&mut t, TCP, side, segment);
            lives(&mut t, left);
            assert!(t.is_empty());
        }
        let mut t = heir(TCP);
        from(&mut t, TCP, side, OTHER);
        t.wait(100.0);
        from(&mut t, TCP, side, Segment::Rst);
        lives(&mut t, 140.0);
        assert!(t.is_empty(), "an RST makes nothing last");
    }
}

#[test]
fn an_rst_begins_no_session_and_a_syn_begins_one_as_ever() {
    let mut t = heir(TCP);
    from(&mut t, TCP, Side::V6, Segment::Rst);
    from(&mut t, TCP, Side::V4, Segment::Rst);
    assert_eq!((t.sessions(), t.state.counts().bindings), (0, 1));
    from(&mut t, TCP, Side::V6, Segment::Syn);
    assert_eq!(t.only(), Some(SessionState::V6Init));
    let mut t = heir(TCP);
    from(&mut t, TCP, Side::V4, Segment::Syn);
    assert_eq!(t.only(), Some(SessionState::V4Init));
    // For its own bindings it knows that no connection began.
    let mut t = Tables::new(&config());
    let v4 = t.out(TCP, node(), SERVER, Segment::Syn).unwrap();
    assert_eq!(t.out(TCP, node(), "192.0.2.9:9", OTHER), Ok(v4));
    t.inward(TCP, v4, "192.0.2.9:9", OTHER).unwrap();
    assert_eq!(t.only(), Some(SessionState::V6Init));
}

#[test]
fn every_connection_of_a_binding_goes_on() {
    let mut t = heir(TCP);
    for peer in ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"] {
        t.out(TCP, node(), peer, OTHER).unwrap();
        t.inward(TCP, e4(V4), peer, OTHER).unwrap();
    }
    assert!(t
        .state
        .sessions()
        .all(|view| view.state == SessionState::Established));
    assert_eq!(t.sessions(), 3);
}

#[test]
fn limits_hold_and_what_waits_goes_on_waiting() {
    let mut config = owning_config();
    config.limits.sessions = 1;
    config.limits.bindings = 3;
    config.limits.bindings_per_source = 2;
    let mut t = Tables::new(&config);
    let other = |n: u16| Binding {
        v4: Endpoint4 {
            port: 5000 + n,
            ..e4(V4)
        },
        v6: e6(NODE, 6000 + n),
        protocol: UDP,
    };
    inherit(&mut t, other(0)).unwrap();
    inherit(&mut t, of_other(TCP)).unwrap();
    assert_eq!(inherit(&mut t, other(1)), Err(Reason::SourceBindingLimit));
    let far = |n, port| binding(UDP, &format!("203.0.113.1:{n}"), e6("2001:db8:9::1", port));
    inherit(&mut t, far(9000, 1)).unwrap();
    assert_eq!(inherit(&mut t, far(9001, 2)), Err(Reason::BindingLimit));

    t.out(UDP, node(), SERVER, OTHER).unwrap();
    let refused = t.out(UDP, e6("2001:db8:9::1", 1), SERVER, OTHER);
    assert_eq!(refused, Err(Reason::SessionLimit));
    // A segment of a connection passes without a session, as with any binding.
    from(&mut t, TCP, Side::V6, OTHER);
    from(&mut t, TCP, Side::V4, OTHER);
    assert_eq!((t.sessions(), t.state.counts().bindings), (1, 3));
}

#[test]
fn what_contradicts_the_tables_is_not_inherited() {
    let mut t = heir(UDP);
    let with = |v4: &str, v6: &str, port| binding(UDP, v4, e6(v6, port));
    for (wrong, reason) in [
        (with(V4, "2001:db8::9", 1), Reason::NoBinding),
        (with("203.0.113.1:5001", NODE, 6000), Reason::NoBinding),
        (
            with("203.0.113.1:80", "2001:db8::9", 1),
            Reason::PoolExhausted,
        ),
        (
            with("203.0.113.2:5000", "2001:db8::9", 1),
            Reason::PoolExhausted,
        ),
        (
            with("203.0.113.9:5000", "2001:db8::9", 1),
            Reason::PoolExhausted,
        ),
        (
            with("203.0.113.1:5001", "ff02::1", 1),
            Reason::SourceIllegal,
        ),
        (
            with("203.0.113.1:5001", "2001:db8:64::1", 1),
            Reason::SourceIllegal,
        ),
    ] {
        assert_eq!(inherit(&mut t, wrong), Err(reason), "{wrong:?}");
    }
    t.state.serve(true, &mut ());
    let (addr, one) = (t.state.address_of(node().addr).unwrap(), node().addr);
    let lent = t
        .state
        .lend(UDP, (one, addr), 0, random(), &mut ())
        .unwrap();
    let on_loan = with(&format!("{addr}:{lent}"), "2001:db8::9", 1);
    assert_eq!(inherit(&mut t, on_loan), Err(Reason::PoolExhausted));
    assert_eq!(t.state.counts().bindings, 1);
    let mut lone = Tables::new(&config());
    assert_eq!(
        inherit(&mut lone, of_other(UDP)),
        Err(Reason::PoolExhausted)
    );
}

#[test]
fn the_operator_can_keep_it_and_a_reload_takes_what_left_the_pool() {
    let mut t = heir(UDP);
    t.state.bind(of_other(UDP), &mut ()).unwrap();
    assert_eq!(origin(&t), Some(Origin::Operator));
    t.wait(1000.0);
    assert_eq!(t.state.counts().bindings, 1);

    let mut t = heir(UDP);
    let mut other = owning_config();
    other.pool4[0].ports = 6016..=65535;
    t.state.reconfigure(&other, &mut t.watch);
    assert!(t.is_empty());
    assert_eq!(t.state.next_due(), None);
    // A gateway that becomes the only one also forgets it.
    let mut t = heir(UDP);
    t.state.reconfigure(&config(), &mut t.watch);
    assert_eq!(origin(&t), Some(Origin::Inherited));
    t.wait(301.0);
    assert!(t.is_empty());
}

#[test]
fn its_sessions_bring_it_back_from_stored_state() {
    let mut t = heir(TCP);
    from(&mut t, TCP, Side::V6, OTHER);
    from(&mut t, TCP, Side::V4, OTHER);
    let view = t.state.bindings().next().unwrap();
    let stored: Vec<_> = t.state.sessions().collect();
    let mut after = Tables::new(&owning_config());
    after.state.restore_binding(&view, &mut ()).unwrap();
    assert!(after.is_empty());
    let now = after.now;
    after
        .state
        .restore_session(&stored[0], now, &mut ())
        .unwrap();
    assert_eq!(sorted(&after), stored);
    assert_eq!(origin(&after), Some(Origin::Dynamic));
}

/// Expiry visits entries in parts.
#[test]
fn many_end_in_parts() {
    let mut t = Tables::new(&owning_config());
    for n in 0..1000 {
        let of = |n| binding(UDP, &format!("203.0.113.1:{}", 5000 + n), e6(NODE, n));
        inherit(&mut t, of(n)).unwrap();
    }
    t.now += std::time::Duration::from_secs(1);
    // Every second binding has a session and stays.
    for n in (0..1000).step_by(2) {
        t.out(UDP, e6(NODE, n), SERVER, OTHER).unwrap();
        t.now += std::time::Duration::from_millis(1);
    }
    t.now += std::time::Duration::from_millis(298_500);
    assert!(!t.expire(100).0);
    let left = t.state.counts().bindings;
    assert!((900..=1000).contains(&left), "{left}");
    while !t.expire(100).0 {}
    assert!(t.state.bindings().all(|view| view.binding.v6.port % 2 == 0));
    assert_eq!(t.state.counts().bindings, 500);
}
