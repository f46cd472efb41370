// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments that cannot be translated one by one: of ICMP in both directions, and of UDP over IPv4 without checksum,
//! which "the NAT64 MUST reassemble" and whose checksum it "MUST calculate" (RFC 6146 section 3.4).

use crate::common::*;
use crate::fragments::{cut4, cut6};
use crate::harness::*;
use crate::packets::*;
use diolkos_nat64::config::{Limits, Protocol};
use diolkos_xlat::{Reason, Verdict};

/// The joined payload of sent fragments; each must fit the MTU, and all must have the identification.
fn joined(sent: &[Vec<u8>], mtu: usize, id: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for (n, packet) in sent.iter().enumerate() {
        assert!(packet.len() <= mtu, "{} bytes", packet.len());
        let is_last = n + 1 == sent.len();
        let (offset, more, of, data) = match packet[0] >> 4 {
            4 => {
                let flags = u16::from_be_bytes([packet[6], packet[7]]);
                let of = u32::from(u16::from_be_bytes([packet[4], packet[5]]));
                assert_eq!(flags & DF, 0);
                (flags & 0x1fff, flags & MF != 0, of, &packet[20..])
            }
            _ => {
                assert_eq!(packet[6], 44);
                let offset = u16::from_be_bytes([packet[42], packet[43]]);
                let of = u32::from_be_bytes([packet[44], packet[45], packet[46], packet[47]]);
                (offset >> 3, offset & 1 == 1, of, &packet[48..])
            }
        };
        assert_eq!(
            (usize::from(offset) * 8, more, of),
            (all.len(), !is_last, id)
        );
        all.extend(data);
    }
    all
}

/// All packets sent for these fragments; only the last fragment may cause any.
fn gathered(w: &mut Router, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (last, others) = pieces.split_last().expect("fragments");
    for piece in others {
        assert_eq!(w.give(piece), (Verdict::Held, vec![]));
    }
    let (verdict, sent) = w.give(last);
    assert_eq!(verdict, Verdict::Emitted);
    assert_eq!(w.nat64.held_fragments(), 0);
    sent
}

/// `ping -s 2000`, `-s 10000` and the longest possible one, with their replies.
#[test]
fn an_echo_of_any_length_there_and_back() {
    for (len, backwards) in [(2000, false), (10_000, true), (65_507, false)] {
        let mut w = Router::new(|_| {});
        let there = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(len)));
        let mut pieces = cut6(&there, 58, 0x0001_2345, 1448);
        if backwards {
            pieces.reverse();
        }
        let sent = gathered(&mut w, &pieces);
        let id = w
            .nat64
            .state()
            .bindings()
            .next()
            .expect("one")
            .binding
            .v4
            .port;
        let expected = packet4(POOL, PEER, 1, echo_of(8, id, &pattern(len)));
        // The low 16 bits of the identification (RFC 7915 section 5.1.1).
        assert_eq!(joined(&sent, 1500, 0x2345), expected.l4, "{len}");
        assert!(sent.iter().all(|packet| packet[8] == there.hop_limit - 1));

        let back = packet4(PEER, POOL, 1, echo_of(0, id, &pattern(len)));
        let mut pieces = cut4(&back, 9, 1480);
        if backwards {
            pieces.rotate_left(2);
        }
        let sent = gathered(&mut w, &pieces);
        let expected = packet6(PEER6, NODE, 58, echo_of(129, 77, &pattern(len)));
        // "lowest-ipv6-mtu", 1280 (RFC 7915 section 4).
        assert_eq!(joined(&sent, 1280, 9), expected.payload, "{len}");
        assert_eq!(w.nat64.state().counts().sessions, 1);
    }
}

/// A packet that fits after reassembly is sent as one, and may be fragmented later.
#[test]
fn small_fragments_leave_as_one_packet() {
    let mut w = Router::new(|_| {});
    let there = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(100)));
    let sent = gathered(&mut w, &cut6(&there, 58, 5, 56));
    assert_eq!((sent.len(), sent[0].len()), (1, 20 + 108));
    assert_eq!(
        sent[0][4..8],
        [0, 5, 0, 0],
        "identification, neither DF nor MF"
    );
}

#[test]
fn an_echo_from_outside_to_a_static_binding() {
    let mut w = Router::new(|config| {
        let node = e6(NODE, 7);
        config.bindings = vec![binding(Protocol::Icmp, "203.0.113.1:900", node)];
    });
    let there = packet4(PEER, POOL, 1, echo_of(8, 900, &pattern(2000)));
    let sent = gathered(&mut w, &cut4(&there, 9, 1480));
    let expected = packet6(PEER6, NODE, 58, echo_of(128, 7, &pattern(2000)));
    assert_eq!(joined(&sent, 1280, 9), expected.payload);
    // The identifier has no binding, which is known only from the reassembled message.
    let nobody = packet4(PEER, POOL, 1, echo_of(8, 901, &pattern(2000)));
    let pieces = cut4(&nobody, 10, 1480);
    assert_eq!(w.give(&pieces[0]).0, Verdict::Held);
    let (reason, error) = w.refuse(&pieces[1]);
    assert_eq!(reason, Reason::NoBinding);
    assert_eq!(error.expect("an answer")[20..22], [3, 1]);
}

/// A hairpinned message stays whole for any MTU, and is sent in fragments of the original size.
#[test]
fn an_echo_to_ones_own_address_outside_comes_back() {
    let mut w = Router::new(|_| {});
    let own = "2001:db8:64::203.0.113.1";
    let there = packet6(NODE, own, 58, echo_of(128, 9, &pattern(3000)));
    let sent = gathered(&mut w, &cut6(&there, 58, 0x0001_0005, 1448));
    let expected = packet6(own, NODE, 58, echo_of(128, 9, &pattern(3000)));
    assert_eq!(joined(&sent, 1280, 5), expected.payload);
}

#[test]
fn udp_without_checksum_gets_one() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        let mut w = Router::new(|_| {});
        let got = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, &[])).bytes());
        let port = ends4(&got).1;
        let without = V4::new(PEER, POOL, 17, udp_of(53, port, &pattern(4000)));
        let pieces = cut4(&without, 9, 1480);
        let pieces = order.map(|at| pieces[at].clone());
        // A later fragment that arrives first waits for the first one, like any other.
        let mut sent = Vec::new();
        for piece in &pieces {
            let (verdict, mut out) = w.give(piece);
            assert!(!matches!(verdict, Verdict::Drop(_)), "{verdict:?}");
            sent.append(&mut out);
        }
        let expected = packet6(PEER6, NODE, 17, udp_of(53, 5000, &pattern(4000)));
        assert_eq!(joined(&sent, 1280, 9), expected.payload, "{order:?}");
        assert_eq!(w.nat64.held_fragments(), 0);
    }
}

#[test]
fn udp_with_a_checksum_waits_for_nothing() {
    let mut w = Router::new(|_| {});
    let port = ends4(&w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, &[])).bytes())).1;
    let with = packet4(PEER, POOL, 17, udp_of(53, port, &pattern(2000)));
    for piece in cut4(&with, 9, 1000) {
        w.pass(&piece);
    }
}

/// "If any of the fragments being reassembled overlap, […] the entire datagram […] MUST be silently discarded" (RFC
/// 5722 section 4), including fragments still to arrive.
#[test]
fn overlapping_fragments_are_dropped_with_all_others() {
    for is_v6 in [true, false] {
        let mut w = Router::new(|_| {});
        let there6 = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(3000)));
        let there4 = packet4(PEER, POOL, 1, echo_of(8, 900, &pattern(3000)));
        let (pieces, others) = match is_v6 {
            true => (cut6(&there6, 58, 5, 1000), cut6(&there6, 58, 5, 1008)),
            false => (cut4(&there4, 5, 1000), cut4(&there4, 5, 1008)),
        };
        assert_eq!(w.give(&pieces[0]).0, Verdict::Held);
        // A duplicate is no overlap.
        assert_eq!(w.give(&pieces[0]).0, Verdict::Held);
        let overlap = (Verdict::Drop(Reason::FragmentOverlap), vec![]);
        assert_eq!(w.give(&others[0]), overlap, "and no answer");
        assert_eq!(w.watch.dropped, [Reason::FragmentOverlap; 2]);
        assert_eq!(w.nat64.held_fragments(), 0);
        for piece in &pieces[1..] {
            assert_eq!(w.give(piece), overlap);
        }
        assert_eq!(w.nat64.held_fragments(), 0);
        // The identification can be used again after some time.
        w.wait(2.0);
        assert_eq!(w.give(&pieces[0]).0, Verdict::Held);
    }
}

#[test]
fn what_is_never_whole_is_dropped_after_two_seconds() {
    let mut w = Router::new(|_| {});
    let there = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(5000)));
    let pieces = cut6(&there, 58, 5, 1448);
    for piece in &pieces[..3] {
        assert_eq!(w.give(piece).0, Verdict::Held);
    }
    w.wait(1.999);
    assert_eq!(w.nat64.held_fragments(), 3);
    assert_eq!(w.wait(0.001), Vec::<Vec<u8>>::new());
    assert_eq!(w.watch.dropped, [Reason::FragmentTimeout; 3]);
    assert_eq!(w.nat64.fragmented_packets(), 0);
}

/// 40 000 fragments a second that complete no packet, from different sources and in every form: held fragments stay
/// within their bound, and an echo whose fragments arrive within milliseconds passes.
#[test]
fn floods_find_bounds_and_leave_time_to_others() {
    let mut w = Router::new(|config| {
        config.limits = Limits::default();
        let node = e6(NODE, 7);
        config.bindings = vec![binding(Protocol::Icmp, "203.0.113.1:900", node)];
    });
    let noise4 = packet4(PEER, POOL, 1, echo_of(8, 900, &pattern(4000)));
    let noise6 = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(4000)));
    let mut n = 0u32;
    let mut flood = |w: &mut Router| {
        for _ in 0..40 {
            n = n.wrapping_add(1);
            let shape = (n / 2 % 3) as usize;
            if n.is_multiple_of(2) {
                let src = v4(&format!("198.18.{}.{}", n >> 8 & 255, n & 255));
                w.give(
                    &cut4(
                        &V4 {
                            src,
                            ..noise4.clone()
                        },
                        1,
                        1480,
                    )[shape],
                );
            } else {
                let src = v6(&format!(
                    "2001:db8:{:x}:{:x}::1",
                    16 + (n >> 16),
                    n & 0xffff
                ));
                w.give(
                    &cut6(
                        &V6 {
                            src,
                            ..noise6.clone()
                        },
                        58,
                        1,
                        1448,
                    )[shape],
                );
            }
            assert!(w.nat64.held_fragments() <= 1024);
        }
        w.watch.dropped.clear();
        w.wait(0.001);
    };
    for id in 0..20 {
        let pings = [
            cut4(
                &packet4(PEER, POOL, 1, echo_of(8, 900, &pattern(10_000))),
                id,
                1480,
            ),
            cut6(
                &packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(10_000))),
                58,
                id.into(),
                1448,
            ),
        ];
        for pieces in pings {
            let mut sent = 0;
            for piece in &pieces {
                sent += w.give(piece).1.len();
                flood(&mut w);
            }
            assert!(sent > 1, "{id}");
        }
    }
}

/// A source that sends the same flood from one prefix delays its own fragments only.
#[test]
fn a_source_has_its_bound() {
    let mut w = Router::new(|config| config.limits = Limits::default());
    let there = packet6(NODE, PEER6, 58, echo_of(128, 77, &pattern(3000)));
    let mut fates = std::collections::HashMap::new();
    for id in 0..1000 {
        let (verdict, _) = w.give(&cut6(&there, 58, id, 1448)[1]);
        *fates.entry(format!("{verdict:?}")).or_insert(0) += 1;
    }
    assert_eq!(fates["Held"], 64);
    assert_eq!(fates["Drop(FragmentSourceLimit)"], 936);
    let other = packet6("2001:db8:9::1", PEER6, 58, echo_of(128, 77, &pattern(3000)));
    let pieces = cut6(&other, 58, 5, 1448);
    assert_eq!(w.give(&pieces[0]).0, Verdict::Held);
    assert_eq!(w.give(&pieces[1]).0, Verdict::Held);
    assert_eq!(w.give(&pieces[2]).0, Verdict::Emitted);
}
