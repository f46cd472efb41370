// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments: translated, created, and refused (RFC 7915 sections 4, 4.1, 5 and 5.1.1). Also
//! extension headers and IPv4 options.

use crate::common::*;
use diolkos_xlat::{Checksum, Label, Offload, Reason, UdpZeroChecksum, Verdict};

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";

fn drop(packet: &[u8]) -> Reason {
    match run(&translator(|_| ()), packet, Offload::default()).verdict {
        Verdict::Drop(reason) => reason,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn fragments_keep_offset_and_identification() {
    for (offset, more) in [(0, true), (185, true), (370, false)] {
        // The first fragment holds a transport header, whose checksum covers the other fragments
        // too.
        let l4 = [
            udp(&pattern(32))[..6].to_vec(),
            vec![0x12, 0x34],
            pattern(32),
        ]
        .concat();
        let mut four = V4::new(A4, B4, 17, l4.clone());
        (four.flags_and_offset, four.id) = (offset | if more { MF } else { 0 }, 0xbeef);
        let mut translated = l4.clone();
        if offset == 0 {
            let difference = ones_sum(
                &[
                    [v6(A6).octets(), v6(B6).octets()].concat(),
                    (!ones_sum(&[v4(A4).octets(), v4(B4).octets()].concat()))
                        .to_be_bytes()
                        .to_vec(),
                ]
                .concat(),
            );
            let checksum =
                !ones_sum(&[(!0x1234u16).to_be_bytes(), difference.to_be_bytes()].concat());
            translated[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
        let mut six = V6::new(
            A6,
            B6,
            44,
            [
                fragment_header(17, offset, more, 0xbeef),
                translated.clone(),
            ]
            .concat(),
        );
        let (sent4, sent6) = (four.bytes(), {
            // The high-order bits of the identification are lost.
            let mut six = six.clone();
            six.payload[4] = 0x77;
            six.bytes()
        });
        six.hop_limit = 63;
        assert_eq!(
            run(&translator(|_| ()), &sent4, Offload::default()).packet,
            six.bytes(),
            "offset {offset}"
        );
        four.ttl = 63;
        assert_eq!(
            run(&translator(|_| ()), &sent6, Offload::default()).packet,
            four.bytes(),
            "offset {offset}"
        );
    }
}

#[test]
fn an_atomic_fragment_becomes_a_packet_with_its_identification_and_without_df() {
    let udp6 = packet6(A6, B6, 17, udp(&pattern(1300)));
    let six = V6::new(
        A6,
        B6,
        44,
        [fragment_header(17, 0, false, 0x1234_5678), udp6.payload].concat(),
    );
    let mut expected = packet4(A4, B4, 17, udp(&pattern(1300)));
    (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x5678);
    assert_eq!(
        run(&translator(|_| ()), &six.bytes(), Offload::default()).packet,
        expected.bytes()
    );
}

#[test]
fn a_large_packet_without_df_is_cut_to_the_lowest_ipv6_mtu() {
    for lowest in [1280, 1400] {
        let mut four = packet4(A4, B4, 17, udp(&pattern(3000)));
        (four.flags_and_offset, four.id) = (0, 0xbeef);
        let whole = packet6(A6, B6, 17, udp(&pattern(3000))).payload;
        let outcome = run(
            &translator(|c| c.lowest_ipv6_mtu = lowest),
            &four.bytes(),
            Offload::default(),
        );
        assert_eq!(outcome.verdict, Verdict::Emitted);
        let step = (lowest as usize - 48) / 8 * 8;
        let expected: Vec<_> = (0..3008)
            .step_by(step)
            .map(|at| {
                let piece = &whole[at..3008.min(at + step)];
                let header = fragment_header(17, (at / 8) as u16, at + step < 3008, 0xbeef);
                let mut six = V6::new(A6, B6, 44, [header, piece.to_vec()].concat());
                six.hop_limit = 63;
                (six.bytes(), Offload::default())
            })
            .collect();
        assert_eq!(outcome.sent, expected);
    }
}

#[test]
fn a_large_fragment_without_df_is_cut_again() {
    let mut four = V4::new(A4, B4, 17, pattern(1480));
    (four.flags_and_offset, four.id) = (MF | 185, 0xbeef);
    let sent = run(&translator(|_| ()), &four.bytes(), Offload::default()).sent;
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].0[40..48], fragment_header(17, 185, true, 0xbeef));
    assert_eq!(
        sent[1].0[40..48],
        fragment_header(17, 185 + 154, true, 0xbeef)
    );
    assert_eq!([&sent[0].0[48..], &sent[1].0[48..]].concat(), pattern(1480));
}

#[test]
fn small_packets_are_cut_to_a_small_ipv4_mtu() {
    let six = packet6(A6, B6, 17, udp(&pattern(1000)));
    let whole = packet4(A4, B4, 17, udp(&pattern(1000))).l4;
    let outcome = run(
        &translator(|c| c.mtu4 = 576),
        &six.bytes(),
        Offload::default(),
    );
    assert_eq!(outcome.verdict, Verdict::Emitted);
    let expected: Vec<_> = [(0, 552), (552, 1008)]
        .map(|(from, to)| {
            let mut four = V4::new(A4, B4, 17, whole[from..to].to_vec());
            four.flags_and_offset = (from / 8) as u16 | if to < 1008 { MF } else { 0 };
            (four.ttl, four.id) = (63, 0x1001);
            (four.bytes(), Offload::default())
        })
        .to_vec();
    assert_eq!(outcome.sent, expected);
    // A larger packet has DF and is refused.
    let six = packet6(A6, B6, 17, udp(&pattern(1233)));
    let outcome = run(
        &translator(|c| c.mtu4 = 576),
        &six.bytes(),
        Offload::default(),
    );
    assert_eq!(outcome.verdict, Verdict::Drop(Reason::TooBig));
    assert_eq!(
        outcome.sent[0].0[40..48],
        [
            2,
            0,
            outcome.sent[0].0[42],
            outcome.sent[0].0[43],
            0,
            0,
            5,
            0
        ]
    );
}

#[test]
fn a_partial_checksum_is_completed_before_the_packet_is_cut() {
    let mut four = V4::new(A4, B4, 17, udp(&pattern(2000)));
    let seed = ones_sum(&four.pseudo());
    four.l4[6..8].copy_from_slice(&seed.to_be_bytes());
    four.flags_and_offset = 0;
    let label = Label {
        mark: 7,
        priority: 6,
        link: 0,
    };
    let offload = Offload {
        checksum: Checksum::Partial,
        gso: None,
        label,
    };
    let sent = run(&translator(|_| ()), &four.bytes(), offload).sent;
    let whole: Vec<u8> = sent
        .iter()
        .flat_map(|(bytes, _)| bytes[48..].to_vec())
        .collect();
    assert_eq!(whole, packet6(A6, B6, 17, udp(&pattern(2000))).payload);
    let expected = Offload {
        label,
        ..Offload::default()
    };
    assert!(sent.iter().all(|(_, offload)| *offload == expected));
}

#[test]
fn refused_fragments() {
    let fragment = |protocol, flags_and_offset, l4| {
        V4 {
            flags_and_offset,
            ..V4::new(A4, B4, protocol, l4)
        }
        .bytes()
    };
    assert_eq!(
        drop(&fragment(1, MF, echo(8, &[0; 8]))),
        Reason::FragmentIcmp
    );
    assert_eq!(drop(&fragment(1, 9, vec![0; 8])), Reason::FragmentIcmp);
    assert_eq!(
        drop(&fragment(17, MF, vec![0; 9])),
        Reason::FragmentMalformed
    );
    assert_eq!(
        drop(&fragment(17, 0x1fff, vec![0; 16])),
        Reason::FragmentMalformed
    );
    assert_eq!(
        drop(&fragment(6, MF, vec![0; 16])),
        Reason::TransportTruncated
    );
    assert_eq!(
        drop(&fragment(17, MF, udp(&[0; 8]))),
        Reason::FragmentUdpZeroChecksum
    );
    let compute = translator(|c| c.udp_zero_checksum = Some(UdpZeroChecksum::Compute));
    let outcome = run(
        &compute,
        &fragment(17, MF, udp(&[0; 8])),
        Offload::default(),
    );
    assert_eq!(
        outcome.verdict,
        Verdict::Drop(Reason::FragmentUdpZeroChecksum)
    );
    let six = |payload: Vec<u8>| V6::new(A6, B6, 44, payload).bytes();
    assert_eq!(
        drop(&six(
            [fragment_header(58, 0, true, 1), echo(128, &[])].concat()
        )),
        Reason::FragmentIcmp
    );
    assert_eq!(
        drop(&six([
            fragment_header(60, 0, true, 1),
            vec![17, 0, 0, 0, 0, 0, 0, 0]
        ]
        .concat())),
        Reason::FragmentExtension
    );
    assert_eq!(
        drop(&six([fragment_header(51, 3, false, 1), vec![0; 8]].concat())),
        Reason::FragmentExtension
    );
    assert_eq!(
        drop(&six([fragment_header(17, 1, true, 1), vec![0; 7]].concat())),
        Reason::FragmentMalformed
    );
    assert_eq!(
        drop(&six(
            [fragment_header(17, 0x1fff, false, 1), vec![0; 16]].concat()
        )),
        Reason::FragmentMalformed
    );
    assert_eq!(
        drop(&six(
            [fragment_header(17, 8188, false, 1), vec![0; 12]].concat()
        )),
        Reason::TooLong
    );
    assert_eq!(drop(&six(vec![17, 0, 0])), Reason::ExtensionChain);
}
