// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A few packets in every order.

use std::panic::{catch_unwind, AssertUnwindSafe};

use diolkos_nat64::config::Protocol;

use crate::controller::{arrive, config, node, peer, run, Controller};
use crate::guide::Guide;
use crate::program::{Outcome, Packet};
use crate::twin::{self, Undone, V4};

/// Runs a story in every order: first the uninterrupted part, then the concurrent part. `bursts` is how often a program
/// begins or continues while another one, or the controller, runs; those that have stopped continue at the end.
fn every_order<T>(
    (undone, protocol): (Undone, Protocol),
    bursts: u32,
    begin: impl Fn() -> T,
    then: impl Fn(T),
) -> usize {
    let mut guide = Guide::search();
    let mut orders = 0;
    loop {
        twin::begin(undone, guide);
        twin::with(|world| world.protocol = protocol);
        let story = begin();
        twin::with(|world| world.bursts = bursts);
        then(story);
        orders += 1;
        guide = twin::end().guide;
        if !guide.advance() {
            return orders;
        }
    }
}

/// The disabled measure, and the protocol of the packets.
type Of = (Undone, Protocol);

/// Checks that the story holds with UDP and TCP, and that it fails for this reason without one measure.
fn needs(story: impl Fn(Of) -> usize, undone: Undone, reason: &str) {
    needs_with(Protocol::Tcp, &story, undone, reason);
    needs_with(Protocol::Udp, &story, undone, reason);
}

/// The same, for a measure that only UDP needs.
fn udp_needs(story: impl Fn(Of) -> usize, undone: Undone, reason: &str) {
    let orders = story((undone, Protocol::Tcp));
    assert!(orders > 50, "{orders} orders are no search");
    needs_with(Protocol::Udp, &story, undone, reason);
}

fn needs_with(protocol: Protocol, story: impl Fn(Of) -> usize, undone: Undone, reason: &str) {
    let orders = story((Undone::default(), protocol));
    assert!(orders > 50, "{orders} orders are no search");
    let broken = catch_unwind(AssertUnwindSafe(|| story((undone, protocol))));
    let said = broken.expect_err("nothing breaks without it");
    let said = said
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| said.downcast_ref::<&str>().map(|said| (*said).to_owned()));
    let said = said.expect("a message");
    assert!(said.contains(reason), "it breaks otherwise: {said}");
}

/// Returns a node that has a lease, and bindings of so many of its ports.
fn leased(controller: &mut Controller, number: u16, ports: u16) -> Vec<V4> {
    let opened = |n: u16| {
        let port = 2000 + 2 * (n % ports);
        controller.outbound(node(number, port), peer(n as u8))
    };
    (0..4).filter_map(opened).collect()
}

/// The queue is empty and is refilled while two programs take from it.
fn filling(undone: Of) -> usize {
    let begin = || {
        let mut controller = Controller::new(&config(1, 5000..=5011));
        leased(&mut controller, 1, 1);
        let mut port = 3000;
        while run(Packet::Out {
            node: node(1, port),
            peer: peer(1),
        }) == Outcome::Translated
        {
            port += 2;
        }
        assert!(port > 3000, "the program has opened something");
        for port in [4000, 4002] {
            arrive(Packet::Out {
                node: node(1, port),
                peer: peer(1),
            });
        }
        controller
    };
    every_order(undone, 2, begin, |mut controller| {
        controller.lock();
        controller.finish();
    })
}

#[test]
fn tail_and_port_are_read_in_order() {
    let undone = Undone {
        order: true,
        ..Undone::default()
    };
    needs(filling, undone, "was not lent");
}

/// A packet follows from a session that a program has just opened, while another one is stopped during an opening.
fn following(undone: Of) -> usize {
    let begin = || {
        let mut controller = Controller::new(&config(1, 5000..=5011));
        leased(&mut controller, 1, 1);
        for port in [2000, 3000] {
            arrive(Packet::Out {
                node: node(1, port),
                peer: peer(9),
            });
        }
        controller
    };
    every_order(undone, 2, begin, |mut controller| {
        controller.lock();
        controller.lock();
        controller.finish();
    })
}

#[test]
fn the_tables_wait_for_what_is_being_opened() {
    let undone = Undone {
        wait: true,
        ..Undone::default()
    };
    needs(following, undone, "the tables do not know");
}

/// A lease ends and another node gets one in its slot, while programs of both are running.
fn changing_hands(undone: Of) -> usize {
    let begin = || {
        let config = config(2, 5000..=5011);
        let mut controller = Controller::new(&config);
        let of = |number| controller.state.pool().address_of(node(number, 0).0);
        let other = (2..40)
            .find(|&number| of(number) != of(1))
            .expect("a node of the other address");
        leased(&mut controller, 1, 1);
        arrive(Packet::Out {
            node: node(1, 3000),
            peer: peer(1),
        });
        arrive(Packet::Out {
            node: node(other, 3000),
            peer: peer(1),
        });
        (controller, other)
    };
    every_order(undone, 1, begin, |(mut controller, other)| {
        // An unused lease ends with the second sweep.
        controller.sweep();
        controller.sweep();
        leased(&mut controller, other, 1);
        controller.finish();
    })
}

#[test]
fn a_lease_is_that_of_its_node() {
    let undone = Undone {
        terms: true,
        ..Undone::default()
    };
    needs(changing_hands, undone, "");
}

/// A binding expires, and its port goes to another node, while a program is about to open a session of the old one.
fn expiring(undone: Of, may_give_up: bool) -> usize {
    let begin = || {
        // One port, which the next node gets. Sessions are lent, ports are not.
        let mut controller = Controller::new(&config(1, 5000..=5000));
        let v4 = leased(&mut controller, 1, 1)[0];
        arrive(Packet::Out {
            node: node(1, 2000),
            peer: peer(9),
        });
        arrive(Packet::In {
            to: v4,
            peer: peer(9),
        });
        twin::with(|world| world.may_give_up = may_give_up);
        (controller, v4)
    };
    every_order(
        undone,
        if may_give_up { 1 } else { 2 },
        begin,
        |(mut controller, v4)| {
            controller.pass(301);
            controller.outbound(node(2, 2000), peer(9));
            controller.inbound(v4, peer(9));
            controller.finish();
        },
    )
}

#[test]
fn a_binding_is_looked_up_behind_the_record() {
    let undone = Undone {
        again: true,
        ..Undone::default()
    };
    udp_needs(|undone| expiring(undone, false), undone, "serves");
}

#[test]
fn a_session_is_used_by_its_node_alone() {
    let undone = Undone {
        owner: true,
        ..Undone::default()
    };
    udp_needs(
        |undone| expiring(undone, false),
        undone,
        "the tables do not know",
    );
}

#[test]
fn a_session_of_another_node_is_never_replaced() {
    let undone = Undone {
        noexist: true,
        ..Undone::default()
    };
    needs(|undone| expiring(undone, true), undone, "is replaced");
}

/// A session ends, and its port becomes another node's for the same peer, while programs keep what they have found. Those that begin
/// later must not use it.
fn recalling(undone: Of) -> usize {
    let begin = || {
        let mut controller = Controller::new(&config(1, 5000..=5000));
        let v4 = controller.outbound(node(1, 2000), peer(1)).expect("a port");
        let (inward, outward) = both_ways(1, v4);
        arrive(inward);
        arrive(outward);
        (controller, v4)
    };
    every_order(undone, 2, begin, |(mut controller, v4)| {
        let (inward, outward) = both_ways(1, v4);
        controller.unbind(v4);
        run(inward);
        run(outward);
        controller.outbound(node(2, 2000), peer(1));
        run(inward);
        run(outward);
        controller.finish();
    })
}

/// Packets of a node's port and of its peer, to this external port.
fn both_ways(number: u16, to: V4) -> (Packet, Packet) {
    let peer = peer(1);
    let node = node(number, 2000);
    (Packet::In { to, peer }, Packet::Out { node, peer })
}

#[test]
fn what_was_found_before_a_session_ended_is_not_kept() {
    let undone = Undone {
        early: true,
        ..Undone::default()
    };
    needs(recalling, undone, "had ended before");
}

#[test]
fn programs_forget_a_session_that_ends() {
    let undone = Undone {
        forget: true,
        ..Undone::default()
    };
    needs(recalling, undone, "had ended before");
}

#[test]
fn programs_forget_a_session_once_it_has_left_the_tables() {
    let undone = Undone {
        after: true,
        ..Undone::default()
    };
    needs(recalling, undone, "had ended before");
}

/// A session ends and its element is reused for another, while a program is about to read it.
fn reusing(undone: Of) -> usize {
    let begin = || {
        let mut controller = Controller::new(&config(1, 5000..=5011));
        let v4 = controller.outbound(node(1, 2000), peer(1)).expect("a port");
        arrive(Packet::In {
            to: v4,
            peer: peer(1),
        });
        arrive(Packet::Out {
            node: node(1, 2000),
            peer: peer(1),
        });
        (controller, v4)
    };
    every_order(undone, 2, begin, |(mut controller, v4)| {
        controller.unbind(v4);
        controller.outbound(node(2, 2000), peer(2));
        controller.finish();
    })
}

#[test]
fn a_session_that_is_read_is_the_one_that_was_looked_up() {
    let undone = Undone {
        check: true,
        ..Undone::default()
    };
    needs(reusing, undone, "did not send");
}
