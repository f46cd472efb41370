// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation of ICMP errors: RFC 7915 sections 4.2, 4.3, 5.2 and 5.3, RFC 4884, RFC 6791.

use crate::common::*;
use diolkos_xlat::{Offload, Reason, Translator, Verdict};

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";
/// A router on the IPv4 side.
const R4: &str = "203.0.113.9";
const R6: &str = "2001:db8:64::203.0.113.9";

fn forward(t: &Translator, packet: &[u8]) -> Vec<u8> {
    let outcome = run(t, packet, Offload::default());
    assert_eq!(outcome.verdict, Verdict::Forward);
    outcome.packet
}

fn drop(t: &Translator, packet: &[u8]) -> Reason {
    let outcome = run(t, packet, Offload::default());
    assert_eq!(outcome.sent, [], "no error about an error");
    match outcome.verdict {
        Verdict::Drop(reason) => reason,
        verdict => panic!("{verdict:?}"),
    }
}

/// A packet from A to B, as a router on the path quotes it.
fn quoted4(l4: Vec<u8>, protocol: u8) -> V4 {
    let mut packet = packet4(A4, B4, protocol, l4);
    (packet.ttl, packet.flags_and_offset) = (1, 0);
    packet
}

fn quoted6(l4: Vec<u8>, protocol: u8) -> V6 {
    let mut packet = packet6(A6, B6, protocol, l4);
    packet.hop_limit = 1;
    packet
}

#[test]
fn time_exceeded_both_ways() {
    for (protocol4, protocol6, l4, l6) in [
        (17, 17, udp(b"data"), udp(b"data")),
        (6, 6, tcp(b"data"), tcp(b"data")),
        (1, 58, echo(8, b"data"), echo(128, b"data")),
    ] {
        let mut four = error4(R4, A4, 11, 0, [0; 4], &quoted4(l4, protocol4).bytes());
        let mut six = error6(R6, A6, 3, 0, [0; 4], &quoted6(l6, protocol6).bytes());
        let (sent4, sent6) = (four.bytes(), six.bytes());
        six.hop_limit = 63;
        assert_eq!(forward(&translator(|_| ()), &sent4), six.bytes());
        (four.ttl, four.flags_and_offset, four.id) = (63, 0, 0x1001);
        assert_eq!(forward(&translator(|_| ()), &sent6), four.bytes());
    }
}

/// Only the addresses of the quote are read; it is not checked whether a router would have
/// forwarded it.
#[test]
fn a_quote_with_illegal_addresses_is_translated_like_any() {
    for illegal in ["127.0.0.1", "0.0.0.0", "224.0.0.5", "255.255.255.255"] {
        let embedded = format!("2001:db8:64::{illegal}");
        let mut quote4 = packet4(A4, illegal, 17, udp(b"data"));
        (quote4.ttl, quote4.flags_and_offset) = (1, 0);
        let mut quote6 = packet6(A6, &embedded, 17, udp(b"data"));
        quote6.hop_limit = 1;
        let four = error4(R4, A4, 11, 0, [0; 4], &quote4.bytes());
        let mut expected = error6(R6, A6, 3, 0, [0; 4], &quote6.bytes());
        let sent6 = expected.bytes();
        expected.hop_limit = 63;
        assert_eq!(
            forward(&translator(|_| ()), &four.bytes()),
            expected.bytes()
        );
        let mut expected = four;
        (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x1001);
        assert_eq!(forward(&translator(|_| ()), &sent6), expected.bytes());
    }
}

#[test]
fn a_quote_may_be_cut_off_anywhere_behind_its_header() {
    let whole4 = quoted4(tcp(b"data"), 6).bytes();
    let whole6 = quoted6(tcp(b"data"), 6).bytes();
    for transport in 0..24 {
        let four = error4(R4, A4, 3, 1, [0; 4], &whole4[..20 + transport]);
        let translated = forward(&translator(|_| ()), &four.bytes());
        // The checksum is updated once both of its bytes are present.
        let mut quote = whole6[..40 + transport].to_vec();
        if transport == 17 {
            quote[56] = whole4[36];
        }
        let mut expected = error6(R6, A6, 1, 0, [0; 4], &quote);
        expected.hop_limit = 63;
        assert_eq!(translated, expected.bytes(), "{transport}");
    }
    let cut = error4(R4, A4, 3, 1, [0; 4], &whole4[..19]);
    assert_eq!(
        drop(&translator(|_| ()), &cut.bytes()),
        Reason::IcmpInnerTruncated
    );
    let cut = error6(R6, A6, 1, 0, [0; 4], &whole6[..39]);
    assert_eq!(
        drop(&translator(|_| ()), &cut.bytes()),
        Reason::IcmpInnerTruncated
    );
}

#[test]
fn a_quoted_udp_datagram_without_checksum_stays_without() {
    let mut quote = V4::new(A4, B4, 17, udp(b"data"));
    quote.ttl = 1;
    let four = error4(R4, A4, 11, 0, [0; 4], &quote.bytes());
    let mut quote = V6::new(A6, B6, 17, udp(b"data"));
    quote.hop_limit = 1;
    let mut expected = error6(R6, A6, 3, 0, [0; 4], &quote.bytes());
    expected.hop_limit = 63;
    assert_eq!(
        forward(&translator(|_| ()), &four.bytes()),
        expected.bytes()
    );
}

#[test]
fn quoted_fragments_have_a_fragment_header_in_ipv6() {
    let mut quote4 = V4::new(A4, B4, 17, pattern(64));
    (quote4.flags_and_offset, quote4.id) = (MF | 7, 0xbeef);
    let four = error4(R4, A4, 11, 1, [0; 4], &quote4.bytes());
    let payload = [fragment_header(17, 7, true, 0xbeef), pattern(64)].concat();
    let quote6 = V6::new(A6, B6, 44, payload);
    let mut expected = error6(R6, A6, 3, 1, [0; 4], &quote6.bytes());
    let sent6 = expected.bytes();
    expected.hop_limit = 63;
    assert_eq!(
        forward(&translator(|_| ()), &four.bytes()),
        expected.bytes()
    );
    let mut expected = four;
    (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x1001);
    assert_eq!(forward(&translator(|_| ()), &sent6), expected.bytes());
}

#[test]
fn packet_too_big_says_28_less_of_a_fragment() {
    let plain = quoted6(udp(b"x"), 17).bytes();
    let translated = forward(
        &translator(|_| ()),
        &error6(R6, A6, 2, 0, 1400u32.to_be_bytes(), &plain).bytes(),
    );
    assert_eq!(translated[20..22], [3, 4]);
    assert_eq!(translated[24..28], 1380u32.to_be_bytes());
    let fragment = V6::new(
        A6,
        B6,
        44,
        [fragment_header(17, 7, true, 1), pattern(64)].concat(),
    )
    .bytes();
    let translated = forward(
        &translator(|_| ()),
        &error6(R6, A6, 2, 0, 1400u32.to_be_bytes(), &fragment).bytes(),
    );
    assert_eq!(translated[24..28], 1372u32.to_be_bytes());
}

#[test]
fn fragmentation_needed_without_mtu_gets_one_from_the_plateau_table() {
    let t = translator(|c| (c.mtu4, c.mtu6) = (9000, 9000));
    let mut quote = quoted4(udp(&pattern(1972)), 17).bytes();
    quote.truncate(28);
    let translated = forward(&t, &error4(R4, A4, 3, 4, [0; 4], &quote).bytes());
    assert_eq!(translated[40..42], [2, 0]);
    assert_eq!(
        translated[44..48],
        1512u32.to_be_bytes(),
        "2000 bytes did not fit; 1492 is the next plateau"
    );
}

#[test]
fn the_checksum_of_an_error_is_verified_and_that_of_its_quote_is_not() {
    let mut broken = error4(R4, A4, 11, 0, [0; 4], &quoted4(udp(b"data"), 17).bytes()).bytes();
    broken[22] ^= 1;
    assert_eq!(drop(&translator(|_| ()), &broken), Reason::IcmpChecksum);
    let mut quote = quoted4(udp(b"data"), 17).bytes();
    quote[27] ^= 1;
    quote[10] ^= 1;
    forward(
        &translator(|_| ()),
        &error4(R4, A4, 11, 0, [0; 4], &quote).bytes(),
    );
}

#[test]
fn an_error_about_an_error_is_dropped() {
    let inner = error4(B4, A4, 3, 1, [0; 4], &quoted4(udp(b"x"), 17).bytes()).bytes();
    assert_eq!(
        drop(
            &translator(|_| ()),
            &error4(R4, B4, 11, 0, [0; 4], &inner).bytes()
        ),
        Reason::IcmpInnerNested
    );
    let inner = error6(B6, A6, 1, 0, [0; 4], &quoted6(udp(b"x"), 17).bytes()).bytes();
    assert_eq!(
        drop(
            &translator(|_| ()),
            &error6(R6, B6, 3, 0, [0; 4], &inner).bytes()
        ),
        Reason::IcmpInnerNested
    );
}

#[test]
fn types_without_counterpart() {
    let quote = quoted4(udp(b"x"), 17).bytes();
    for (icmp_type, code) in [(3, 14), (3, 16), (4, 0), (12, 1), (12, 3)] {
        let packet = error4(R4, A4, icmp_type, code, [0; 4], &quote).bytes();
        assert_eq!(
            drop(&translator(|_| ()), &packet),
            Reason::IcmpType,
            "{icmp_type}/{code}"
        );
    }
    for (icmp_type, reason) in [
        (5, Reason::IcmpSingleHop),
        (9, Reason::IcmpSingleHop),
        (10, Reason::IcmpSingleHop),
    ] {
        assert_eq!(
            drop(
                &translator(|_| ()),
                &packet4(R4, A4, 1, echo(icmp_type, &quote)).bytes()
            ),
            reason
        );
    }
    for icmp_type in [13, 14, 15, 16, 17, 18, 42] {
        let packet = packet4(R4, A4, 1, echo(icmp_type, b"")).bytes();
        assert_eq!(
            drop(&translator(|_| ()), &packet),
            Reason::IcmpType,
            "{icmp_type}"
        );
    }
    for (icmp_type, reason) in [
        (130, Reason::IcmpSingleHop),
        (135, Reason::IcmpSingleHop),
        (143, Reason::IcmpSingleHop),
        (200, Reason::IcmpType),
        (5, Reason::IcmpInnerTruncated),
    ] {
        let packet = packet6(R6, A6, 58, echo(icmp_type, b"")).bytes();
        assert_eq!(drop(&translator(|_| ()), &packet), reason, "{icmp_type}");
    }
}

#[test]
fn an_icmpv6_error_is_never_longer_than_1280_bytes() {
    let four = error4(
        R4,
        A4,
        3,
        3,
        [0; 4],
        &quoted4(udp(&pattern(1400)), 17).bytes(),
    );
    let quote = quoted6(udp(&pattern(1400)), 17).bytes();
    let mut expected = error6(R6, A6, 1, 4, [0; 4], &quote[..1232]);
    expected.hop_limit = 63;
    assert_eq!(
        forward(&translator(|_| ()), &four.bytes()),
        expected.bytes()
    );
}

#[test]
fn a_router_without_counterpart_gets_a_source() {
    let error = error6(
        "2001:db8:ffff::9",
        A6,
        3,
        0,
        [0; 4],
        &quoted6(udp(b"x"), 17).bytes(),
    )
    .bytes();
    assert_eq!(forward(&translator(|_| ()), &error)[12..16], [192, 0, 0, 8]);
    let pool = translator(|c| c.icmp.source_pool4 = vec!["203.0.113.64/28".parse().unwrap()]);
    assert_eq!(forward(&pool, &error)[12..15], [203, 0, 113]);
    let wkp = |c: &mut diolkos_xlat::Config| c.pref64 = vec!["64:ff9b::/96".parse().unwrap()];
    let quote = packet4("8.8.8.8", "9.9.9.9", 17, udp(b"x")).bytes();
    let error = error4("10.0.0.1", "8.8.8.8", 11, 0, [0; 4], &quote).bytes();
    assert_eq!(
        drop(&translator(wkp), &error),
        Reason::SourceUnmapped,
        "a private router, and no address for it"
    );
    let pool = translator(|c| {
        wkp(c);
        c.icmp.address6 = Some(v6("2001:db8::1"));
    });
    assert_eq!(forward(&pool, &error)[8..24], v6("2001:db8::1").octets());
}

#[test]
fn an_illegal_source_of_an_icmpv4_error_is_translated_for_trouble_shooting() {
    let error = error4(
        "127.0.0.1",
        A4,
        11,
        0,
        [0; 4],
        &quoted4(udp(b"x"), 17).bytes(),
    )
    .bytes();
    assert_eq!(
        forward(&translator(|_| ()), &error)[8..24],
        v6("2001:db8:64::127.0.0.1").octets()
    );
}

#[test]
fn an_inner_address_without_counterpart() {
    let quote = packet6(A6, "2001:db8:ffff::1", 17, udp(b"x")).bytes();
    assert_eq!(
        drop(
            &translator(|_| ()),
            &error6(R6, A6, 3, 0, [0; 4], &quote).bytes()
        ),
        Reason::IcmpInnerUnmapped
    );
}
