// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that is read in parts, restored after a restart, or added by the fast path.

use crate::harness::*;
use diolkos_nat64::config::{Binding, Protocol};
use diolkos_nat64::session::{Event, Inward, Origin, Segment, SessionState, SessionView};
use diolkos_xlat::Reason;
use std::collections::HashSet;
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const OTHER: Segment = Segment::Other;
const PEER: &str = "192.0.2.1:53";

#[test]
fn sessions_are_read_in_parts_while_packets_pass() {
    let mut t = Tables::new(&config());
    for n in 1..=6000u32 {
        let node = e6(&format!("2001:db8:0:{:x}::1", n / 3000), (n % 3000) as u16);
        t.out(UDP, node, PEER, OTHER).unwrap();
    }
    let before: HashSet<_> = t.state.sessions().map(|view| view.binding).collect();
    let mut seen = vec![];
    let mut next = Some(0);
    let mut ended = HashSet::new();
    while let Some(first) = next {
        let (views, then) = t.state.sessions_from(first, 500);
        assert!(views.len() <= 500);
        seen.extend(views.iter().map(|view| view.binding));
        next = then;
        // One session ends and another begins between any two parts.
        let gone = *before.iter().find(|b| !ended.contains(*b)).unwrap();
        t.state.unbind(UDP, gone.v4, &mut ()).unwrap();
        ended.insert(gone);
        let new = e6("2001:db8:0:9::1", 1 + ended.len() as u16);
        t.out(UDP, new, PEER, OTHER).unwrap();
    }
    let unique: HashSet<_> = seen.iter().copied().collect();
    assert_eq!(unique.len(), seen.len());
    let stayed: HashSet<_> = before.difference(&ended).copied().collect();
    assert!(stayed.is_subset(&unique));
    assert_eq!(
        Tables::new(&config()).state.sessions_from(0, 10),
        (vec![], None)
    );
}

#[test]
fn bindings_are_read_in_parts() {
    let mut t = Tables::new(&config());
    for n in 1..=5000 {
        t.out(UDP, e6("2001:db8::1", n), PEER, OTHER).unwrap();
    }
    t.state
        .unbind(
            UDP,
            t.state.v4_of(UDP, e6("2001:db8::1", 7)).unwrap(),
            &mut (),
        )
        .unwrap();
    let (mut seen, mut next) = (HashSet::new(), Some(0));
    while let Some(first) = next {
        let (views, then) = t.state.bindings_from(first, 512);
        assert!(views.len() <= 512);
        assert!(views.iter().all(|view| seen.insert(view.binding)));
        next = then;
    }
    assert_eq!(seen, t.state.bindings().map(|view| view.binding).collect());
    assert_eq!(seen.len(), 4999);
}

#[test]
fn state_goes_through_a_restart() {
    let mut before = Tables::new(&config());
    let stay = binding(TCP, "203.0.113.1:1024", e6("2001:db8::7", 7));
    before.state.bind(stay, &mut ()).unwrap();
    let stored = some_sessions(&mut before);
    let bindings: Vec<_> = before.state.bindings().collect();

    let mut after = Tables::new(&config());
    after.now = Duration::from_secs(3);
    for view in &bindings {
        after.state.restore_binding(view, &mut after.watch).unwrap();
    }
    for view in &stored {
        after
            .state
            .restore_session(view, after.now, &mut after.watch)
            .unwrap();
    }
    assert_eq!(sorted(&after), stored);
    for view in &stored {
        let Binding { protocol, v6, .. } = view.binding;
        assert_eq!(after.state.session(protocol, v6, view.peer), Some(*view));
        assert_eq!(after.state.session(protocol, v6, e4("1.2.3.4:5")), None);
    }
    assert_eq!(
        after.state.counts().bindings,
        before.state.counts().bindings
    );
    let origins = after
        .state
        .bindings()
        .filter(|b| b.origin == Origin::Operator);
    assert_eq!(origins.count(), 1);
    assert_eq!(
        after.state.pool().free_ports(UDP),
        before.state.pool().free_ports(UDP)
    );
    // The remaining lifetimes are kept.
    for _ in 0..300 {
        before.wait(1.0);
        after.wait(1.0);
        assert!(
            before.sessions().abs_diff(after.sessions()) <= 3,
            "up to a second apart"
        );
    }
}

#[test]
fn what_is_told_again_knows_how_old_it_is() {
    let mut t = Tables::new(&config());
    let node = e6("2001:db8::1", 5000);
    t.out(UDP, node, PEER, OTHER).unwrap();
    t.out(TCP, node, PEER, Segment::Syn).unwrap();
    // First restored with an unknown idle time, then with the correct one.
    let known: Vec<_> = t.state.sessions().collect();
    for (remaining, state) in [(9.0, None), (0.0, Some(SessionState::Trans))] {
        for view in &known {
            let mut older = *view;
            older.remaining = Duration::from_secs_f64(remaining);
            if let (TCP, Some(state)) = (view.binding.protocol, state) {
                older.state = state;
            }
            t.state
                .restore_session(&older, t.now, &mut t.watch)
                .unwrap();
        }
        let left = |t: &Tables, protocol| {
            let view = t.state.session(protocol, node, e4(PEER)).unwrap();
            view.remaining.as_secs_f64()
        };
        assert_eq!(left(&t, UDP), remaining);
        assert_eq!(left(&t, TCP), 9.0, "in another state it is not the same");
    }
    assert_eq!(t.sessions(), 2);
    t.wait(2.0);
    assert_eq!(t.sessions(), 1);
    t.wait(8.5);
    assert_eq!(t.sessions(), 0);
}

#[test]
fn what_is_no_longer_allowed_does_not_come_back() {
    let mut before = Tables::new(&config());
    let stored = some_sessions(&mut before);
    let mut narrow = config();
    narrow.pool4[0].protocols = vec![TCP];
    narrow.limits.sessions = 20;
    let mut after = Tables::new(&narrow);
    let results: Vec<_> = stored
        .iter()
        .map(|view| {
            after
                .state
                .restore_session(view, after.now, &mut after.watch)
        })
        .collect();
    assert_eq!(after.sessions(), 20);
    assert!(after
        .state
        .sessions()
        .all(|view| view.binding.protocol == TCP));
    assert!(results.contains(&Err(Reason::PoolExhausted)));
    assert!(results.contains(&Err(Reason::SessionLimit)));
    // Invalid sessions are not restored either.
    let mut wrong = stored[0];
    wrong.prefix = 9;
    assert!(after
        .state
        .restore_session(&wrong, after.now, &mut ())
        .is_err());
    wrong = stored[0];
    wrong.state = SessionState::Icmp;
    wrong.binding.v6 = e6("2001:db8::99", 1);
    assert!(after
        .state
        .restore_session(&wrong, after.now, &mut ())
        .is_err());
    assert_eq!(after.state.counts().bindings, 20);
}

#[test]
fn the_fast_path_opens_a_session_on_a_leased_port() {
    let mut t = Tables::new(&config());
    let address = "203.0.113.1".parse().unwrap();
    let free = t.state.pool().free_ports(UDP);
    let mut lend = || t.state.pool_mut().lend(UDP, address, 0, || 7).unwrap();
    let lent: Vec<u16> = (0..5).map(|_| lend()).collect();
    let mut ports = lent.iter().copied();
    let mut opened = |state, n| SessionView {
        binding: Binding {
            protocol: UDP,
            v4: diolkos_nat64::config::Endpoint4 {
                addr: address,
                port: ports.next().unwrap(),
            },
            v6: e6("2001:db8::1", n),
        },
        peer: e4(PEER),
        prefix: 0,
        state,
        remaining: Duration::from_secs(300),
    };
    let good = opened(SessionState::Udp, 1);
    t.state.adopt(&good, t.now, &mut t.watch).unwrap();
    assert_eq!(t.state.counts().bindings, 1);
    assert!(matches!(
        t.watch.events[..],
        [Event::BindingOpened(_), Event::SessionOpened(_)]
    ));
    // The node already has a binding: the second port is free again.
    let mut twice = opened(SessionState::Udp, 1);
    assert!(t.state.adopt(&twice, t.now, &mut ()).is_err());
    // Another peer of the first port.
    twice = good;
    twice.peer = e4("192.0.2.2:1");
    t.state.adopt(&twice, t.now, &mut ()).unwrap();
    assert_eq!(t.sessions(), 2);
    // A port that was not leased and is bound.
    let mut stolen = opened(SessionState::Udp, 2);
    stolen.binding.v4 = good.binding.v4;
    assert!(t.state.adopt(&stolen, t.now, &mut ()).is_err());

    for port in lent {
        t.state.pool_mut().give_back(UDP, address, port);
    }
    assert_eq!(t.state.pool().free_ports(UDP), free - 1);
    t.wait(301.0);
    assert!(t.is_empty());
    assert_eq!(t.state.pool().free_ports(UDP), free);
}

/// A connection that the fast path has opened on a leased port.
fn connection(t: &mut Tables) -> SessionView {
    let address = "203.0.113.1".parse().unwrap();
    let port = t.state.pool_mut().lend(TCP, address, 0, || 7).unwrap();
    SessionView {
        binding: Binding {
            protocol: TCP,
            v4: diolkos_nat64::config::Endpoint4 {
                addr: address,
                port,
            },
            v6: e6("2001:db8::1", 6000),
        },
        peer: e4(PEER),
        prefix: 0,
        state: SessionState::V6Init,
        remaining: Duration::from_secs(u32::MAX.into()),
    }
}

/// RFC 6146 section 3.5.2.2, state CLOSED and V6 INIT: an unanswered connection lives for `TCP_TRANS`.
#[test]
fn the_fast_path_opens_a_connection() {
    let mut t = Tables::new(&config());
    let free = t.state.pool().free_ports(TCP);
    let opened = connection(&mut t);
    t.state.adopt(&opened, t.now, &mut t.watch).unwrap();
    assert_eq!(t.only(), Some(SessionState::V6Init));
    t.wait(239.0);
    assert_eq!(t.only(), Some(SessionState::V6Init));
    t.wait(2.0);
    assert!(t.is_empty());
    assert_eq!(t.state.pool().free_ports(TCP), free);
}

/// The peer's SYN was held, so both ends have opened the connection (RFC 6146 section 3.5.2.2).
#[test]
fn the_fast_path_opens_a_connection_that_a_kept_syn_awaits() {
    let mut t = Tables::new(&config());
    let opened = connection(&mut t);
    let kept = t.inward(TCP, opened.binding.v4, PEER, Segment::Syn);
    assert_eq!(kept, Ok(Inward::Held));
    t.state.adopt(&opened, t.now, &mut t.watch).unwrap();
    assert_eq!(t.only(), Some(SessionState::Established));
    assert_eq!(t.state.counts().held_syns, 0);
    assert_eq!(t.wait(7.0), [], "no host gets an error for it");
}

/// The fast path has lost a session and treats its next SYN as the first. For the tables it is an ordinary SYN, and the
/// change is reported to the fast path.
#[test]
fn a_connection_that_the_fast_path_opens_again_goes_on() {
    for (after, then) in [
        (Segment::Rst, SessionState::Established),
        (Segment::Other, SessionState::V6Init),
    ] {
        let mut t = Tables::new(&config());
        let opened = connection(&mut t);
        t.state.adopt(&opened, t.now, &mut t.watch).unwrap();
        if after == Segment::Rst {
            let inward = |t: &mut Tables, segment| t.inward(TCP, opened.binding.v4, PEER, segment);
            inward(&mut t, Segment::Syn).unwrap();
            inward(&mut t, Segment::Rst).unwrap();
            assert_eq!(t.only(), Some(SessionState::Trans));
        }
        t.wait(100.0);
        t.watch.events.clear();
        t.state.adopt(&opened, t.now, &mut t.watch).unwrap();
        assert_eq!(t.only(), Some(then));
        assert!(
            matches!(t.watch.events[..], [Event::SessionChanged(view, _)] if view.state == then)
        );
    }
}
