// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets from outside to ports that no node has (`bpf/unbound.h`): they are dropped at the slow path's device, and nothing
//! else is.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use diolkos_fastpath::testrun::{Action, Run};
use diolkos_fastpath::Session;
use proptest::prelude::*;

use crate::{inward, programs, programs_that_hear, session, Owner, Programs, PROTOCOLS, TCP, UDP};

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
/// Place of the flags in a TCP segment behind an IPv4 header.
const FLAGS: usize = 20 + 13;

impl Programs {
    /// Runs the program at the device on a packet from outside.
    fn arrives(&mut self, packet: &[u8]) -> Run {
        self.run.from_ipv4(packet, 0).expect("it runs")
    }
}

/// Somebody's packet to a port of the pool.
fn to(protocol: u8, port: u16) -> Session {
    let mut session = session(protocol, Owner::OURS);
    session.v4.1 = port;
    session
}

fn is_dropped(run: &Run) -> bool {
    let fates: Vec<_> = run.fates.iter().map(|(name, _)| *name).collect();
    let is_dropped = run.action == Action::Drop;
    assert_eq!(is_dropped, fates == ["drop_no_binding"], "{run:?}");
    is_dropped
}

#[test]
fn before_it_is_told_a_program_drops_nothing() {
    let mut programs = programs(100);
    for protocol in PROTOCOLS {
        let packet = inward(&to(protocol, 5000));
        assert!(!is_dropped(&programs.arrives(&packet)), "{protocol}");
    }
    programs.lending.tell_unbound(std::iter::empty());
    for protocol in PROTOCOLS {
        let packet = inward(&to(protocol, 5000));
        let run = programs.arrives(&packet);
        assert!(is_dropped(&run), "{protocol}");
        assert_eq!(run.packet, packet, "it is as it was");
    }
}

/// At the interfaces, routes have not decided yet whose the packet is.
#[test]
fn at_interfaces_nothing_is_dropped() {
    let mut programs = programs(100);
    programs.lending.tell_unbound(std::iter::empty());
    for protocol in PROTOCOLS {
        let it = to(protocol, 5000);
        let runs = programs.everywhere(&it);
        let dropped = runs.iter().map(|run| run.action == Action::Drop);
        let expected: Vec<_> = (0..runs.len()).map(|at| at == 3).collect();
        assert_eq!(dropped.collect::<Vec<_>>(), expected, "{protocol}");
    }
}

#[test]
fn a_port_that_is_occupied_is_never_unbound() {
    let mut programs = programs(100);
    programs.lending.tell_unbound(std::iter::empty());
    for protocol in PROTOCOLS {
        let it = to(protocol, 6000);
        let packet = inward(&it);
        assert!(is_dropped(&programs.arrives(&packet)));
        // Lent, then bound as well, then given back by one after the other.
        for (occupied, change) in [
            (true, true),
            (true, true),
            (true, false),
            (false, false),
            (true, true),
        ] {
            match change {
                true => programs.lending.occupy(protocol, it.v4),
                false => programs.lending.vacate(protocol, it.v4),
            }
            assert_eq!(!is_dropped(&programs.arrives(&packet)), occupied);
        }
    }
}

/// RFC 6146 section 3.5.2.2: a SYN from outside may be half of a simultaneous open. A source of ours is refused for another
/// reason, and so is one that no translation prefix carries.
#[test]
fn what_the_slow_path_decides_otherwise_goes_there() {
    let mut programs = programs(100);
    programs.lending.tell_unbound(std::iter::empty());
    for (flags, dropped) in [
        (SYN, false),
        (SYN | 0x10, false),
        (SYN | RST, false),
        (RST, true),
        (0x11, true),
        (0, true),
    ] {
        let mut packet = inward(&to(TCP, 7000));
        packet[FLAGS] = flags;
        assert_eq!(
            is_dropped(&programs.arrives(&packet)),
            dropped,
            "{flags:#x}"
        );
    }
    for (source, dropped) in [
        ([192, 0, 2, 9], false),
        ([127, 0, 0, 1], false),
        ([224, 0, 0, 1], false),
        ([192, 0, 3, 9], true),
    ] {
        let mut it = to(UDP, 7000);
        it.peer.0 = Ipv4Addr::from(source);
        let run = programs.arrives(&inward(&it));
        assert_eq!(is_dropped(&run), dropped, "{source:?}");
    }
}

#[test]
fn some_go_on_to_be_answered() {
    let mut programs = programs_that_hear(100, 3);
    programs.lending.tell_unbound(std::iter::empty());
    let packet = inward(&to(UDP, 8000));
    // The test may run across the end of a window, but not across all of these.
    let dropped = (0..400).filter(|_| is_dropped(&programs.arrives(&packet)));
    let dropped = dropped.count();
    assert!((1..=397).contains(&dropped), "{dropped} of 400");
}

/// An occupied port, or one that is not.
#[derive(Clone, Copy, Debug)]
enum Step {
    Occupy(usize, u16),
    Vacate(usize, u16),
    Tell,
    Hide,
    Packet(usize, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let port = || (0..PROTOCOLS.len(), 1024..1044u16);
    let step = prop_oneof![
        3 => port().prop_map(|(protocol, port)| Step::Occupy(protocol, port)),
        3 => port().prop_map(|(protocol, port)| Step::Vacate(protocol, port)),
        2 => Just(Step::Tell),
        1 => Just(Step::Hide),
        4 => port().prop_map(|(protocol, port)| Step::Packet(protocol, port)),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Compares the program with a plain count of each port: it drops no packet to an occupied port, and none before
    /// `tell_unbound`.
    #[test]
    fn programs_know_what_is_occupied(steps in steps()) {
        let mut programs = programs(100);
        let mut occupied: HashMap<(usize, u16), u32> = HashMap::new();
        let mut is_told = false;
        for step in steps {
            match step {
                Step::Occupy(at, port) => {
                    *occupied.entry((at, port)).or_default() += 1;
                    programs.lending.occupy(PROTOCOLS[at], to(PROTOCOLS[at], port).v4);
                }
                Step::Vacate(at, port) => {
                    let Some(times) = occupied.get_mut(&(at, port)).filter(|times| **times > 0) else {
                        continue;
                    };
                    *times -= 1;
                    programs.lending.vacate(PROTOCOLS[at], to(PROTOCOLS[at], port).v4);
                }
                Step::Tell => {
                    let all = occupied.iter().flat_map(|(&(at, port), &times)| {
                        let protocol = PROTOCOLS[at];
                        (0..times).map(move |_| (protocol, to(protocol, port).v4))
                    });
                    programs.lending.tell_unbound(all);
                    is_told = true;
                }
                Step::Hide => {
                    programs.lending.hide_unbound();
                    is_told = false;
                }
                Step::Packet(at, port) => {
                    let run = programs.arrives(&inward(&to(PROTOCOLS[at], port)));
                    let has = occupied.get(&(at, port)).is_some_and(|times| *times > 0);
                    prop_assert!(!is_dropped(&run) || (is_told && !has), "{step:?}");
                    // With a place for each four ports, some share theirs; without any, each is unbound.
                    let is_empty = occupied.values().all(|times| *times == 0);
                    prop_assert!(is_dropped(&run) || !is_told || !is_empty, "{step:?}");
                }
            }
        }
    }
}
