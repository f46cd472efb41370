// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who watches is asked for bindings that the tables do not have ([`diolkos_core::session::Watcher::missing`]).

use crate::common::*;
use crate::harness::*;
use crate::inherit::*;
use crate::packets::*;
use diolkos_core::config::nat64::Protocol;
use diolkos_core::session::{Origin, SessionState, Side};
use diolkos_core::Reason;

#[test]
fn who_watches_is_asked_before_a_packet_is_refused_or_opens_a_binding() {
    for protocol in Protocol::ALL {
        for side in [Side::V4, Side::V6] {
            let mut t = Tables::new(&sliced_config());
            t.watch.standby = vec![of_other(protocol)];
            from(&mut t, protocol, side, OTHER);
            assert_eq!((origin(&t), t.sessions()), (Some(Origin::Inherited), 1));
        }
    }
    // In an open slice, too.
    let mut t = Tables::new(&sliced_config());
    (0..8).for_each(|id| t.state.open_slice(id));
    t.watch.standby = vec![of_other(UDP)];
    from(&mut t, UDP, Side::V6, OTHER);
    // A lone gateway asks nobody.
    let mut t = Tables::new(&config());
    t.watch.standby = vec![of_other(UDP)];
    assert_eq!(t.inward(UDP, e4(V4), SERVER, OTHER), Err(Reason::NoBinding));
}

#[test]
fn an_answer_to_another_question_is_ignored() {
    for lie in [
        binding(TCP, V4, node()),
        binding(UDP, "203.0.113.1:80", node()),
        binding(UDP, "203.0.113.0:5001", e6(NODE, 6001)),
    ] {
        let mut t = Tables::new(&sliced_config());
        t.watch.lie = Some(lie);
        assert_eq!(t.out(UDP, node(), SERVER, OTHER), Err(Reason::SliceClosed));
        assert_eq!(t.inward(UDP, e4(V4), SERVER, OTHER), Err(Reason::NoBinding));
        assert!(t.is_empty());
    }
}

#[test]
fn errors_find_the_binding_of_the_packet_that_they_quote() {
    let sent = packet6(NODE, PEER6, 17, udp_of(6000, 53, b"some data"));
    let make = || Router::new(|config| config.slices = sliced_config().slices);
    // By another gateway, which has opened the binding.
    let mut other = make();
    (0..4).for_each(|id| other.nat64.state_mut().open_slice(id));
    let there = other.pass(&sent.bytes());
    let bindings: Vec<_> = other
        .nat64
        .state()
        .bindings()
        .map(|view| view.binding)
        .collect();
    let error = error4("198.51.100.9", POOL, 11, 0, [0; 4], &there).bytes();
    let mut answer = there.clone();
    answer.truncate(28);
    let mut heir = make();
    assert_eq!(heir.refuse(&error).0, Reason::IcmpInnerUnmapped);
    heir.watch.standby = bindings.clone();
    assert_eq!(heir.pass(&error), other.pass(&error));
    assert_eq!(heir.nat64.state().counts().bindings, 1);
    assert_eq!(heir.nat64.state().counts().sessions, 0);

    // From the node, about a packet of the peer.
    let back = packet4(PEER, POOL, 17, udp_of(53, bindings[0].v4.port, b"answer"));
    let received = other.pass(&back.bytes());
    let error = error6(NODE, PEER6, 1, 4, [0; 4], &received).bytes();
    let mut heir = make();
    assert_eq!(heir.refuse(&error).0, Reason::IcmpInnerUnmapped);
    heir.watch.standby = bindings;
    let got = heir.pass(&error);
    assert_eq!(got[28 + 12..28 + 20], back.bytes()[12..20]);
}

#[test]
fn a_rehearsal_leaves_what_waits_and_what_was_seen() {
    let mut r = Router::new(|config| config.slices = sliced_config().slices);
    let now = r.now;
    let state = r.nat64.state_mut();
    state.inherit(of_other(TCP), now, &mut ()).unwrap();
    let segment = packet6(NODE, PEER6, 6, tcp_of(6000, 443, ACK, b"data")).bytes();
    let trace = r.trace(&segment);
    assert_eq!(trace.sent.len(), 1);
    assert_eq!(r.nat64.state().counts().sessions, 0);
    assert_eq!(r.trace(&segment), trace);
    // Nor does it see a side of a connection.
    r.pass(&segment);
    let back = packet4(PEER, POOL, 6, tcp_of(443, 5000, ACK, b"data")).bytes();
    assert_eq!(r.trace(&back).sent.len(), 1);
    r.pass(&segment);
    let states: Vec<_> = r.nat64.state().sessions().map(|view| view.state).collect();
    assert_eq!(states, [SessionState::Trans]);
    r.pass(&back);
    let states: Vec<_> = r.nat64.state().sessions().map(|view| view.state).collect();
    assert_eq!(states, [SessionState::Established]);
}
