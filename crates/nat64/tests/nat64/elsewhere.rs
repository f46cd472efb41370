// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole packets that belong to another gateway: they are returned as they arrived, with all held fragments.

use crate::common::*;
use crate::fragments::{cut4, cut6, pieces4, pieces6};
use crate::harness::*;
use crate::packets::*;
use crate::rests::second;
use diolkos_nat64::config::Protocol;
use diolkos_nat64::session::{Missing, Way};
use diolkos_xlat::{Reason, Verdict};
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
/// An address of this gateway, and one of the first gateway.
const OWN: &str = "203.0.113.0";
const FIRST: &str = "203.0.113.4";
const FIRST6: &str = "2001:db8:64::203.0.113.4";
const OTHER: &str = "2001:db8:2::20";

/// A gateway that serves, and forwards unknown packets to the first gateway.
fn forwarding() -> Router {
    let mut w = Router::new(|config| *config = second(0));
    w.nat64.state_mut().serve(true, &mut ());
    w.watch.otherwise = Way::Forward(0);
    w
}

/// The same gateway while the first one is down, with copies of these bindings.
fn holding(bindings: &[diolkos_nat64::config::Binding]) -> Router {
    let mut w = forwarding();
    w.watch.otherwise = Way::Open;
    w.watch.standby = bindings.to_vec();
    let until = w.watch.boottime + Duration::from_secs(10);
    w.nat64.state_mut().set_deadline(0, until);
    w
}

/// The packet is forwarded to the first gateway byte for byte.
fn goes_as_it_came(w: &mut Router, packet: &[u8]) {
    w.forwarded.clear();
    let (verdict, sent) = w.give(packet);
    assert_eq!((verdict, sent), (Verdict::Elsewhere(0), vec![]));
    assert_eq!(w.forwarded, [(0, packet.to_vec())]);
    assert_eq!(w.watch.dropped, []);
}

#[test]
fn packets_of_either_side_go_as_they_came() {
    let mut w = forwarding();
    for packet in [
        packet6(NODE, PEER6, 17, udp_of(5000, 53, b"data")),
        packet6(NODE, PEER6, 6, tcp_of(5000, 80, SYN, &[])),
        packet6(NODE, PEER6, 6, tcp_of(5000, 80, ACK, b"data")),
        packet6(NODE, PEER6, 58, echo_of(128, 77, b"data")),
    ] {
        goes_as_it_came(&mut w, &packet.bytes());
    }
    for packet in [
        packet4(PEER, FIRST, 17, udp_of(53, 5000, b"data")),
        packet4(PEER, FIRST, 6, tcp_of(80, 5000, SYN, &[])),
        packet4(PEER, FIRST, 1, echo_of(0, 77, b"data")),
        // From a host of this gateway, whose packet has returned here.
        packet4(OWN, FIRST, 17, udp_of(1100, 5000, b"data")),
    ] {
        goes_as_it_came(&mut w, &packet.bytes());
    }
    assert!(w.nat64.state().counts() == Default::default());
    // No other gateway has bindings of this gateway's address.
    let packet = packet4(PEER, OWN, 17, udp_of(53, 1100, b"data"));
    assert_eq!(w.refuse(&packet.bytes()).0, Reason::NoBinding);
    let packet = packet4(OWN, OWN, 17, udp_of(1100, 1101, b"data"));
    assert_eq!(w.refuse(&packet.bytes()).0, Reason::SourceInPool);
}

#[test]
fn errors_are_asked_about_by_what_they_quote() {
    let mut w = forwarding();
    let quoted = packet4(FIRST, PEER, 17, udp_of(5000, 53, b"data")).bytes();
    let error = error4("198.51.100.9", FIRST, 11, 0, [0; 4], &quoted).bytes();
    goes_as_it_came(&mut w, &error);
    let v4 = e4("203.0.113.4:5000");
    let quoted = packet6(PEER6, NODE, 17, udp_of(53, 5000, b"data")).bytes();
    let error = error6(OTHER, PEER6, 1, 4, [0; 4], &quoted).bytes();
    goes_as_it_came(&mut w, &error);
    let v6 = e6(NODE, 5000);
    assert_eq!(
        w.watch.asked,
        [(Missing::V4(UDP, v4), false), (Missing::V6(UDP, v6), false)]
    );
    // An error opens no binding.
    w.watch.otherwise = Way::Open;
    assert_eq!(w.refuse(&error).0, Reason::IcmpInnerUnmapped);
}

#[test]
fn errors_pass_by_a_copy_until_the_deadline() {
    let copy = binding(UDP, "203.0.113.4:5000", e6(NODE, 5000));
    let mut w = holding(&[copy]);
    let there = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, b"data")).bytes());
    assert_eq!(ends4(&there).0, v4(FIRST));
    let from4 = error4("198.51.100.9", FIRST, 11, 0, [0; 4], &there).bytes();
    let back = w.pass(&packet4(PEER, FIRST, 17, udp_of(53, 5000, b"data")).bytes());
    let from6 = error6(NODE, PEER6, 1, 4, [0; 4], &back).bytes();
    w.pass(&from4);
    w.pass(&from6);
    w.watch.boottime += Duration::from_secs(10);
    for late in [
        &from4,
        &from6,
        &packet6(NODE, PEER6, 17, udp_of(5000, 53, &[])).bytes(),
    ] {
        assert_eq!(w.refuse(late).0, Reason::OwnerUnreachable);
    }
    let late = packet4(PEER, FIRST, 17, udp_of(53, 5000, b"data")).bytes();
    assert_eq!(w.refuse(&late).0, Reason::OwnerUnreachable);
}

/// A packet to a host with a binding of another gateway is sent like any other IPv4 packet.
#[test]
fn nothing_turns_to_another_gateway() {
    let copy = binding(UDP, "203.0.113.4:7000", e6(OTHER, 7000));
    for copies in [vec![], vec![copy]] {
        let mut w = holding(&copies);
        if !copies.is_empty() {
            // The copy is in use.
            w.pass(&packet6(OTHER, PEER6, 17, udp_of(7000, 53, &[])).bytes());
        }
        let there = packet6(NODE, FIRST6, 17, udp_of(5000, 7000, b"there"));
        let got = w.pass(&there.bytes());
        assert_eq!(got[0] >> 4, 4);
        assert_eq!(got[16..20], v4(FIRST).octets());
        let own = w.nat64.state().v4_of(UDP, e6(NODE, 5000)).unwrap();
        assert_eq!(w.nat64.state().owner_of(own.addr), Some(1));
        // It returns here, because the first gateway is down.
        if copies.is_empty() {
            assert_eq!(w.refuse(&got).0, Reason::NoBinding);
            continue;
        }
        let got = w.pass(&got);
        assert_eq!(got[24..40], v6(OTHER).octets());
        // In the other direction, the host is this gateway's, so the packet is hairpinned here.
        let to_own = format!("2001:db8:64::{}", own.addr);
        let answer = packet6(OTHER, &to_own, 17, udp_of(7000, own.port, b"back"));
        let got = w.pass(&answer.bytes());
        assert_eq!(
            (&got[8..24], &got[24..40]),
            (&v6(FIRST6).octets()[..], &v6(NODE).octets()[..])
        );
        // An error about it takes the same path as the packet.
        let error = error6(NODE, FIRST6, 1, 4, [0; 4], &got).bytes();
        let got = w.pass(&error);
        assert_eq!(got[16..20], v4(FIRST).octets());
        let got = w.pass(&got);
        assert_eq!(got[24..40], v6(OTHER).octets());
        w.watch.boottime += Duration::from_secs(10);
        assert_eq!(w.refuse(&answer.bytes()).0, Reason::OwnerUnreachable);
    }
}

#[test]
fn fragments_that_wait_go_behind_their_first_one() {
    for pieces in [pieces6(NODE, 7), pieces4(PEER, 5000, 7)] {
        let mut w = forwarding();
        let pieces: Vec<Vec<u8>> = match pieces[0][0] >> 4 {
            6 => pieces,
            // To the first gateway.
            _ => {
                let whole = packet4(PEER, FIRST, 17, udp_of(53, 5000, &pattern(64)));
                cut4(&whole, 7, 24)
            }
        };
        assert_eq!(w.give(&pieces[1]), (Verdict::Held, vec![]));
        assert_eq!(w.give(&pieces[0]), (Verdict::Emitted, vec![]));
        assert_eq!(
            w.forwarded,
            [(0, pieces[0].clone()), (0, pieces[1].clone())]
        );
        // A later fragment has the ports of the first one.
        goes_as_it_came(&mut w, &pieces[2]);
        assert_eq!(w.nat64.held_fragments(), 0);
        assert_eq!(w.watch.dropped, []);
        // Without other fragments, the first one is returned.
        let mut w = forwarding();
        for piece in &pieces {
            goes_as_it_came(&mut w, piece);
        }
    }
}

/// Fragments that would have to be reassembled are forwarded one by one.
#[test]
fn what_was_put_together_goes_as_it_came() {
    let echo = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(100)));
    let from6 = cut6(&echo, 58, 9, 48);
    let echo = packet4(PEER, FIRST, 1, echo_of(0, 77, &pattern(100)));
    let from4 = cut4(&echo, 9, 48);
    for pieces in [from6, from4] {
        for order in [[0, 1, 2], [2, 0, 1]] {
            let mut w = forwarding();
            assert_eq!(w.give(&pieces[order[0]]), (Verdict::Held, vec![]));
            assert_eq!(w.give(&pieces[order[1]]), (Verdict::Held, vec![]));
            assert_eq!(w.give(&pieces[order[2]]), (Verdict::Emitted, vec![]));
            let came: Vec<_> = order.map(|at| (0, pieces[at].clone())).to_vec();
            assert_eq!(w.forwarded, came);
            assert_eq!(w.nat64.held_fragments(), 0);
            assert_eq!(w.watch.dropped, []);
        }
    }
}
