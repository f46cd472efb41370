// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two nodes behind the translator that use each other's IPv4 addresses: RFC 7757 section 4.

use crate::common::*;
use diolkos_xlat::{Eam, Offload, Translator, Verdict};

/// The nodes A and B: their own addresses, and those in which the other node sees them.
const A6: &str = "2001:db8:a::1";
const B6: &str = "2001:db8:b::2";
const A_SEEN: &str = "2001:db8:64::192.0.2.1";
const B_SEEN: &str = "2001:db8:64::192.0.2.2";

fn both() -> Translator {
    translator(|c| {
        c.eam = [
            ("192.0.2.1/32", "2001:db8:a::1/128"),
            ("192.0.2.2/32", "2001:db8:b::2/128"),
        ]
        .map(|(v4, v6)| Eam {
            v4: v4.parse().unwrap(),
            v6: v6.parse().unwrap(),
        })
        .to_vec();
    })
}

fn forward(packet: &V6) -> Vec<u8> {
    let outcome = run(&both(), &packet.bytes(), Offload::default());
    assert_eq!(outcome.verdict, Verdict::Forward);
    outcome.packet
}

#[test]
fn both_addresses_are_mapped() {
    for (protocol, l4) in [(6, tcp(b"x")), (17, udp(b"x")), (58, echo(128, b"x"))] {
        let mut sent = packet6(A6, B_SEEN, protocol, l4.clone());
        (sent.class, sent.flow) = (0xb8, 0x12345);
        let mut expected = packet6(A_SEEN, B6, protocol, l4);
        (expected.class, expected.hop_limit) = (0xb8, 63);
        assert_eq!(forward(&sent), expected.bytes(), "protocol {protocol}");
    }
}

#[test]
fn a_fragment_stays_a_fragment() {
    let sent = V6::new(
        A6,
        B_SEEN,
        44,
        [fragment_header(17, 185, false, 0x1234_5678), pattern(20)].concat(),
    );
    let mut expected = V6::new(
        A_SEEN,
        B6,
        44,
        [fragment_header(17, 185, false, 0x5678), pattern(20)].concat(),
    );
    expected.hop_limit = 63;
    assert_eq!(forward(&sent), expected.bytes());
}

#[test]
fn an_error_is_mapped_inside_and_outside() {
    // B refuses a packet of A, which came from A_SEEN.
    let quote = packet6(A_SEEN, B6, 17, udp(b"x")).bytes();
    let sent = error6(B6, A_SEEN, 1, 4, [0; 4], &quote);
    let quote = packet6(A6, B_SEEN, 17, udp(b"x")).bytes();
    let mut expected = error6(B_SEEN, A6, 1, 4, [0; 4], &quote);
    expected.hop_limit = 63;
    assert_eq!(forward(&sent), expected.bytes());
}

#[test]
fn an_error_of_a_router_in_between() {
    let quote = packet6(A_SEEN, B6, 17, udp(b"x")).bytes();
    let sent = error6(
        "2001:db8:ffff::9",
        A_SEEN,
        2,
        0,
        1400u32.to_be_bytes(),
        &quote,
    );
    let quote = packet6(A6, B_SEEN, 17, udp(b"x")).bytes();
    let mut expected = error6(
        "2001:db8:64::192.0.0.8",
        A6,
        2,
        0,
        1400u32.to_be_bytes(),
        &quote,
    );
    expected.hop_limit = 63;
    assert_eq!(forward(&sent), expected.bytes());
}

#[test]
fn a_node_that_is_not_behind_us_is_not_turned_to() {
    let outcome = run(
        &both(),
        &packet6(A6, "2001:db8:64::198.51.100.2", 17, udp(b"x")).bytes(),
        Offload::default(),
    );
    assert_eq!(outcome.packet[0] >> 4, 4);
}
