// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Super-packets: their segments decide whether they fit, and they are cut into segments only if no
//! device can do it.

use crate::common::*;
use diolkos_xlat::{Checksum, Gso, GsoKind, Offload, Reason, Verdict};

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";

#[test]
fn a_super_packet_without_df_is_cut_into_segments_and_those_into_fragments() {
    let offload = Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso {
            kind: GsoKind::Tcp,
            size: 1460,
        }),
        ..Offload::default()
    };
    let mut four = V4::new(A4, B4, 6, tcp(&pattern(4000)));
    four.l4[13] = 0x99; // CWR, ACK, PSH, FIN
    (four.flags_and_offset, four.id) = (0, 0xffff);
    let seed = ones_sum(&four.pseudo());
    four.l4[16..18].copy_from_slice(&seed.to_be_bytes());
    let outcome = run(&translator(|_| ()), &four.bytes(), offload);
    assert_eq!(outcome.verdict, Verdict::Emitted);
    assert_eq!(
        outcome.sent.len(),
        5,
        "two segments in two fragments each, and one that fits"
    );
    let mut segments = vec![];
    for pair in [0..2, 2..4] {
        let fragments = &outcome.sent[pair];
        assert!(fragments
            .iter()
            .all(|(bytes, offload)| bytes.len() <= 1280 && *offload == Offload::default()));
        segments.push((
            fragments[0].0[44..48].to_vec(),
            fragments
                .iter()
                .flat_map(|(bytes, _)| bytes[48..].to_vec())
                .collect::<Vec<u8>>(),
        ));
    }
    segments.push((vec![], outcome.sent[4].0[40..].to_vec()));
    for (number, (id, segment)) in segments.into_iter().enumerate() {
        let data = &pattern(4000)[number * 1460..4000.min((number + 1) * 1460)];
        let mut expected = tcp(data);
        expected[4..8].copy_from_slice(&(1 + number as u32 * 1460).to_be_bytes());
        expected[13] = [0x90, 0x10, 0x19][number];
        assert_eq!(
            segment,
            packet6(A6, B6, 6, expected).payload,
            "segment {number}"
        );
        if number < 2 {
            assert_eq!(
                id,
                [[0, 0, 0xff, 0xff], [0, 0, 0, 0]][number],
                "identifications count up"
            );
        }
    }
}

#[test]
fn a_super_packet_of_datagrams_is_cut_to_a_small_ipv4_mtu() {
    let offload = Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso {
            kind: GsoKind::Udp,
            size: 1000,
        }),
        ..Offload::default()
    };
    let six = V6::new(A6, B6, 17, udp(&pattern(1500)));
    let outcome = run(&translator(|c| c.mtu4 = 900), &six.bytes(), offload);
    assert_eq!(outcome.verdict, Verdict::Emitted);
    assert_eq!(outcome.sent.len(), 3);
    let first = [&outcome.sent[0].0[20..], &outcome.sent[1].0[20..]].concat();
    assert_eq!(first, packet4(A4, B4, 17, udp(&pattern(1500)[..1000])).l4);
    assert_eq!(
        outcome.sent[2].0[20..],
        packet4(A4, B4, 17, udp(&pattern(1500)[1000..])).l4
    );
}

#[test]
fn a_super_packet_is_measured_by_its_segment() {
    let gso = |size| Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso {
            kind: GsoKind::Tcp,
            size,
        }),
        ..Offload::default()
    };
    let six = V6::new(A6, B6, 6, tcp(&[1; 30_000]));
    let outcome = run(&translator(|_| ()), &six.bytes(), gso(1440));
    assert_eq!(
        (outcome.verdict, outcome.offload),
        (Verdict::Forward, gso(1440))
    );
    assert_eq!(outcome.packet[6..8], [0x40, 0], "1480 bytes want DF");
    let outcome = run(&translator(|_| ()), &six.bytes(), gso(1220));
    assert_eq!(outcome.packet[6..8], [0, 0], "1260 bytes do not");
    let outcome = run(&translator(|_| ()), &six.bytes(), gso(1461));
    assert_eq!(outcome.verdict, Verdict::Drop(Reason::TooBig));
    let four = V4::new(A4, B4, 6, tcp(&[1; 30_000]));
    assert_eq!(
        run(&translator(|_| ()), &four.bytes(), gso(1440)).verdict,
        Verdict::Forward
    );
    assert_eq!(
        run(&translator(|_| ()), &four.bytes(), gso(1441)).verdict,
        Verdict::Drop(Reason::TooBig)
    );
    let udp = V4::new(A4, B4, 17, udp(&[1; 3000]));
    assert_eq!(
        run(&translator(|_| ()), &udp.bytes(), gso(1000)).verdict,
        Verdict::Drop(Reason::OffloadMismatch)
    );
}

#[test]
fn each_segment_has_an_identification_of_its_own() {
    // The code that cuts the packet counts up from its identification (RFC 6864 section 4.2).
    let translator = translator(|_| ());
    let mut world = World::new();
    let mut id_of = |kind, protocol, l4: Vec<u8>, size| {
        let offload = Offload {
            checksum: Checksum::Partial,
            gso: Some(Gso { kind, size }),
            ..Offload::default()
        };
        let six = V6::new(A6, B6, protocol, l4).bytes();
        let outcome = run_in(&mut world, &translator, &six, offload);
        assert_eq!(outcome.packet[6..8], [0, 0], "without DF");
        u16::from_be_bytes([outcome.packet[4], outcome.packet[5]])
    };
    let (tcp_segments, udp_segments) = (GsoKind::Tcp, GsoKind::Udp);
    let first = id_of(tcp_segments, 6, tcp(&[1; 3001]), 1000);
    assert_eq!(
        id_of(udp_segments, 17, udp(&[1; 3000]), 1000),
        first + 4,
        "3001 bytes were four segments"
    );
    assert_eq!(
        id_of(tcp_segments, 6, tcp(&[1; 1000]), 1000),
        first + 7,
        "3000 bytes were three datagrams"
    );
    assert_eq!(
        id_of(tcp_segments, 6, tcp(&[]), 1000),
        first + 8,
        "1000 bytes were one segment"
    );
    assert_eq!(
        id_of(tcp_segments, 6, tcp(&[]), 1000),
        first + 9,
        "a segment without data is one too"
    );
}
