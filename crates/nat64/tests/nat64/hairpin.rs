// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two nodes behind the same translator (RFC 6146 section 3.8, RFC 4787 REQ-9).

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use diolkos_nat64::config::{Filtering, Protocol};
use diolkos_xlat::{Reason, Verdict};

const OTHER: &str = "2001:db8:2::20";
const POOL6: &str = "2001:db8:64::203.0.113.1";

/// Binds port 7000 of the other node with a packet to a third host; returns the IPv4 port of the binding.
fn bind_other(w: &mut Router) -> u16 {
    let got = w.pass(&packet6(OTHER, PEER6, 17, udp_of(7000, 53, &[])).bytes());
    ends4(&got).1
}

#[test]
fn udp_turns_and_both_are_seen_from_outside() {
    let mut w = Router::new(|_| {});
    let outside = bind_other(&mut w);
    let got = w.pass(&packet6(NODE, POOL6, 17, udp_of(5000, outside, b"there")).bytes());
    let of_node = w
        .nat64
        .state()
        .v4_of(Protocol::Udp, e6(NODE, 5000))
        .unwrap();
    let mut expected = packet6(POOL6, OTHER, 17, udp_of(of_node.port, 7000, b"there"));
    expected.hop_limit = 63;
    assert_eq!(got, expected.bytes());
    let got = w.pass(&packet6(OTHER, POOL6, 17, udp_of(7000, of_node.port, b"back")).bytes());
    let mut expected = packet6(POOL6, NODE, 17, udp_of(outside, 5000, b"back"));
    expected.hop_limit = 63;
    assert_eq!(got, expected.bytes());
    assert_eq!(w.nat64.state().counts().sessions, 3);
}

#[test]
fn filtering_holds_for_neighbours_too() {
    let mut w = Router::new(|config| {
        config.filtering = Filtering::AddressDependent;
        config.pool4[0].net = "203.0.113.0/28".parse().unwrap();
    });
    let got = w.pass(&packet6(OTHER, PEER6, 17, udp_of(7000, 53, &[])).bytes());
    let (addr, outside, _) = ends4(&got);
    let pool6 = format!("2001:db8:64::{addr}");
    let there = packet6(NODE, &pool6, 17, udp_of(5000, outside, &[])).bytes();
    let (reason, answer) = w.refuse(&there);
    assert_eq!(reason, Reason::Filtered);
    assert_eq!(answer.unwrap()[40..42], [1, 1]);
    // After the other node has sent to this node's address, this node may answer.
    let of_node = w
        .nat64
        .state()
        .v4_of(Protocol::Udp, e6(NODE, 5000))
        .unwrap();
    let to_node = format!("2001:db8:64::{}", of_node.addr);
    w.pass(&packet6(OTHER, &to_node, 17, udp_of(7000, of_node.port, &[])).bytes());
    w.pass(&there);
}

#[test]
fn a_node_does_not_send_from_the_ipv4_side() {
    let mut w = Router::new(|config| config.filtering = Filtering::AddressDependent);
    let other = bind_other(&mut w);
    // The node has sent to the other, so its filter accepts what looks like the answer.
    let (reason, _) = w.refuse(&packet6(NODE, POOL6, 17, udp_of(5000, other, &[])).bytes());
    assert_eq!(reason, Reason::Filtered, "by the other");
    let node = w
        .nat64
        .state()
        .v4_of(Protocol::Udp, e6(NODE, 5000))
        .unwrap();
    let pool = node.addr.to_string();
    let sessions = w.nat64.state().counts().sessions;
    let forged = packet4(&pool, &pool, 17, udp_of(other, node.port, b"forged")).bytes();
    let (reason, answer) = w.refuse(&forged);
    assert_eq!((reason, answer), (Reason::SourceInPool, None));
    // Nor from a pool port that is free now and may be bound to a node later.
    let forged = packet4(&pool, &pool, 6, tcp_of(6000, node.port, SYN, &[])).bytes();
    assert_eq!(w.refuse(&forged).0, Reason::SourceInPool);
    let ping = packet4(&pool, &pool, 1, echo_of(8, node.port, &[])).bytes();
    assert_eq!(w.refuse(&ping).0, Reason::SourceInPool);
    assert_eq!(w.nat64.state().counts().sessions, sessions);
    // A port outside the pool belongs to the host that has the address.
    let hosts = packet4(&pool, &pool, 17, udp_of(53, node.port, &[])).bytes();
    w.pass(&hosts);
}

/// The remaining state after two nodes have sent to each other: the IPv4 ports of the first node and of its neighbour.
fn neighbours(w: &mut Router) -> (u16, u16) {
    let other = bind_other(w);
    w.pass(&packet6(NODE, POOL6, 17, udp_of(5000, other, &[])).bytes());
    let state = w.nat64.state();
    let node = state.v4_of(Protocol::Udp, e6(NODE, 5000)).unwrap().port;
    (node, other)
}

#[test]
fn a_node_sends_no_errors_from_the_ipv4_side() {
    let mut w = Router::new(|_| {});
    let (node, other) = neighbours(&mut w);
    w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, &[])).bytes());
    // About a packet to the neighbour, and about a packet to a third host.
    for (peer, port) in [(POOL, other), (PEER, 53)] {
        let sent = packet4(POOL, peer, 17, udp_of(node, port, &[])).bytes();
        for (kind, code) in [(3, 1), (3, 4), (11, 0)] {
            let forged = error4(POOL, POOL, kind, code, [0, 0, 5, 0], &sent).bytes();
            assert_eq!(w.refuse(&forged), (Reason::SourceInPool, None));
        }
    }
    // This was sent to a host with the same address, on a port outside the pool.
    w.pass(&packet6(NODE, POOL6, 17, udp_of(5000, 53, &[])).bytes());
    let sent = packet4(POOL, POOL, 17, udp_of(node, 53, &[])).bytes();
    let got = w.pass(&error4(POOL, POOL, 3, 3, [0; 4], &sent).bytes());
    assert_eq!((got[40], got[41]), (1, 4));
    assert_eq!(got[24..40], v6(NODE).octets());
}

/// The answer would be hairpinned as an error about a packet of the node.
#[test]
fn who_pretends_to_be_a_node_is_not_answered() {
    let mut w = Router::new(|_| {});
    let (node, other) = neighbours(&mut w);
    let mut forged = packet4(POOL, POOL, 17, udp_of(node, other, &[]));
    forged.ttl = 1;
    assert_eq!(w.refuse(&forged.bytes()), (Reason::HopLimit, None));
    let mut ping = packet4(POOL, POOL, 1, echo_of(8, node, &[]));
    ping.ttl = 1;
    assert_eq!(w.refuse(&ping.bytes()), (Reason::HopLimit, None));
    let unknown = packet4(POOL, POOL, 132, vec![0; 12]).bytes();
    assert_eq!(w.refuse(&unknown), (Reason::TransportUnknown, None));
    // The host with the same address gets an answer, like every other host.
    for (from, port) in [(POOL, 53), (PEER, 4000)] {
        let mut late = packet4(from, POOL, 17, udp_of(port, other, &[]));
        late.ttl = 1;
        let (reason, answer) = w.refuse(&late.bytes());
        assert_eq!(reason, Reason::HopLimit);
        assert_eq!(answer.unwrap()[20..22], [11, 0]);
    }
}

#[test]
fn a_port_that_nobody_has() {
    let mut w = Router::new(|_| {});
    let (reason, answer) = w.refuse(&packet6(NODE, POOL6, 17, udp_of(5000, 6000, &[])).bytes());
    assert_eq!(reason, Reason::NoBinding);
    assert_eq!(answer.unwrap()[40..42], [1, 3]);
}

#[test]
fn a_port_of_the_address_that_is_not_in_the_pool_is_somebody_elses() {
    let mut w = Router::new(|_| {});
    let got = w.pass(&packet6(NODE, POOL6, 6, tcp_of(5000, 22, SYN, &[])).bytes());
    assert_eq!(got[0] >> 4, 4, "to the host whose address it is");
}

#[test]
fn a_tcp_connection_between_neighbours() {
    let server = e6(OTHER, 80);
    let mut w = Router::new(|config| {
        config.bindings = vec![binding(Protocol::Tcp, "203.0.113.1:8080", server)];
    });
    let got = w.pass(&packet6(NODE, POOL6, 6, tcp_of(5000, 8080, SYN, &[])).bytes());
    let of_node = w
        .nat64
        .state()
        .v4_of(Protocol::Tcp, e6(NODE, 5000))
        .unwrap()
        .port;
    let expected = packet6(POOL6, OTHER, 6, tcp_of(of_node, 80, SYN, &[]));
    assert_eq!(got[40..], expected.payload);
    let got = w.pass(&packet6(OTHER, POOL6, 6, tcp_of(80, of_node, SYN | ACK, &[])).bytes());
    let expected = packet6(POOL6, NODE, 6, tcp_of(8080, 5000, SYN | ACK, &[]));
    assert_eq!(got[40..], expected.payload);
    let established = diolkos_nat64::session::SessionState::Established;
    assert!(w.nat64.state().sessions().all(|v| v.state == established));
}

#[test]
fn a_syn_to_a_neighbour_that_has_not_asked_is_held_and_answered() {
    let mut w = Router::new(|_| {});
    let syn = packet6(NODE, POOL6, 6, tcp_of(5000, 6000, SYN, &[])).bytes();
    assert_eq!(w.give(&syn), (Verdict::Held, vec![]));
    let sent = w.wait(6.0);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][40..42], [1, 4]);
    assert_eq!(sent[0][24..40], v6(NODE).octets());
}

#[test]
fn an_echo_to_ones_own_address_outside_comes_back() {
    let mut w = Router::new(|_| {});
    let got = w.pass(&packet6(NODE, POOL6, 58, echo_of(128, 9, b"x")).bytes());
    let mut expected = packet6(POOL6, NODE, 58, echo_of(128, 9, b"x"));
    expected.hop_limit = 63;
    assert_eq!(got, expected.bytes());
    let got = w.pass(&packet6(NODE, POOL6, 58, echo_of(129, 9, b"x")).bytes());
    assert_eq!(got[40], 129);
}

#[test]
fn an_error_about_a_packet_that_turned_turns_too() {
    let mut w = Router::new(|_| {});
    let outside = bind_other(&mut w);
    let sent = packet6(NODE, POOL6, 17, udp_of(5000, outside, b"data"));
    let arrived = w.pass(&sent.bytes());
    // A router on the path to the other node cannot deliver it.
    let error = error6("2001:db8:2::1", POOL6, 1, 0, [0; 4], &arrived);
    let got = w.pass(&error.bytes());
    assert_eq!(got[..4], [0x60, 0, 0, 0]);
    assert_eq!((got[7], got[40], got[41]), (63, 1, 0));
    assert_eq!(got[8..24], v6(POOL6).octets());
    assert_eq!(got[24..40], v6(NODE).octets());
    // The quote is the packet that the node sent, except for the hop limit.
    let mut quoted = sent.clone();
    quoted.hop_limit = 63;
    assert_eq!(got[48..], quoted.bytes());
    assert_eq!(
        ones_sum(&[&pseudo_of(&got)[..], &got[40..]].concat()),
        0xffff
    );
}

fn pseudo_of(packet: &[u8]) -> Vec<u8> {
    let mut pseudo = packet[8..40].to_vec();
    pseudo.extend(((packet.len() - 40) as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, 58]);
    pseudo
}
