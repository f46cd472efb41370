// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session of a copy of another gateway's binding is translated before the owner's deadline and not after it, at
//! every place and in both directions. It does not affect this gateway's own sessions. The kernel runs the programs on
//! synthetic packets.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_fastpath::testrun::{Action, Run, TestRun};
use diolkos_fastpath::{
    LeaseSize, Lending, Media, Nat64Rules, NodePort, Owner, Pref64, Rules, Sent, Session, Sessions,
    NODES,
};
use diolkos_sys::clock::kernel_boottime;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const HOST: (Ipv6Addr, u16) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0x64), 40_000);
const POOL: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 7), 26_938);
const PEER: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 2), 443);
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const PROTOCOLS: [u8; 3] = [ICMP, TCP, UDP];
const HOUR: Duration = Duration::from_secs(3600);

struct Programs {
    run: TestRun,
    sessions: Sessions,
    lending: Lending,
}

fn programs() -> Programs {
    let (run, sessions, lending) = TestRun::nat64(&Nat64Rules {
        rules: Rules {
            tun_ifindex: 1,
            mtu4: 1500,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            traffic_class_zero: false,
            takes_hop: true,
            tcp_mss: None,
        },
        pref64: vec![Pref64 {
            network: "64:ff9b::".parse().expect("a prefix"),
            bits: 96,
            only_global: false,
        }],
        max_sessions: 100,
        exits: vec![],
        media: Media::of(&[]),
        drivers: None,
        max_bindings: 100,
        own: vec![],
        max_away: 0,
    })
    .expect("the programs load: run the test as root");
    Programs {
        run,
        sessions,
        lending,
    }
}

fn session(protocol: u8, owner: Owner) -> Session {
    let is_query = protocol == ICMP;
    Session {
        protocol,
        node: HOST,
        v4: POOL,
        peer: (PEER.0, if is_query { 0 } else { PEER.1 }),
        prefix: 0,
        owner,
    }
}

/// TCP with ACK, UDP, or an echo (a request to the peer, a reply to the host).
fn transport(protocol: u8, from: u16, to: u16, is_v6: bool) -> Vec<u8> {
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    match protocol {
        TCP => [&ports[..], &[0; 8], &[0x50, 0x10, 1, 0, 0x12, 0x34, 0, 0]].concat(),
        UDP => [&ports[..], &[0, 12, 0x12, 0x34], b"data"].concat(),
        _ if is_v6 => [&[128, 0, 0x12, 0x34], &from.to_be_bytes()[..], &[0, 1]].concat(),
        _ => [&[0, 0, 0x12, 0x34], &to.to_be_bytes()[..], &[0, 1]].concat(),
    }
}

/// A packet from the host to the peer.
fn outward(protocol: u8) -> Vec<u8> {
    let inside = transport(protocol, HOST.1, PEER.1, true);
    let number = if protocol == ICMP { 58 } else { protocol };
    let mut packet = vec![0x60, 0, 0, 0, 0, inside.len() as u8, number, 64];
    packet.extend(HOST.0.octets());
    packet.extend([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(PEER.0.octets());
    packet.extend(inside);
    packet
}

/// A packet from the peer to the host.
fn inward(protocol: u8) -> Vec<u8> {
    let inside = transport(protocol, PEER.1, POOL.1, false);
    let length = (20 + inside.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(PEER.0.octets());
    packet.extend(POOL.0.octets());
    let words = packet
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(inside);
    packet
}

impl Programs {
    fn put(&self, protocol: u8, owner: Owner) {
        let session = session(protocol, owner);
        let syns = if protocol == TCP { Sent::SYNS } else { 0 };
        self.sessions
            .put(&session, Sent(syns))
            .expect("there is room");
        if protocol != ICMP {
            let node = NodePort {
                protocol,
                addr: HOST.0,
                port: HOST.1,
            };
            let bound = self.sessions.bind(node, POOL, owner);
            bound.expect("there is room");
        }
    }

    /// Runs both directions at the device, at an interface and in a driver.
    fn everywhere(&mut self, protocol: u8) -> Vec<Run> {
        let (out, back) = (outward(protocol), inward(protocol));
        let run = &mut self.run;
        let there =
            |run: std::io::Result<Option<Run>>| run.expect("it runs").expect("there is one");
        let mut runs = Vec::new();
        for place in 0..6 {
            // Each CPU has its own identification, and the thread may move.
            run.set_ipv4_id(7).expect("the map takes it");
            runs.push(match place {
                0 => run.from_ipv6(&out, 0).expect("it runs"),
                1 => there(run.inline_from_ipv6(&out, 0)),
                2 => there(run.driver_from_ipv6(&out)),
                3 => run.from_ipv4(&back, 0).expect("it runs"),
                4 => there(run.inline_from_ipv4(&back, 0)),
                _ => there(run.driver_from_ipv4(&back)),
            });
        }
        runs
    }
}

fn assert_translated(runs: &[Run], what: &str) {
    for (at, run) in runs.iter().enumerate() {
        let fate = if at < 3 {
            "translated_6to4"
        } else {
            "translated_4to6"
        };
        assert_eq!(run.fates[0].0, fate, "{what}, place {at}: {run:?}");
        assert_eq!(
            run.packet[0] >> 4,
            if at < 3 { 4 } else { 6 },
            "{what}, place {at}"
        );
    }
}

/// Checks that each packet is unchanged and that the device counts the reason.
fn assert_declined(runs: &[Run], protocol: u8, what: &str) {
    for (at, run) in runs.iter().enumerate() {
        let packet = if at < 3 {
            outward(protocol)
        } else {
            inward(protocol)
        };
        assert_eq!(run.action, Action::Next, "{what}, place {at}");
        assert_eq!(run.packet, packet, "{what}, place {at}");
        let fates: Vec<_> = run.fates.iter().map(|(name, _)| *name).collect();
        let counted: &[_] = if at % 3 == 0 { &["decline_copy"] } else { &[] };
        assert_eq!(fates, counted, "{what}, place {at}");
    }
}

#[test]
fn a_copy_serves_until_the_deadline_of_its_owner() {
    let mut programs = programs();
    for protocol in PROTOCOLS {
        for number in [0, 1, 31, NODES - 1] {
            let owner = Owner::node(number).expect("there is one");
            let other = Owner::node(2).expect("there is one");
            let what = format!("protocol {protocol} of node {number}");
            programs.put(protocol, owner);

            programs.sessions.set_deadline(other, Duration::MAX);
            assert_declined(&programs.everywhere(protocol), protocol, &what);

            let later = kernel_boottime() + HOUR;
            programs.sessions.set_deadline(owner, later);
            assert_translated(&programs.everywhere(protocol), &what);

            let now = kernel_boottime();
            programs.sessions.set_deadline(owner, now);
            assert_declined(&programs.everywhere(protocol), protocol, &what);

            programs.sessions.set_deadline(owner, Duration::MAX);
            assert_translated(&programs.everywhere(protocol), &what);
            programs.sessions.set_deadline(owner, Duration::ZERO);
            assert_declined(&programs.everywhere(protocol), protocol, &what);
        }
    }
}

/// The program must open no sessions for the port of another gateway.
#[test]
fn no_session_is_opened_by_a_copy() {
    let mut programs = programs();
    let owner = Owner::node(1).expect("there is one");
    programs.sessions.set_deadline(owner, Duration::MAX);
    let place = programs.lending.set_of(HOST.0).start;
    programs
        .lending
        .assign(place, HOST.0, POOL.0, LeaseSize::Usual);
    programs.lending.add_sessions(place, 100);
    for protocol in [UDP, TCP] {
        programs.put(protocol, owner);
        let of_binding = session(protocol, owner);
        programs.sessions.remove(&of_binding).expect("it is there");
        let mut packet = outward(protocol);
        if protocol == TCP {
            packet[40 + 13] = 0x02;
        }
        let run = programs.run.from_ipv6(&packet, 0).expect("it runs");
        assert_eq!(run.fates[0].0, "decline_state");
        assert_eq!(run.packet, packet);
        assert_eq!(programs.lending.drain(), vec![]);
        assert_eq!(programs.lending.sessions(place), 100);

        // With the same lease, it opens a session of an own binding.
        programs.put(protocol, Owner::OURS);
        programs
            .sessions
            .remove(&session(protocol, Owner::OURS))
            .expect("it is there");
        let run = programs.run.from_ipv6(&packet, 0).expect("it runs");
        assert_eq!(run.fates[0].0, "translated_6to4");
        assert_eq!(programs.lending.drain().len(), 1);
        programs.lending.add_sessions(place, 1);
    }
}

#[test]
fn what_was_put_is_read_with_its_owner() {
    let programs = programs();
    let owner = Owner::node(5).expect("there is one");
    programs.put(TCP, owner);
    let sessions = &programs.sessions;
    let read: Vec<_> = sessions.inward().chain(sessions.outward()).collect();
    assert_eq!(read.len(), 2);
    for seen in read {
        assert_eq!(seen.expect("it is read").0, session(TCP, owner));
    }
    let bound: Vec<_> = sessions
        .bound()
        .map(|bound| bound.expect("it is read").2)
        .collect();
    assert_eq!(bound, [owner]);
    assert_eq!(Owner::node(NODES), None);
    assert_eq!(owner.number(), Some(5));
    assert_eq!(Owner::OURS.number(), None);
}

#[test]
fn no_deadline_touches_own_sessions() {
    let programs = RefCell::new(programs());
    let before = PROTOCOLS.map(|protocol| {
        let programs = &mut *programs.borrow_mut();
        programs.put(protocol, Owner::OURS);
        let runs = programs.everywhere(protocol);
        assert_translated(&runs, "own");
        runs
    });
    let deadlines = prop::collection::vec((0..NODES, any::<u64>()), 0..100);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let tested = runner.run(&(deadlines, any::<u64>()), |(deadlines, ours)| {
        let programs = &mut *programs.borrow_mut();
        for (number, moment) in deadlines {
            let owner = Owner::node(number).expect("there is one");
            let moment = Duration::from_nanos(moment);
            programs.sessions.set_deadline(owner, moment);
        }
        let ours = Duration::from_nanos(ours);
        programs.sessions.set_deadline(Owner::OURS, ours);
        for (protocol, before) in PROTOCOLS.into_iter().zip(&before) {
            prop_assert_eq!(&programs.everywhere(protocol), before);
        }
        Ok(())
    });
    tested.expect("nothing changes");
}
