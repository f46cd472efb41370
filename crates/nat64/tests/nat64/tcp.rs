// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sessions (RFC 6146 section 3.5.2): every way into and out of every state, with its time.

use crate::harness::*;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Filtering, Protocol};
use diolkos_nat64::session::SessionState::*;
use diolkos_nat64::session::{Event, Inward, Segment, SessionState, Side};
use diolkos_xlat::Reason;

use Segment::{Fin, Other, Rst, Syn};
use Side::{V4, V6};

const PEER: &str = "192.0.2.1:80";
const EST: f64 = 7440.0;
const TRANS: f64 = 240.0;

fn node() -> Endpoint6 {
    e6("2001:db8::1", 5000)
}

struct Connection {
    t: Tables,
    v4: Endpoint4,
}

impl Connection {
    /// A connection after these packets, the first of which comes from the IPv6 side.
    fn after(packets: &[(Side, Segment)]) -> Connection {
        let mut t = Tables::new(&config());
        let v4 = t.out(Protocol::Tcp, node(), PEER, Syn).unwrap();
        let mut connection = Connection { t, v4 };
        for &(side, segment) in packets {
            connection.give(side, segment).unwrap();
        }
        connection
    }

    fn give(&mut self, side: Side, segment: Segment) -> Result<(), Reason> {
        match side {
            V6 => self.t.out(Protocol::Tcp, node(), PEER, segment).map(drop),
            V4 => {
                let v4 = self.v4;
                let inward = self.t.inward(Protocol::Tcp, v4, PEER, segment)?;
                assert_eq!(inward, Inward::Node(node(), 0));
                Ok(())
            }
        }
    }

    fn in_state(state: SessionState) -> Connection {
        let open = [(V4, Syn)];
        let more: &[(Side, Segment)] = match state {
            V6Init => return Connection::after(&[]),
            Established => &[],
            V4FinRcv => &[(V4, Fin)],
            V6FinRcv => &[(V6, Fin)],
            V4FinV6FinRcv => &[(V4, Fin), (V6, Fin)],
            Trans => &[(V4, Rst)],
            V4Init => {
                let mut config = config();
                config.bindings = vec![binding(Protocol::Tcp, "203.0.113.1:443", node())];
                let mut t = Tables::new(&config);
                let v4 = e4("203.0.113.1:443");
                t.inward(Protocol::Tcp, v4, PEER, Syn).unwrap();
                return Connection { t, v4 };
            }
            Udp | Icmp => unreachable!(),
        };
        let connection = Connection::after(&[&open, more].concat());
        assert_eq!(connection.t.only(), Some(state));
        connection
    }
}

fn lifetime(state: SessionState) -> f64 {
    match state {
        Established | V4FinRcv | V6FinRcv => EST,
        _ => TRANS,
    }
}

const STATES: [SessionState; 7] = [
    V4Init,
    V6Init,
    Established,
    V4FinRcv,
    V6FinRcv,
    V4FinV6FinRcv,
    Trans,
];

/// For every state and packet: the next state, and its timeout. Another test compares the table of the state
/// machine with the RFC (`session/tcp.rs`).
#[test]
fn every_state_and_every_packet_with_its_time() {
    for state in STATES {
        for side in [V4, V6] {
            for segment in [Syn, Fin, Rst, Other] {
                let what = format!("{state:?} {side:?} {segment:?}");
                let mut c = Connection::in_state(state);
                c.t.wait(100.0);
                c.give(side, segment).unwrap();
                let (next, renewed) = state.after(side, segment);
                assert_eq!(c.t.only(), Some(next), "{what}");
                let left = lifetime(next) - if renewed { 0.0 } else { 100.0 };
                c.t.wait(left - 1.0);
                assert_eq!(c.t.only(), Some(next), "{what}, a second before its end");
                let sent = c.t.wait(2.0);
                if next == Established {
                    assert_eq!(c.t.only(), Some(Trans), "{what}: probed");
                    assert!(matches!(sent[..], [Sent::Probe(_)]));
                    assert_eq!(c.t.wait(TRANS + 1.0), []);
                }
                assert_eq!(c.t.only(), None, "{what}, after its end");
            }
        }
    }
}

#[test]
fn a_probe_that_is_answered_keeps_the_connection() {
    let mut c = Connection::in_state(Established);
    let sent = c.t.wait(EST + 1.0);
    assert_eq!(sent.len(), 1);
    assert_eq!(c.t.only(), Some(Trans));
    c.give(V6, Other).unwrap();
    assert_eq!(c.t.only(), Some(Established));
    assert_eq!(c.t.wait(EST - 1.0), []);
    assert_eq!(c.t.wait(2.0).len(), 1);
    c.give(V6, Rst).unwrap();
    c.t.wait(TRANS + 1.0);
    assert!(c.t.is_empty());
}

#[test]
fn only_a_syn_begins_a_connection() {
    let mut t = Tables::new(&config());
    for segment in [Fin, Rst, Other] {
        assert_eq!(
            t.out(Protocol::Tcp, node(), PEER, segment),
            Err(Reason::NoConnection)
        );
        assert_eq!(
            t.inward(Protocol::Tcp, e4("203.0.113.1:2000"), PEER, segment),
            Err(Reason::NoBinding)
        );
    }
    assert!(t.is_empty());
    // With a binding, other packets pass without a session.
    let v4 = t.out(Protocol::Tcp, node(), PEER, Syn).unwrap();
    assert_eq!(t.out(Protocol::Tcp, node(), "192.0.2.9:9", Other), Ok(v4));
    assert_eq!(
        t.inward(Protocol::Tcp, v4, "192.0.2.8:8", Rst),
        Ok(Inward::Node(node(), 0))
    );
    assert_eq!(t.sessions(), 1);
}

#[test]
fn a_syn_to_nobody_is_kept_six_seconds_and_answered() {
    let mut t = Tables::new(&config());
    let v4 = e4("203.0.113.1:2000");
    assert_eq!(t.inward(Protocol::Tcp, v4, PEER, Syn), Ok(Inward::Held));
    assert_eq!(
        t.inward(Protocol::Tcp, v4, PEER, Syn),
        Ok(Inward::Held),
        "repeated"
    );
    assert_eq!(t.state.counts().held_syns, 1);
    assert_eq!(t.wait(5.999), []);
    assert_eq!(t.wait(0.001), [Sent::Unanswered(b"the packet".to_vec())]);
    assert!(t.is_empty());
    assert_eq!(t.watch.dropped, [Reason::SynUnanswered]);
    // Not for addresses or ports outside the pool.
    for foreign in ["203.0.113.2:2000", "203.0.113.1:80"] {
        assert_eq!(
            t.inward(Protocol::Tcp, e4(foreign), PEER, Syn),
            Err(Reason::NoBinding)
        );
    }
}

#[test]
fn a_syn_that_is_not_let_in_is_kept_for_a_simultaneous_open() {
    let mut config = config();
    config.filtering = Filtering::AddressDependent;
    let mut t = Tables::new(&config);
    let v4 = t.out(Protocol::Tcp, node(), "192.0.2.99:80", Syn).unwrap();
    assert_eq!(
        t.inward(Protocol::Tcp, v4, PEER, Other),
        Err(Reason::Filtered)
    );
    assert_eq!(t.inward(Protocol::Tcp, v4, PEER, Syn), Ok(Inward::Held));
    assert_eq!(t.sessions(), 1);
    t.wait(3.0);
    assert_eq!(t.out(Protocol::Tcp, node(), PEER, Syn), Ok(v4));
    let with_peer = |t: &Tables| t.state.sessions().find(|view| view.peer == e4(PEER));
    assert_eq!(with_peer(&t).unwrap().state, Established);
    // No answer is sent any more, and a later SYN belongs to the connection.
    assert_eq!(t.wait(4.0), []);
    assert_eq!(
        t.inward(Protocol::Tcp, v4, PEER, Syn),
        Ok(Inward::Node(node(), 0))
    );
    assert_eq!(t.state.counts().held_syns, 0);
}

#[test]
fn a_syn_kept_again_after_it_was_answered_has_its_own_time() {
    let mut config = config();
    config.filtering = Filtering::AddressDependent;
    config.bindings = vec![binding(Protocol::Tcp, "203.0.113.1:443", node())];
    let mut t = Tables::new(&config);
    let v4 = e4("203.0.113.1:443");
    t.inward(Protocol::Tcp, v4, PEER, Syn).unwrap();
    t.wait(2.0);
    t.out(Protocol::Tcp, node(), PEER, Syn).unwrap();
    t.state.unbind(Protocol::Tcp, v4, &mut ()).unwrap();
    t.state
        .bind(binding(Protocol::Tcp, "203.0.113.1:443", node()), &mut ())
        .unwrap();
    assert_eq!(t.inward(Protocol::Tcp, v4, PEER, Syn), Ok(Inward::Held));
    assert_eq!(
        t.wait(5.0),
        [],
        "the first one's time is over, not the second's"
    );
    assert_eq!(t.wait(1.0).len(), 1);
}

#[test]
fn a_binding_made_while_a_syn_is_kept_takes_it() {
    let mut t = Tables::new(&config());
    let v4 = e4("203.0.113.1:2000");
    t.inward(Protocol::Tcp, v4, PEER, Syn).unwrap();
    t.state
        .bind(binding(Protocol::Tcp, "203.0.113.1:2000", node()), &mut ())
        .unwrap();
    assert_eq!(t.out(Protocol::Tcp, node(), PEER, Syn), Ok(v4));
    assert_eq!(t.only(), Some(Established));
}

#[test]
fn as_many_syns_are_kept_as_may_be() {
    let mut config = config();
    config.limits.held_syns = 3;
    let mut t = Tables::new(&config);
    let v4 = e4("203.0.113.1:2000");
    for port in 1..=3 {
        let peer = format!("192.0.2.1:{port}");
        assert_eq!(t.inward(Protocol::Tcp, v4, &peer, Syn), Ok(Inward::Held));
    }
    assert_eq!(
        t.inward(Protocol::Tcp, v4, "192.0.2.1:4", Syn),
        Err(Reason::SynLimit)
    );
    assert_eq!(t.wait(6.0).len(), 3);
    assert_eq!(
        t.inward(Protocol::Tcp, v4, "192.0.2.1:4", Syn),
        Ok(Inward::Held)
    );
}

#[test]
fn the_fast_path_has_a_connection_except_after_a_reset() {
    let mut c = Connection::after(&[
        (V4, Syn),
        (V6, Other),
        (V4, Rst),
        (V6, Other),
        (V6, Fin),
        (V4, Fin),
    ]);
    let seen: Vec<(SessionState, bool)> =
        c.t.watch
            .events
            .iter()
            .filter_map(|event| match event {
                Event::SessionOpened(view) | Event::SessionChanged(view, _) => {
                    Some((view.state, view.is_for_fast_path()))
                }
                _ => None,
            })
            .collect();
    assert_eq!(
        seen,
        [
            (V6Init, true),
            (Established, true),
            (Trans, false),
            (Established, true),
            (V6FinRcv, true),
            (V4FinV6FinRcv, true)
        ]
    );
    c.t.wait(TRANS + 1.0);
    let last: Vec<&Event> = c.t.watch.events.iter().rev().take(2).collect();
    assert!(matches!(
        last[..],
        [Event::BindingClosed(_), Event::SessionClosed(_)]
    ));
}

#[test]
fn a_port_that_is_used_again_carries_a_connection_that_lasts() {
    for (opens, answers) in [(V6, V4), (V4, V6)] {
        let mut c = Connection::in_state(V4FinV6FinRcv);
        c.t.wait(TRANS - 1.0);
        c.give(opens, Syn).unwrap();
        c.t.wait(2.0);
        c.give(answers, Syn).unwrap();
        c.t.wait(EST - 1.0);
        assert_eq!(c.t.only(), Some(Established), "opened by {opens:?}");
    }
}

#[test]
fn stamps_of_the_fast_path_keep_a_connection_without_probes() {
    let mut c = Connection::in_state(Established);
    let view = c.t.state.sessions().next().unwrap();
    for _ in 0..5 {
        c.t.watch.stamps.insert(
            (view.binding, view.peer),
            c.t.now + std::time::Duration::from_secs(4000),
        );
        assert_eq!(c.t.wait(5000.0), []);
        assert_eq!(c.t.only(), Some(Established));
    }
    assert_eq!(c.t.wait(EST - 998.0).len(), 1);
}

/// Segments reported by the fast path change a connection as those seen by the tables do.
#[test]
fn what_is_told_moves_a_connection() {
    for state in STATES {
        for side in [V4, V6] {
            for segment in [Syn, Fin, Rst] {
                let what = format!("{state:?} {side:?} {segment:?}");
                let mut c = Connection::in_state(state);
                c.t.wait(100.0);
                let view = c.t.state.sessions().next().unwrap();
                let (now, of) = (c.t.now, (view.binding, view.peer));
                c.t.state.moved(now, of, (side, segment), &mut c.t.watch);
                let (next, renewed) = state.after(side, segment);
                assert_eq!(c.t.only(), Some(next), "{what}");
                let left = lifetime(next) - if renewed { 0.0 } else { 100.0 };
                c.t.wait(left - 1.0);
                assert_eq!(c.t.only(), Some(next), "{what}, a second before its end");
                c.t.wait(2.0);
                assert_ne!(c.t.only(), Some(next), "{what}, after its end");
            }
        }
    }
}

/// The node's session has ended, and another node has its port: a late report of a program does not affect the
/// new session.
#[test]
fn what_is_told_late_moves_nobody_elses_connection() {
    let mut c = Connection::in_state(Established);
    let view = c.t.state.sessions().next().unwrap();
    let (now, peer) = (c.t.now, view.peer);
    let mut others = [view.binding; 3];
    others[0].v6 = e6("2001:db8::2", 5000);
    others[1].v6 = e6("2001:db8::1", 5001);
    others[2].v4.port ^= 1;
    for other in others {
        c.t.state
            .moved(now, (other, peer), (V4, Rst), &mut c.t.watch);
        assert_eq!(c.t.only(), Some(Established));
    }
    let stranger = e4("192.0.2.1:81");
    c.t.state
        .moved(now, (view.binding, stranger), (V4, Rst), &mut c.t.watch);
    assert_eq!(c.t.only(), Some(Established));
}

#[test]
fn a_first_fin_does_not_forget_what_the_fast_path_has_seen() {
    let mut c = Connection::in_state(Established);
    let view = c.t.state.sessions().next().unwrap();
    c.t.wait(EST - 1.0);
    c.t.watch.stamps.insert((view.binding, view.peer), c.t.now);
    c.give(V4, Fin).unwrap();
    c.t.wait(EST - 1.0);
    assert_eq!(c.t.only(), Some(V4FinRcv));
    c.t.wait(3.0);
    assert_eq!(c.t.only(), None);
}
