// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors and their quoted packets in the stateful translator (RFC 6146 section 3.4, RFC
//! 5508).

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use diolkos_nat64::config::{Filtering, Protocol};
use diolkos_xlat::{Reason, Verdict};

const ROUTER4: &str = "198.51.100.9";

/// Every kind of packet that can be quoted.
fn sent() -> Vec<V6> {
    vec![
        packet6(NODE, PEER6, 17, udp_of(5000, 53, b"some data")),
        packet6(NODE, PEER6, 6, tcp_of(5000, 80, SYN, &[])),
        packet6(NODE, PEER6, 58, echo_of(128, 77, b"some data")),
        V6::new(NODE, PEER6, 17, udp_of(5001, 53, b"no checksum")),
    ]
}

fn checksum_is_right(packet: &[u8]) -> bool {
    let mut pseudo = packet[8..40].to_vec();
    pseudo.extend(((packet.len() - 40) as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, 58]);
    ones_sum(&[&pseudo[..], &packet[40..]].concat()) == 0xffff
}

#[test]
fn an_error_from_outside_quotes_what_the_node_sent() {
    for sent in sent() {
        let mut w = Router::new(|_| {});
        let there = w.pass(&sent.bytes());
        let error = error4(ROUTER4, POOL, 11, 0, [0; 4], &there);
        let got = w.pass(&error.bytes());
        assert_eq!((got[40], got[41]), (3, 0));
        assert_eq!(got[8..24], v6("2001:db8:64::198.51.100.9").octets());
        assert_eq!(got[24..40], v6(NODE).octets());
        let mut quoted = sent.clone();
        quoted.hop_limit = 63;
        assert_eq!(got[48..], quoted.bytes());
        assert!(checksum_is_right(&got));
    }
}

#[test]
fn a_quote_may_be_as_short_as_eight_bytes() {
    for sent in sent() {
        let mut w = Router::new(|_| {});
        let there = w.pass(&sent.bytes());
        let got = w.pass(&error4(ROUTER4, POOL, 3, 1, [0; 4], &there[..28]).bytes());
        assert_eq!(got[88..90], sent.payload[..2]);
        assert_eq!(
            got[92..96],
            sent.payload[4..8],
            "checksum or sequence number"
        );
        let short = error4(ROUTER4, POOL, 3, 1, [0; 4], &there[..25]);
        assert_eq!(w.refuse(&short.bytes()).0, Reason::IcmpInnerTruncated);
    }
}

#[test]
fn path_mtu_discovery() {
    let mut w = Router::new(|_| {});
    let there = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, &pattern(1400))).bytes());
    let error = error4(ROUTER4, POOL, 3, 4, [0, 0, 5, 0x14], &there[..60]);
    let got = w.pass(&error.bytes());
    assert_eq!((got[40], got[41]), (2, 0));
    assert_eq!(got[44..48], 1320u32.to_be_bytes());
}

#[test]
fn an_error_about_what_was_never_sent() {
    let mut w = Router::new(|config| config.filtering = Filtering::AddressDependent);
    let there = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, b"x")).bytes());
    let mut other_port = there.clone();
    other_port[21] ^= 1;
    let mut other_peer = there.clone();
    other_peer[19] ^= 1;
    let mut other_protocol = there.clone();
    other_protocol[9] = 6;
    for quote in [other_port, other_peer, other_protocol] {
        let error = error4(ROUTER4, POOL, 3, 1, [0; 4], &quote);
        assert_eq!(w.refuse(&error.bytes()), (Reason::IcmpInnerUnmapped, None));
    }
    // Sent to another pool address than the one in the quote.
    let error = error4(ROUTER4, "203.0.113.2", 3, 1, [0; 4], &there);
    assert_eq!(w.refuse(&error.bytes()).0, Reason::IcmpInnerUnmapped);
    // A wrong checksum must not be corrected.
    let mut error = error4(ROUTER4, POOL, 3, 1, [0; 4], &there);
    error.l4[2] ^= 1;
    assert_eq!(w.refuse(&error.bytes()).0, Reason::IcmpChecksum);
    // An error within an error.
    let inner = error4(POOL, PEER, 3, 1, [0; 4], &there).bytes();
    let error = error4(ROUTER4, POOL, 3, 1, [0; 4], &inner);
    assert_eq!(w.refuse(&error.bytes()).0, Reason::IcmpInnerNested);
}

#[test]
fn an_error_keeps_no_session_alive_and_begins_none() {
    let mut w = Router::new(|_| {});
    let there = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, b"x")).bytes());
    w.wait(299.0);
    let error = error4(ROUTER4, POOL, 3, 1, [0; 4], &there).bytes();
    w.pass(&error);
    assert_eq!(w.nat64.state().counts().sessions, 1);
    w.wait(2.0);
    assert_eq!(w.nat64.state().counts(), Default::default());
    assert_eq!(w.refuse(&error).0, Reason::IcmpInnerUnmapped);
}

#[test]
fn an_error_from_inside_quotes_what_the_peer_sent() {
    let cases = [
        (
            17u8,
            udp_of(4000, 8080, b"some data"),
            udp_of(4000, 80, b"some data"),
        ),
        (6, tcp_of(4000, 8080, SYN, &[]), tcp_of(4000, 80, SYN, &[])),
    ];
    for (number, outside, inside) in cases {
        let protocol = if number == 6 {
            Protocol::Tcp
        } else {
            Protocol::Udp
        };
        let mut w = Router::new(|config| {
            config.bindings = vec![binding(protocol, "203.0.113.1:8080", e6(NODE, 80))];
        });
        let sent = packet4(PEER, POOL, number, outside);
        let arrived = w.pass(&sent.bytes());
        assert_eq!(arrived[40..], packet6(PEER6, NODE, number, inside).payload);
        for router in [NODE, "2001:db8:1::1"] {
            let error = error6(router, PEER6, 1, 4, [0; 4], &arrived);
            let got = w.pass(&error.bytes());
            assert_eq!(got[20..22], [3, 3]);
            assert_eq!(got[12..16], v4(POOL).octets(), "no other address is known");
            assert_eq!(got[16..20], v4(PEER).octets());
            assert_eq!(ones_sum(&got[20..]), 0xffff);
            let quote = &got[28..];
            assert_eq!(
                quote[12..20],
                [v4(PEER).octets(), v4(POOL).octets()].concat()
            );
            assert_eq!(quote[20..], sent.l4);
        }
    }
}

#[test]
fn routers_inside_have_addresses_of_their_own_if_a_pool_says_so() {
    let mut w = Router::new(|config| {
        config.bindings = vec![binding(Protocol::Udp, "203.0.113.1:8080", e6(NODE, 80))];
        config.translator.icmp.source_pool4 = vec!["198.51.100.64/32".parse().unwrap()];
    });
    let arrived = w.pass(&packet4(PEER, POOL, 17, udp_of(4000, 8080, b"x")).bytes());
    let from = |router| error6(router, PEER6, 3, 0, [0; 4], &arrived).bytes();
    assert_eq!(w.pass(&from("2001:db8:1::1"))[12..16], [198, 51, 100, 64]);
    assert_eq!(w.pass(&from(NODE))[12..16], v4(POOL).octets());
}

#[test]
fn an_error_from_inside_about_what_never_came() {
    let mut w = Router::new(|_| {});
    let quote = packet6(PEER6, NODE, 17, udp_of(53, 5000, b"x")).bytes();
    let error = error6("2001:db8:1::1", PEER6, 1, 4, [0; 4], &quote);
    assert_eq!(w.refuse(&error.bytes()), (Reason::IcmpInnerUnmapped, None));
    w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, b"x")).bytes());
    w.pass(&error.bytes());
    let elsewhere = error6(
        "2001:db8:1::1",
        "2001:db8:64::1.2.3.4",
        1,
        4,
        [0; 4],
        &quote,
    );
    assert_eq!(w.refuse(&elsewhere.bytes()).0, Reason::IcmpInnerUnmapped);
}

#[test]
fn a_router_without_a_place_in_ipv6_is_stood_in_for() {
    let mut w = Router::new(|_| {});
    let there = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, b"x")).bytes());
    let got = w.pass(&error4("127.0.0.1", POOL, 11, 0, [0; 4], &there).bytes());
    assert_eq!(got[8..24], v6("2001:db8:64::203.0.113.1").octets());
}

/// No message causes a panic, and every forwarded message is well-formed.
#[test]
fn mangled_errors_do_no_harm() {
    let mut random = random();
    for sent in sent() {
        let mut w = Router::new(|_| {});
        let there = w.pass(&sent.bytes());
        let error = error4(ROUTER4, POOL, 3, 1, [0; 4], &there);
        for _ in 0..20_000 {
            let mut mangled = error.clone();
            for _ in 0..1 + random() % 3 {
                let at = random() as usize % mangled.l4.len();
                mangled.l4[at] = random() as u8;
            }
            let len = 8 + random() as usize % (mangled.l4.len() - 7);
            mangled.l4.truncate(len);
            if !random().is_multiple_of(4) {
                mangled.l4 = with_checksum(mangled.l4, 2, &[]);
            }
            let (verdict, sent) = w.give(&mangled.bytes());
            if verdict == Verdict::Forward {
                assert!(checksum_is_right(&sent[0]));
            }
        }
        assert_eq!(w.nat64.state().counts().sessions, 1);
    }
}
