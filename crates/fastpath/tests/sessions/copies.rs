// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session of a copy of another gateway's binding is translated before the owner's deadline and not after it. It does not
//! affect this gateway's own sessions.

use std::cell::RefCell;
use std::time::Duration;

use diolkos_fastpath::testrun::{Action, Run};
use diolkos_fastpath::{LeaseSize, Owner, NODES};
use diolkos_sys::clock::kernel_boottime;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::{
    assert_translated, inward, outward, programs, session, HOST, POOL, PROTOCOLS, TCP, UDP,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Checks that each packet is unchanged and that the device counts the reason.
fn assert_declined(runs: &[Run], protocol: u8, what: &str) {
    for (at, run) in runs.iter().enumerate() {
        let packet = if at < 3 {
            outward(&session(protocol, Owner::OURS))
        } else {
            inward(&session(protocol, Owner::OURS))
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
    let mut programs = programs(100);
    for protocol in PROTOCOLS {
        for number in [0, 1, 31, NODES - 1] {
            let owner = Owner::node(number).expect("there is one");
            let other = Owner::node(2).expect("there is one");
            let what = format!("protocol {protocol} of node {number}");
            programs.put(&session(protocol, owner));

            programs.sessions.set_deadline(other, Duration::MAX);
            assert_declined(
                &programs.everywhere(&session(protocol, Owner::OURS)),
                protocol,
                &what,
            );

            let later = kernel_boottime() + HOUR;
            programs.sessions.set_deadline(owner, later);
            assert_translated(&programs.everywhere(&session(protocol, Owner::OURS)), &what);

            let now = kernel_boottime();
            programs.sessions.set_deadline(owner, now);
            assert_declined(
                &programs.everywhere(&session(protocol, Owner::OURS)),
                protocol,
                &what,
            );

            programs.sessions.set_deadline(owner, Duration::MAX);
            assert_translated(&programs.everywhere(&session(protocol, Owner::OURS)), &what);
            programs.sessions.set_deadline(owner, Duration::ZERO);
            assert_declined(
                &programs.everywhere(&session(protocol, Owner::OURS)),
                protocol,
                &what,
            );
        }
    }
}

/// The program must open no sessions for the port of another gateway.
#[test]
fn no_session_is_opened_by_a_copy() {
    let mut programs = programs(100);
    let owner = Owner::node(1).expect("there is one");
    programs.sessions.set_deadline(owner, Duration::MAX);
    let place = programs.lending.set_of(HOST.0).start;
    programs
        .lending
        .assign(place, HOST.0, POOL.0, LeaseSize::Usual);
    programs.lending.add_sessions(place, 100);
    for protocol in [UDP, TCP] {
        programs.put(&session(protocol, owner));
        let of_binding = session(protocol, owner);
        programs.sessions.remove(&of_binding).expect("it is there");
        let mut packet = outward(&session(protocol, Owner::OURS));
        if protocol == TCP {
            packet[40 + 13] = 0x02;
        }
        let run = programs.run.from_ipv6(&packet, 0).expect("it runs");
        assert_eq!(run.fates[0].0, "decline_state");
        assert_eq!(run.packet, packet);
        assert_eq!(programs.lending.drain(), vec![]);
        assert_eq!(programs.lending.sessions(place), 100);

        // With the same lease, it opens a session of an own binding.
        programs.put(&session(protocol, Owner::OURS));
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
    let programs = programs(100);
    let owner = Owner::node(5).expect("there is one");
    programs.put(&session(TCP, owner));
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
    let programs = RefCell::new(programs(100));
    let before = PROTOCOLS.map(|protocol| {
        let programs = &mut *programs.borrow_mut();
        programs.put(&session(protocol, Owner::OURS));
        let runs = programs.everywhere(&session(protocol, Owner::OURS));
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
            prop_assert_eq!(
                &programs.everywhere(&session(protocol, Owner::OURS)),
                before
            );
        }
        Ok(())
    });
    tested.expect("nothing changes");
}
