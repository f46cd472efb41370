// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP, UDP and ICMP echo, unfragmented: the rules of RFC 7915 sections 4.1, 4.2, 5.1 and 5.2 for
//! each field.

use crate::common::*;
use diolkos_xlat::{Checksum, Offload, Reason, UdpZeroChecksum, Verdict};

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";

fn plain(protocol: u8) -> Vec<u8> {
    match protocol {
        6 => tcp(b"over the device"),
        _ => udp(b"over the device"),
    }
}

#[test]
fn tcp_and_udp_from_ipv4_to_ipv6() {
    for protocol in [6, 17, 33, 136] {
        let mut sent = packet4(A4, B4, protocol, plain(protocol));
        sent.tos = 0xb8;
        let mut expected = packet6(A6, B6, protocol, plain(protocol));
        (expected.class, expected.hop_limit) = (0xb8, 63);
        let outcome = run(&translator(|_| ()), &sent.bytes(), Offload::default());
        assert_eq!(outcome.verdict, Verdict::Forward);
        assert_eq!(outcome.packet, expected.bytes(), "protocol {protocol}");
    }
}

#[test]
fn tcp_and_udp_from_ipv6_to_ipv4() {
    for protocol in [6, 17, 33, 136] {
        let mut sent = packet6(A6, B6, protocol, plain(protocol));
        (sent.class, sent.flow) = (0xb8, 0xabcde);
        let mut expected = packet4(A4, B4, protocol, plain(protocol));
        (
            expected.tos,
            expected.ttl,
            expected.flags_and_offset,
            expected.id,
        ) = (0xb8, 63, 0, 0x1001);
        let outcome = run(&translator(|_| ()), &sent.bytes(), Offload::default());
        assert_eq!(outcome.verdict, Verdict::Forward);
        assert_eq!(outcome.packet, expected.bytes(), "protocol {protocol}");
    }
}

#[test]
fn echo_both_ways() {
    for (type4, type6) in [(8, 128), (0, 129)] {
        let four = packet4(A4, B4, 1, echo(type4, b"abc"));
        let six = packet6(A6, B6, 58, echo(type6, b"abc"));
        let mut expected = six.clone();
        expected.hop_limit = 63;
        assert_eq!(
            run(&translator(|_| ()), &four.bytes(), Offload::default()).packet,
            expected.bytes()
        );
        let mut expected = four.clone();
        (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x1001);
        assert_eq!(
            run(&translator(|_| ()), &six.bytes(), Offload::default()).packet,
            expected.bytes()
        );
    }
}

#[test]
fn an_echo_reply_of_zeros_keeps_the_checksum_of_zeros() {
    let six = packet6(A6, B6, 58, vec![129, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let outcome = run(&translator(|_| ()), &six.bytes(), Offload::default());
    assert_eq!(outcome.packet[20..], [0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn df_is_set_above_1260_bytes() {
    for (len, df, id) in [(1260, 0, 0x1001), (1261, DF, 0)] {
        let sent = packet6(A6, B6, 17, udp(&vec![7; len - 28]));
        let mut expected = packet4(A4, B4, 17, udp(&vec![7; len - 28]));
        (expected.ttl, expected.flags_and_offset, expected.id) = (63, df, id);
        assert_eq!(
            run(&translator(|_| ()), &sent.bytes(), Offload::default()).packet,
            expected.bytes()
        );
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    // The data word makes the sum on the far side 0xFFFF.
    let zero = |packet: &dyn Fn(u16) -> Vec<u8>, far: &dyn Fn(u16) -> Vec<u8>| {
        let word = (0..=u16::MAX)
            .find(|&word| ones_sum(&far(word)) == 0xffff)
            .unwrap();
        packet(word)
    };
    let sent = zero(
        &|w| packet4(A4, B4, 17, udp(&w.to_be_bytes())).bytes(),
        &|w| {
            let far = V6::new(A6, B6, 17, udp(&w.to_be_bytes()));
            [far.pseudo(17, 10), far.payload].concat()
        },
    );
    assert_eq!(
        run(&translator(|_| ()), &sent, Offload::default()).packet[46..48],
        [0xff, 0xff]
    );
    let sent = zero(
        &|w| packet6(A6, B6, 17, udp(&w.to_be_bytes())).bytes(),
        &|w| {
            let far = V4::new(A4, B4, 17, udp(&w.to_be_bytes()));
            [far.pseudo(), far.l4].concat()
        },
    );
    assert_eq!(
        run(&translator(|_| ()), &sent, Offload::default()).packet[26..28],
        [0xff, 0xff]
    );
}

#[test]
fn udp_without_checksum_is_dropped_or_gets_one() {
    let sent = V4::new(A4, B4, 17, udp(b"no checksum")).bytes();
    let outcome = run(&translator(|_| ()), &sent, Offload::default());
    assert_eq!(outcome.verdict, Verdict::Drop(Reason::UdpZeroChecksum));
    let compute = translator(|c| c.udp_zero_checksum = Some(UdpZeroChecksum::Compute));
    let mut expected = packet6(A6, B6, 17, udp(b"no checksum"));
    expected.hop_limit = 63;
    assert_eq!(
        run(&compute, &sent, Offload::default()).packet,
        expected.bytes()
    );
}

#[test]
fn a_partial_checksum_keeps_its_seed() {
    let offload = Offload {
        checksum: Checksum::Partial,
        gso: None,
        ..Offload::default()
    };
    for protocol in [6, 17] {
        let at = checksum_at(protocol);
        let mut four = V4::new(A4, B4, protocol, plain(protocol));
        let seed = ones_sum(&four.pseudo()).to_be_bytes();
        four.l4[at..at + 2].copy_from_slice(&seed);
        let mut six = V6::new(A6, B6, protocol, plain(protocol));
        let seed = ones_sum(&six.pseudo(protocol, six.payload.len())).to_be_bytes();
        six.payload[at..at + 2].copy_from_slice(&seed);
        let outcome = run(&translator(|_| ()), &four.bytes(), offload);
        assert_eq!(outcome.packet[40..], six.payload);
        assert_eq!(outcome.offload, offload);
        assert_eq!(
            run(&translator(|_| ()), &six.bytes(), offload).packet[20..],
            four.l4
        );
    }
}

#[test]
fn padding_is_trimmed_and_a_cut_packet_is_dropped() {
    let mut sent = packet4(A4, B4, 17, udp(b"x")).bytes();
    sent.extend([0; 17]);
    assert_eq!(
        run(&translator(|_| ()), &sent, Offload::default())
            .packet
            .len(),
        49
    );
    sent.truncate(28);
    assert_eq!(
        run(&translator(|_| ()), &sent, Offload::default()).verdict,
        Verdict::Drop(Reason::Truncated)
    );
}

#[test]
fn the_last_hop_is_not_ours() {
    let mut sent = packet4(A4, B4, 17, udp(b"x"));
    sent.ttl = 1;
    assert_eq!(
        run(&translator(|_| ()), &sent.bytes(), Offload::default()).verdict,
        Verdict::Drop(Reason::HopLimit)
    );
}

#[test]
fn addresses_that_may_not_be_translated() {
    let wkp = translator(|c| c.pref64 = vec!["64:ff9b::/96".parse().unwrap()]);
    let drop = |t: &_, src: &str, dst: &str| match src.contains(':') {
        true => {
            run(
                t,
                &packet6(src, dst, 17, udp(b"x")).bytes(),
                Offload::default(),
            )
            .verdict
        }
        false => {
            run(
                t,
                &packet4(src, dst, 17, udp(b"x")).bytes(),
                Offload::default(),
            )
            .verdict
        }
    };
    let plain = translator(|_| ());
    assert_eq!(
        drop(&plain, "127.0.0.1", B4),
        Verdict::Drop(Reason::SourceIllegal)
    );
    assert_eq!(
        drop(&plain, "::1", B6),
        Verdict::Drop(Reason::SourceIllegal)
    );
    assert_eq!(
        drop(&plain, "2001:db8:64::127.0.0.1", B6),
        Verdict::Drop(Reason::SourceIllegal)
    );
    assert_eq!(
        drop(&plain, A6, "2001:db8:64::255.255.255.255"),
        Verdict::Drop(Reason::DestinationIllegal)
    );
    assert_eq!(
        drop(&plain, A4, "224.0.0.1"),
        Verdict::Drop(Reason::Multicast)
    );
    assert_eq!(
        drop(&plain, A6, "ff0e::1"),
        Verdict::Drop(Reason::Multicast)
    );
    assert_eq!(
        drop(&plain, "2001:db8::1", B6),
        Verdict::Drop(Reason::SourceUnmapped)
    );
    assert_eq!(
        drop(&plain, A6, "2001:db8::1"),
        Verdict::Drop(Reason::DestinationUnmapped)
    );
    assert_eq!(
        drop(&wkp, "64:ff9b::8.8.8.8", "64:ff9b::10.0.0.1"),
        Verdict::Drop(Reason::NotGlobalWithWkp)
    );
    assert_eq!(
        drop(&wkp, "64:ff9b::8.8.8.8", "64:ff9b::192.0.0.170"),
        Verdict::Forward
    );
    assert_eq!(
        drop(&wkp, "10.0.0.1", "8.8.8.8"),
        Verdict::Drop(Reason::NotGlobalWithWkp)
    );
}

#[test]
fn a_clat_maps_its_own_address_explicitly() {
    let clat = translator(|c| {
        c.pref64 = vec!["64:ff9b::/96".parse().unwrap()];
        c.eam = vec![diolkos_xlat::Eam {
            v4: "192.0.0.1/32".parse().unwrap(),
            v6: "2001:db8::464/128".parse().unwrap(),
        }];
    });
    let mut expected = packet6("2001:db8::464", "64:ff9b::8.8.8.8", 6, tcp(b"x"));
    expected.hop_limit = 63;
    let sent = packet4("192.0.0.1", "8.8.8.8", 6, tcp(b"x"));
    assert_eq!(
        run(&clat, &sent.bytes(), Offload::default()).packet,
        expected.bytes()
    );
}
