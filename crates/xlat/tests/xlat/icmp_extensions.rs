// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The extensions after the quoted packet in an ICMP error: RFC 4884, RFC 7915 sections 4.2 and
//! 5.2.

use crate::common::*;
use diolkos_xlat::{Offload, Reason, Translator, Verdict};

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const R4: &str = "203.0.113.9";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";
const R6: &str = "2001:db8:64::203.0.113.9";

fn forward(t: &Translator, packet: &[u8]) -> Vec<u8> {
    let outcome = run(t, packet, Offload::default());
    assert_eq!(outcome.verdict, Verdict::Forward);
    outcome.packet
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
fn extensions_of_rfc_4884_follow_the_quote() {
    // An interface name object of 16 bytes; its content does not matter here.
    let extension = pattern(16);
    let quote4 = quoted4(udp(&pattern(100)), 17).bytes();
    let quote6 = quoted6(udp(&pattern(100)), 17).bytes();
    // 128 bytes of IPv4 quote are 32 words of 4 bytes. In IPv6 they become 148, padded to 152: 19
    // words of 8 bytes.
    let four = error4(
        R4,
        A4,
        11,
        0,
        [0, 32, 0, 0],
        &[quote4.clone(), extension.clone()].concat(),
    );
    let six = error6(
        R6,
        A6,
        3,
        0,
        [19, 0, 0, 0],
        &[quote6.clone(), vec![0; 4], extension.clone()].concat(),
    );
    let mut expected = six.clone();
    expected.hop_limit = 63;
    assert_eq!(
        forward(&translator(|_| ()), &four.bytes()),
        expected.bytes()
    );
    // In the reverse direction, the padding counts as quote: 132 bytes, 33 words.
    let mut expected = error4(
        R4,
        A4,
        11,
        0,
        [0, 33, 0, 0],
        &[quote4, vec![0; 4], extension].concat(),
    );
    (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x1001);
    assert_eq!(forward(&translator(|_| ()), &six.bytes()), expected.bytes());
}

#[test]
fn a_short_quote_with_extensions_is_padded_to_128() {
    let extension = pattern(8);
    let quote = quoted4(udp(b""), 17).bytes();
    let four = error4(
        R4,
        A4,
        11,
        0,
        [0, 7, 0, 0],
        &[quote, extension.clone()].concat(),
    );
    let quote = quoted6(udp(b""), 17).bytes();
    let mut expected = error6(
        R6,
        A6,
        3,
        0,
        [16, 0, 0, 0],
        &[quote, vec![0; 80], extension].concat(),
    );
    expected.hop_limit = 63;
    assert_eq!(
        forward(&translator(|_| ()), &four.bytes()),
        expected.bytes()
    );
}

#[test]
fn extensions_are_dropped_where_they_cannot_be() {
    // Only ICMPv4 has extensions in a Parameter Problem.
    let quote = quoted4(udp(&pattern(100)), 17).bytes();
    let four = error4(R4, A4, 12, 0, [8, 32, 0, 0], &[quote, pattern(16)].concat());
    let quote = quoted6(udp(&pattern(100)), 17).bytes();
    let mut expected = error6(R6, A6, 4, 0, [0, 0, 0, 7], &quote);
    expected.hop_limit = 63;
    assert_eq!(
        forward(&translator(|_| ()), &four.bytes()),
        expected.bytes()
    );
    let lie = error4(
        R4,
        A4,
        11,
        0,
        [0, 200, 0, 0],
        &quoted4(udp(&pattern(100)), 17).bytes(),
    );
    let outcome = run(&translator(|_| ()), &lie.bytes(), Offload::default());
    assert_eq!(outcome.verdict, Verdict::Drop(Reason::IcmpExtension));
}
