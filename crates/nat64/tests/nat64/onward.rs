// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets on their way to another gateway: a decremented hop limit, fragments that fit, and errors to the senders of
//! undeliverable packets.

use crate::common::*;
use crate::fragments::cut4;
use crate::harness::*;
use crate::packets::*;
use diolkos_xlat::{Checksum, Gso, GsoKind, Label, Offload, Reason, Verdict};

/// An address of another gateway.
const FIRST: &str = "203.0.113.4";

fn six(len: usize) -> V6 {
    packet6(NODE, PEER6, 17, udp_of(5000, 53, &pattern(len - 48)))
}

fn four(len: usize, flags_and_offset: u16) -> V4 {
    let l4 = udp_of(53, 5000, &pattern(len - 28));
    V4 {
        flags_and_offset,
        id: 77,
        ..packet4(PEER, FIRST, 17, l4)
    }
}

fn labelled() -> Offload {
    Offload {
        label: Label {
            mark: 7,
            priority: 6,
            link: 3,
        },
        ..Offload::default()
    }
}

fn super_packet(size: u16, kind: GsoKind) -> Offload {
    Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso { kind, size }),
        ..labelled()
    }
}

/// The transport checksum field holds only the sum of the pseudo-header.
fn partial(mut packet: V4) -> V4 {
    let seed = ones_sum(&packet.pseudo());
    let at = checksum_at(packet.protocol);
    packet.l4[at..at + 2].copy_from_slice(&seed.to_be_bytes());
    packet
}

#[test]
fn a_packet_goes_on_with_one_hop_less() {
    let mut w = Router::new(|_| {});
    for hops in [2, 64, 255] {
        let mut packet = six(100);
        packet.hop_limit = hops;
        let (came, offload) = (packet.bytes(), labelled());
        packet.hop_limit -= 1;
        let goes = (Verdict::Forward, vec![(packet.bytes(), offload)], vec![]);
        assert_eq!(w.onward(&came, offload, 100), goes);
        // Link padding is not part of the packet.
        let padded = [&came[..], &[0; 6]].concat();
        assert_eq!(w.onward(&padded, offload, 100), goes);
        for (flags, options) in [(DF, vec![]), (0, vec![1; 8]), (MF | 5, vec![])] {
            let mut packet = four(100, flags);
            (packet.ttl, packet.options) = (hops, options);
            let came = packet.bytes();
            packet.ttl -= 1;
            let (verdict, there, errors) = w.onward(&came, offload, came.len());
            assert_eq!((verdict, errors.len()), (Verdict::Forward, 0));
            assert_eq!(there, [(packet.bytes(), offload)]);
        }
    }
}

/// RFC 792, RFC 4443 section 3.3.
#[test]
fn a_packet_whose_hops_run_out_is_answered() {
    let mut w = Router::new(|_| {});
    for hops in [0, 1] {
        let packet6 = V6 {
            hop_limit: hops,
            ..six(100)
        };
        let packet4 = V4 {
            ttl: hops,
            ..four(100, DF)
        };
        for (came, icmp_at, code) in [(packet6.bytes(), 40, 3), (packet4.bytes(), 20, 11)] {
            let (verdict, there, errors) = w.onward(&came, labelled(), 1500);
            assert_eq!(verdict, Verdict::Drop(Reason::HopLimit));
            assert_eq!((there.len(), errors.len()), (0, 1));
            assert_eq!(errors[0][icmp_at], code);
            assert_eq!(errors[0][icmp_at + 8..], came);
            assert_eq!(w.labels, [Label::default()]);
        }
    }
}

/// RFC 8201 section 4, RFC 1191 section 4.
#[test]
fn a_packet_that_is_too_long_is_answered_with_the_mtu_of_the_way() {
    let mut w = Router::new(|_| {});
    for (came, icmp_at, kind, mtu_at) in [
        (six(1401).bytes(), 40, [2, 0], 44),
        (four(1401, DF).bytes(), 20, [3, 4], 24),
    ] {
        let (verdict, there, errors) = w.onward(&came, labelled(), 1400);
        assert_eq!(verdict, Verdict::Drop(Reason::TooBig));
        assert_eq!((there.len(), errors.len()), (0, 1));
        assert_eq!(errors[0][icmp_at..icmp_at + 2], kind);
        assert_eq!(errors[0][mtu_at..mtu_at + 4], 1400u32.to_be_bytes());
        assert_eq!(w.onward(&came, labelled(), 1401).0, Verdict::Forward);
    }
    // No answer is sent to errors (RFC 4443 section 2.4(e), RFC 1812 section 4.3.2.7), or to a spoofed source that is
    // one of this gateway's nodes.
    let quoted = packet6(PEER6, NODE, 17, udp_of(53, 5000, &pattern(1100))).bytes();
    let error = error6(NODE, PEER6, 1, 4, [0; 4], &quoted).bytes();
    let quoted = packet4(FIRST, PEER, 17, udp_of(5000, 53, &pattern(1100))).bytes();
    let error4 = error4(PEER, FIRST, 3, 1, [0; 4], &quoted).bytes();
    let ours = packet4(POOL, FIRST, 17, udp_of(2000, 53, &pattern(1100))).bytes();
    for came in [error, error4, ours] {
        let (verdict, there, errors) = w.onward(&came, labelled(), 1000);
        assert_eq!(verdict, Verdict::Drop(Reason::TooBig));
        assert_eq!((there.len(), errors.len()), (0, 0));
    }
}

/// The number of answers is that of a token bucket: a flood of packets causes no flood of errors.
#[test]
fn answers_are_limited() {
    let mut w = Router::new(|_| {});
    let came = four(1401, DF).bytes();
    let answered = (0..1000).filter(|_| !w.onward(&came, labelled(), 1400).2.is_empty());
    assert!(answered.count() < 200);
}

/// Reassembles the pieces of one packet: identification, offset of the first, whether more follow, and the bytes.
fn together(pieces: &[Led], mtu: usize) -> (u16, u16, bool, Vec<u8>) {
    let mut bytes = Vec::new();
    let field = |piece: &[u8], at: usize| u16::from_be_bytes([piece[at], piece[at + 1]]);
    let first = &pieces[0].0;
    let start = field(first, 6) & 0x1fff;
    for (number, (piece, offload)) in pieces.iter().enumerate() {
        let last = number + 1 == pieces.len();
        assert!(piece.len() <= mtu);
        assert_eq!(*offload, labelled());
        assert_eq!((piece[0], piece[8], piece[9]), (0x45, 63, first[9]));
        assert_eq!(ones_sum(&piece[..20]), 0xffff);
        assert_eq!(usize::from(field(piece, 2)), piece.len());
        assert_eq!(field(piece, 4), field(first, 4));
        assert_eq!(piece[12..20], first[12..20]);
        let at = usize::from(field(piece, 6) & 0x1fff);
        assert_eq!(at, usize::from(start) + bytes.len() / 8);
        assert!(last || field(piece, 6) & MF != 0 && (piece.len() - 20) % 8 == 0);
        bytes.extend(&piece[20..]);
    }
    let last = &pieces[pieces.len() - 1].0;
    (field(first, 4), start, field(last, 6) & MF != 0, bytes)
}

/// RFC 791 section 2.3.
#[test]
fn a_packet_without_df_goes_in_fragments() {
    let mut w = Router::new(|_| {});
    for (flags, start, more, options) in [
        (0, 0, false, vec![]),
        (0, 0, false, vec![1; 8]),
        // The packet is already a fragment.
        (MF, 0, true, vec![]),
        (MF | 40, 40, true, vec![]),
        (40, 40, false, vec![]),
    ] {
        let whole = V4 {
            options,
            ..four(1500, flags)
        };
        for mtu in [68, 576, 1400, 1499] {
            let (verdict, there, errors) = w.onward(&whole.bytes(), labelled(), mtu);
            assert_eq!((verdict, errors.len()), (Verdict::Emitted, 0));
            assert!(there.len() > 1);
            let all = (77, start, more, whole.l4.clone());
            assert_eq!(together(&there, mtu), all);
        }
    }
    // For any reported MTU, however small.
    let whole = four(1500, 0);
    let (_, there, _) = w.onward(&whole.bytes(), labelled(), 0);
    assert_eq!(together(&there, 68).3, whole.l4);
}

#[test]
fn a_checksum_is_completed_before_the_packet_is_cut() {
    let mut w = Router::new(|_| {});
    let whole = partial(four(1500, 0));
    let offload = Offload {
        checksum: Checksum::Partial,
        ..labelled()
    };
    let (verdict, there, _) = w.onward(&whole.bytes(), offload, 1000);
    assert_eq!(verdict, Verdict::Emitted);
    let expected = with_checksum(whole.l4.clone(), 6, &whole.pseudo());
    assert_eq!(together(&there, 1000).3, expected);
    // A packet that fits is left to the next device.
    let there = w.onward(&whole.bytes(), offload, 1500).1;
    assert_eq!(there[0].1, offload);
    assert_eq!(there[0].0[20..], whole.l4);
}

/// A super-packet counts by the length of its segments.
#[test]
fn super_packets_go_whole_where_their_segments_fit() {
    let mut w = Router::new(|_| {});
    let data = pattern(4000);
    let tcp6 = packet6(NODE, PEER6, 6, tcp_of(5000, 80, ACK, &data)).bytes();
    let udp6 = packet6(NODE, PEER6, 17, udp_of(5000, 80, &data)).bytes();
    let tcp4 = packet4(PEER, FIRST, 6, tcp_of(80, 5000, ACK, &data)).bytes();
    for (came, kind, size, len, hops_at, icmp_at) in [
        (tcp6, GsoKind::Tcp, 1340, 1400, 7, 40),
        (udp6, GsoKind::Udp, 1352, 1400, 7, 40),
        (tcp4, GsoKind::Tcp, 1360, 1400, 8, 20),
    ] {
        let offload = super_packet(size, kind);
        let (verdict, there, errors) = w.onward(&came, offload, len);
        assert_eq!((verdict, errors.len()), (Verdict::Forward, 0));
        assert_eq!(there[0].1, offload);
        let mut left = there[0].0.clone();
        assert_eq!(left[hops_at], 63);
        left[hops_at] = 64;
        left[10..12].copy_from_slice(&came[10..12]);
        assert_eq!(left, came);

        let (verdict, there, errors) = w.onward(&came, offload, len - 1);
        assert_eq!(verdict, Verdict::Drop(Reason::TooBig));
        assert_eq!((there.len(), errors.len()), (0, 1));
        let mtu = u32::from_be_bytes(errors[0][icmp_at + 4..icmp_at + 8].try_into().unwrap());
        assert_eq!(mtu as usize, len - 1);
        // A packet whose offload is invalid.
        let (verdict, ..) = w.onward(&came, super_packet(0, kind), 1500);
        assert_eq!(verdict, Verdict::Drop(Reason::OffloadMismatch));
    }
}

#[test]
fn a_super_packet_without_df_goes_in_segments_and_those_in_fragments() {
    let mut w = Router::new(|_| {});
    let data = pattern(3000);
    let mut whole = packet4(PEER, FIRST, 6, tcp_of(80, 5000, ACK, &data));
    (whole.flags_and_offset, whole.id) = (0, 0xffff);
    let came = partial(whole.clone()).bytes();
    let (verdict, there, _) = w.onward(&came, super_packet(1400, GsoKind::Tcp), 1000);
    assert_eq!(verdict, Verdict::Emitted);
    assert_eq!(
        there.len(),
        5,
        "two segments in two fragments each, and one that fits"
    );
    for (number, range) in [0..2, 2..4, 4..5].into_iter().enumerate() {
        let part = &data[number * 1400..data.len().min((number + 1) * 1400)];
        let mut l4 = tcp_of(80, 5000, ACK, part);
        l4[4..8].copy_from_slice(&(1 + number as u32 * 1400).to_be_bytes());
        let segment = packet4(PEER, FIRST, 6, l4);
        let all = (0xffffu16.wrapping_add(number as u16), 0, false, segment.l4);
        assert_eq!(together(&there[range], 1000), all);
    }
}

/// Received fragments are forwarded unchanged.
#[test]
fn fragments_that_fit_stay_as_they_are() {
    let mut w = Router::new(|_| {});
    for piece in cut4(&four(3000, 0), 9, 1480) {
        let (verdict, there, _) = w.onward(&piece, labelled(), 1500);
        assert_eq!((verdict, there.len()), (Verdict::Forward, 1));
        assert_eq!(there[0].0[20..], piece[20..]);
        assert_eq!(there[0].0[..8], piece[..8]);
    }
}

#[test]
fn what_is_no_packet_is_refused() {
    let mut w = Router::new(|_| {});
    let mut wrong = four(100, DF).bytes();
    wrong[10] ^= 1;
    for (bytes, reason) in [
        (vec![], Reason::NotIp),
        (vec![0x95; 40], Reason::NotIp),
        (six(100).bytes()[..99].to_vec(), Reason::Truncated),
        (wrong, Reason::Ipv4HeaderChecksum),
    ] {
        let (verdict, there, errors) = w.onward(&bytes, labelled(), 1500);
        assert_eq!(verdict, Verdict::Drop(reason));
        assert_eq!((there.len(), errors.len()), (0, 0));
    }
}
