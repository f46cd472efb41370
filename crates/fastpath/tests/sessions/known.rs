// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs have found a moment ago (`bpf/session_cache.h`): a packet is translated by the session that is in the tables
//! when its program begins, and by no other.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::thread::sleep;
use std::time::Duration;

use diolkos_fastpath::testrun::Run;
use diolkos_fastpath::{Owner, Session};
use diolkos_sys::clock::monotonic_coarse;
use proptest::prelude::*;

use crate::{
    assert_translated, inward, outward, peer6, port_of, programs, session, Programs, PROTOCOLS,
    TCP, UDP,
};

/// Another node that comes to use the same external port, with the same peer.
fn next(session: &Session) -> Session {
    let node = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 0x65);
    Session {
        node: (node, 50_000),
        ..*session
    }
}

/// What each packet has become is what the session says.
fn assert_by(runs: &[Run], by: &Session, what: &str) {
    assert_translated(runs, what);
    for (at, Run { packet, .. }) in runs.iter().enumerate() {
        match at < 3 {
            true => {
                assert_eq!(packet[12..16], by.v4.0.octets(), "{what}, place {at}");
                assert_eq!(packet[16..20], by.peer.0.octets(), "{what}, place {at}");
                let port = if by.protocol == 1 { 24..26 } else { 20..22 };
                assert_eq!(packet[port], by.v4.1.to_be_bytes(), "{what}, place {at}");
            }
            false => {
                assert_eq!(packet[8..24], peer6(by).octets(), "{what}, place {at}");
                assert_eq!(packet[24..40], by.node.0.octets(), "{what}, place {at}");
                let port = if by.protocol == 1 { 44..46 } else { 42..44 };
                assert_eq!(packet[port], by.node.1.to_be_bytes(), "{what}, place {at}");
            }
        }
    }
}

fn assert_unknown(programs: &mut Programs, session: &Session, what: &str) {
    let runs = programs.everywhere(session);
    for (at, run) in runs.iter().enumerate() {
        let packet = if at < 3 {
            outward(session)
        } else {
            inward(session)
        };
        assert_eq!(run.packet, packet, "{what}, place {at}: {run:?}");
    }
}

#[test]
fn a_session_that_is_removed_is_not_used() {
    // In few places, and in many.
    for (max_sessions, protocol) in [100, 40_000]
        .into_iter()
        .flat_map(|max| PROTOCOLS.map(|protocol| (max, protocol)))
    {
        let mut programs = programs(max_sessions);
        let it = session(protocol, Owner::OURS);
        for remove in [
            |programs: &Programs, it| programs.sessions.remove(it),
            |programs: &Programs, it: &Session| programs.sessions.remove_all(&[*it]),
        ] {
            let what = format!("protocol {protocol}");
            programs.put(&it);
            assert_by(&programs.everywhere(&it), &it, &what);
            assert_by(&programs.everywhere(&it), &it, &what);
            remove(&programs, &it).expect("it is there");
            assert_unknown(&mut programs, &it, &what);
        }
    }
}

/// With the removal of the first session, and without.
#[test]
fn a_port_of_another_node_is_its_port_at_once() {
    let mut programs = programs(100);
    for protocol in PROTOCOLS {
        let (it, other) = (
            session(protocol, Owner::OURS),
            next(&session(protocol, Owner::OURS)),
        );
        for is_removed in [true, false] {
            let what = format!("protocol {protocol}, removed: {is_removed}");
            programs.put(&it);
            assert_by(&programs.everywhere(&it), &it, &what);
            if is_removed {
                programs.sessions.remove(&it).expect("it is there");
                if protocol != 1 {
                    programs.sessions.unbind(port_of(&it)).expect("it is there");
                }
            }
            programs.put(&other);
            assert_by(&programs.everywhere(&other), &other, &what);
            programs.sessions.remove(&other).expect("it is there");
        }
    }
}

/// A node that begins to know its peer by another prefix is answered from there.
#[test]
fn a_session_that_changes_is_used_as_it_is() {
    let mut programs = programs(100);
    for protocol in PROTOCOLS {
        let mut it = session(protocol, Owner::OURS);
        for prefix in [0, 1, 0] {
            it.prefix = prefix;
            programs.put(&it);
            let what = format!("protocol {protocol}, prefix {prefix}");
            assert_by(&programs.everywhere(&it), &it, &what);
            assert_by(&programs.everywhere(&it), &it, &what);
            // By the other prefix, the node does not know the peer yet.
            let other = Session {
                prefix: 1 - prefix,
                ..it
            };
            let packet = outward(&other);
            let run = programs.run.from_ipv6(&packet, 0).expect("it runs");
            assert_eq!(run.packet, packet, "{what}");
        }
    }
}

#[test]
fn a_session_in_use_does_not_look_older_than_it_is() {
    let mut programs = programs(100);
    for protocol in [TCP, UDP] {
        let it = session(protocol, Owner::OURS);
        programs.put(&it);
        // The values of the clock of programs, as it moves from tick to tick. A CPU may have read it after a tick was counted and
        // before the clock moved, and keeps that for the tick: one value earlier, however long ticks take in a virtual machine.
        let first = monotonic_coarse();
        let (mut before, mut now) = (first, first);
        // More than two windows in which a session is stamped once.
        while now < first + Duration::from_millis(300) {
            sleep(Duration::from_millis(5));
            let next = monotonic_coarse();
            if next != now {
                (before, now) = (now, next);
            }
            assert_translated(&programs.everywhere(&it), "in use");
            let seen = programs.sessions.last_seen(&it).expect("it is there");
            let seen = seen.expect("it was used");
            assert!(seen >= before, "{seen:?} is before {before:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(Session),
    Remove(Session),
    Out(Session),
    In(Session),
}

/// One of few sessions: nodes, ports and peers meet in all combinations.
fn any_session() -> impl Strategy<Value = Session> {
    let of = (
        prop::sample::select(vec![TCP, UDP]),
        0..3u16,
        0..3u16,
        0..3u8,
        0..2u8,
    );
    of.prop_map(|(protocol, node, port, peer, prefix)| Session {
        protocol,
        node: (Ipv6Addr::new(0x2001, 0xdb8, 0, node, 0, 0, 0, 1), 40_000),
        v4: (Ipv4Addr::new(192, 0, 2, 7), 30_000 + port),
        peer: (Ipv4Addr::new(198, 51, 100, peer), 443),
        prefix,
        owner: Owner::OURS,
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    (0..10, any_session()).prop_map(|(kind, it)| match kind {
        0..2 => Step::Put(it),
        2 => Step::Remove(it),
        3..7 => Step::Out(it),
        _ => Step::In(it),
    })
}

/// The tables as they should be: of each node's port and peer one session, and of each external port and peer.
#[derive(Default)]
struct Model(Vec<Session>);

impl Model {
    /// What has to go before a session is put: those whose place it takes.
    fn in_its_way(&self, it: &Session) -> Vec<Session> {
        let collides = |there: &&Session| {
            there.protocol == it.protocol
                && ((there.node == it.node && there.v4 != it.v4)
                    || (there.v4 == it.v4 && there.node != it.node))
        };
        self.0.iter().filter(collides).copied().collect()
    }

    /// Returns true if it was there, by whatever prefix.
    fn remove(&mut self, it: &Session) -> bool {
        let before = self.0.len();
        let is_it = |there: &Session| {
            (there.protocol, there.node, there.v4, there.peer)
                == (it.protocol, it.node, it.v4, it.peer)
        };
        self.0.retain(|there| !is_it(there));
        self.0.len() < before
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Few places, so that sessions of both directions share them.
    #[test]
    fn a_packet_is_translated_by_what_is_in_the_tables(
        steps in prop::collection::vec(any_step(), 200..400),
    ) {
        let mut programs = programs(16);
        let mut model = Model::default();
        let mut translated = 0;
        for step in steps {
            match step {
                Step::Put(it) => {
                    for other in model.in_its_way(&it) {
                        programs.sessions.remove(&other).expect("it is there");
                        programs.sessions.unbind(port_of(&other)).expect("it is there");
                        model.remove(&other);
                    }
                    if model.remove(&it) || model.0.len() < 16 {
                        programs.put(&it);
                        model.0.push(it);
                    }
                }
                Step::Remove(it) => {
                    if model.remove(&it) {
                        programs.sessions.remove(&it).expect("it is there");
                    }
                }
                Step::Out(it) => {
                    let is_its = |there: &&Session| {
                        (there.protocol, there.node, there.peer, there.prefix)
                            == (it.protocol, it.node, it.peer, it.prefix)
                    };
                    let packet = outward(&it);
                    let run = programs.run.from_ipv6(&packet, 0).expect("it runs");
                    match model.0.iter().find(is_its) {
                        Some(by) => {
                            prop_assert_eq!(&run.packet[12..16], &by.v4.0.octets()[..]);
                            prop_assert_eq!(&run.packet[20..22], &by.v4.1.to_be_bytes()[..]);
                            translated += 1;
                        }
                        None => prop_assert_eq!(run.packet, packet),
                    }
                }
                Step::In(it) => {
                    let is_its = |there: &&Session| {
                        (there.protocol, there.v4, there.peer) == (it.protocol, it.v4, it.peer)
                    };
                    let packet = inward(&it);
                    let run = programs.run.from_ipv4(&packet, 0).expect("it runs");
                    match model.0.iter().find(is_its) {
                        Some(by) => {
                            prop_assert_eq!(&run.packet[8..24], &peer6(by).octets()[..]);
                            prop_assert_eq!(&run.packet[24..40], &by.node.0.octets()[..]);
                            translated += 1;
                        }
                        None => prop_assert_eq!(run.packet, packet),
                    }
                }
            }
        }
        prop_assert!(translated > 0, "nothing was translated");
    }
}
