// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments in the stateful translator (RFC 6146 section 3.4), in every order and in floods.

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use diolkos_xlat::{Reason, Verdict};

/// Cuts an IPv6 packet into fragments of `step` bytes of payload.
pub fn cut6(whole: &V6, protocol: u8, id: u32, step: usize) -> Vec<Vec<u8>> {
    let total = whole.payload.len();
    (0..total)
        .step_by(step)
        .map(|from| {
            let to = total.min(from + step);
            let mut payload = fragment_header(protocol, (from / 8) as u16, to < total, id);
            payload.extend(&whole.payload[from..to]);
            V6 {
                next_header: 44,
                payload,
                ..whole.clone()
            }
            .bytes()
        })
        .collect()
}

/// Cuts an IPv4 packet into fragments of `step` bytes of payload.
pub fn cut4(whole: &V4, id: u16, step: usize) -> Vec<Vec<u8>> {
    let total = whole.l4.len();
    (0..total)
        .step_by(step)
        .map(|from| {
            let to = total.min(from + step);
            let more = if to < total { MF } else { 0 };
            V4 {
                id,
                flags_and_offset: more | (from / 8) as u16,
                l4: whole.l4[from..to].to_vec(),
                ..whole.clone()
            }
            .bytes()
        })
        .collect()
}

pub fn pieces6(src: &str, id: u32) -> Vec<Vec<u8>> {
    let whole = packet6(src, PEER6, 17, udp_of(5000, 53, &pattern(64)));
    cut6(&whole, 17, id, 24)
}

pub fn pieces4(src: &str, port: u16, id: u16) -> Vec<Vec<u8>> {
    let whole = packet4(src, POOL, 17, udp_of(53, port, &pattern(64)));
    cut4(&whole, id, 24)
}

/// Reassembles the payloads of sent fragments by their offsets, in any order.
fn whole(sent: &[Vec<u8>]) -> Vec<u8> {
    let mut parts: Vec<(u16, &[u8])> = sent
        .iter()
        .map(|packet| match packet[0] >> 4 {
            4 => (
                u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff,
                &packet[20..],
            ),
            _ => (
                u16::from_be_bytes([packet[42], packet[43]]) >> 3,
                &packet[48..],
            ),
        })
        .collect();
    parts.sort();
    parts
        .into_iter()
        .flat_map(|(_, bytes)| bytes)
        .copied()
        .collect()
}

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

#[test]
fn in_every_order_there_and_back() {
    for order in ORDERS {
        let mut w = Router::new(|_| {});
        let pieces = pieces6(NODE, 7);
        let mut sent = vec![];
        for at in order {
            let (verdict, mut out) = w.give(&pieces[at]);
            assert!(!matches!(verdict, Verdict::Drop(_)), "{verdict:?}");
            sent.append(&mut out);
        }
        assert_eq!(sent.len(), 3);
        let first = sent.iter().position(|p| p[6..8] == [0x20, 0]).unwrap();
        let held_before = order.iter().position(|&at| at == 0).unwrap();
        assert_eq!(
            first, 0,
            "{held_before} were held, and leave behind the first"
        );
        let port = ends4(&sent[0]).1;
        let expected = packet4(POOL, PEER, 17, udp_of(port, 53, &pattern(64)));
        assert_eq!(whole(&sent), expected.l4);

        let pieces = pieces4(PEER, port, 9);
        let mut sent = vec![];
        for at in order {
            sent.append(&mut w.give(&pieces[at]).1);
        }
        let expected = packet6(PEER6, NODE, 17, udp_of(53, 5000, &pattern(64)));
        assert_eq!(whole(&sent), expected.payload);
        assert_eq!(w.nat64.held_fragments(), 0);
        assert_eq!(w.nat64.state().counts().sessions, 1);
    }
}

#[test]
fn what_waits_in_vain_is_dropped_after_two_seconds() {
    let mut w = Router::new(|_| {});
    let pieces = pieces6(NODE, 7);
    assert_eq!(w.give(&pieces[1]), (Verdict::Held, vec![]));
    assert_eq!(w.give(&pieces[2]), (Verdict::Held, vec![]));
    w.wait(1.999);
    assert_eq!(w.nat64.held_fragments(), 2);
    w.wait(0.001);
    assert_eq!(w.nat64.held_fragments(), 0);
    assert_eq!(w.watch.dropped, [Reason::FragmentTimeout; 2]);
    // Then the first one arrives alone.
    let (verdict, sent) = w.give(&pieces[0]);
    assert_eq!((verdict, sent.len()), (Verdict::Forward, 1));
}

#[test]
fn ports_are_forgotten_after_two_seconds() {
    let mut w = Router::new(|_| {});
    let pieces = pieces6(NODE, 7);
    w.pass(&pieces[0]);
    w.wait(1.9);
    w.pass(&pieces[1]);
    w.wait(0.2);
    assert_eq!(w.give(&pieces[2]).0, Verdict::Held);
}

#[test]
fn another_identification_source_or_protocol_is_another_packet() {
    let mut w = Router::new(|_| {});
    w.pass(&pieces6(NODE, 7)[0]);
    assert_eq!(w.give(&pieces6(NODE, 8)[1]).0, Verdict::Held);
    assert_eq!(w.give(&pieces6("2001:db8:1::11", 7)[1]).0, Verdict::Held);
    let mut other = pieces6(NODE, 7)[1].clone();
    other[40] = 6;
    assert_eq!(w.give(&other).0, Verdict::Held);
    w.pass(&pieces6(NODE, 7)[1]);
}

#[test]
fn if_the_first_is_refused_so_are_the_others() {
    let mut w = Router::new(|_| {});
    let pieces = pieces4(PEER, 5000, 9);
    assert_eq!(w.give(&pieces[1]).0, Verdict::Held);
    assert_eq!(w.give(&pieces[0]).0, Verdict::Drop(Reason::NoBinding));
    assert_eq!(w.watch.dropped, [Reason::NoBinding]);
    assert_eq!(w.nat64.held_fragments(), 0);
    assert_eq!(w.nat64.fragmented_packets(), 0, "nothing is remembered");
    assert_eq!(w.give(&pieces[2]).0, Verdict::Held);
    w.wait(2.0);
    assert_eq!(w.watch.dropped[1..], [Reason::FragmentTimeout]);
}

#[test]
fn what_belongs_to_a_syn_that_is_kept_is_not() {
    let mut w = Router::new(|_| {});
    let whole = packet4(PEER, POOL, 6, tcp_of(4000, 5000, SYN, &pattern(44)));
    let piece = |from: usize, to: usize, more| V4 {
        id: 9,
        flags_and_offset: more | (from / 8) as u16,
        l4: whole.l4[from..to].to_vec(),
        ..whole.clone()
    };
    assert_eq!(w.give(&piece(32, 64, 0).bytes()).0, Verdict::Held);
    assert_eq!(w.give(&piece(0, 32, MF).bytes()).0, Verdict::Held);
    assert_eq!(w.watch.dropped, [Reason::SynUnanswered]);
    assert_eq!(w.nat64.held_fragments(), 0);
    assert_eq!(w.wait(6.0).len(), 1);
}

#[test]
fn floods_find_bounds() {
    let mut w = Router::new(|config| {
        config.limits.held_fragments = 20;
        config.limits.held_fragments_per_source = 4;
        config.limits.fragmented_packets = 40;
    });
    let mut fates = vec![];
    for id in 0..6 {
        fates.push(w.give(&pieces6(NODE, id)[1]).0);
    }
    assert_eq!(fates[..4], [Verdict::Held; 4]);
    assert_eq!(fates[4..], [Verdict::Drop(Reason::FragmentSourceLimit); 2]);
    // A neighbour in the same prefix is the same source; a node in another prefix is not.
    let neighbour = &pieces6("2001:db8:1::11", 1)[1];
    assert_eq!(
        w.give(neighbour).0,
        Verdict::Drop(Reason::FragmentSourceLimit)
    );
    for n in 2..8 {
        fates.push(w.give(&pieces6(&format!("2001:db8:{n}::1"), 1)[1]).0);
    }
    assert_eq!(fates[6..], [Verdict::Held; 6]);
    assert_eq!(w.nat64.held_fragments(), 10);
    // The next one evicts the oldest.
    assert_eq!(w.give(&pieces6("2001:db8:9::1", 1)[1]).0, Verdict::Held);
    assert_eq!(w.watch.dropped, [Reason::FragmentLimit]);
    assert_eq!(w.nat64.held_fragments(), 10);
    // First fragments still pass and are remembered, and the oldest are evicted.
    for id in 100..150 {
        w.pass(&pieces6("2001:db8:a::1", id)[0]);
        w.pass(&pieces6("2001:db8:a::1", id)[1]);
    }
    assert_eq!(w.nat64.fragmented_packets(), 20);
    w.wait(2.0);
    assert_eq!(
        (w.nat64.held_fragments(), w.nat64.fragmented_packets()),
        (0, 0)
    );
    assert_eq!(w.watch.dropped.len(), 11);
    assert_eq!(w.give(&pieces6(NODE, 1)[1]).0, Verdict::Held);
}

#[test]
fn fragments_of_what_no_table_knows_are_not_held() {
    let mut w = Router::new(|_| {});
    let mut piece = pieces6(NODE, 7)[1].clone();
    piece[40] = 132;
    assert_eq!(w.give(&piece).0, Verdict::Drop(Reason::TransportUnknown));
    assert_eq!(w.nat64.fragmented_packets(), 0);
}

#[test]
fn a_first_fragment_without_its_transport_header() {
    let mut w = Router::new(|_| {});
    let mut payload = fragment_header(6, 0, true, 7);
    payload.extend(tcp_of(5000, 80, SYN, &[])[..8].to_vec());
    let tiny = V6::new(NODE, PEER6, 44, payload).bytes();
    assert_eq!(w.give(&tiny).0, Verdict::Drop(Reason::TransportTruncated));
    assert_eq!(w.nat64.state().counts(), Default::default());
}

#[test]
fn fragments_turn_too() {
    let mut w = Router::new(|_| {});
    let got = w.pass(&packet6("2001:db8:2::20", PEER6, 17, udp_of(7000, 53, &[])).bytes());
    let outside = ends4(&got).1;
    let whole6 = packet6(
        NODE,
        "2001:db8:64::203.0.113.1",
        17,
        udp_of(5000, outside, &pattern(64)),
    );
    let mut sent = vec![];
    for (from, to) in [(24, 72), (0, 24)] {
        let mut payload = fragment_header(17, from as u16 / 8, to != 72, 5);
        payload.extend(&whole6.payload[from..to]);
        let piece = V6 {
            next_header: 44,
            payload,
            ..whole6.clone()
        };
        sent.append(&mut w.give(&piece.bytes()).1);
    }
    let of_node = w
        .nat64
        .state()
        .v4_of(diolkos_nat64::config::Protocol::Udp, e6(NODE, 5000))
        .unwrap();
    let expected = packet6(
        "2001:db8:64::203.0.113.1",
        "2001:db8:2::20",
        17,
        udp_of(of_node.port, 7000, &pattern(64)),
    );
    assert_eq!(whole(&sent), expected.payload);
}
