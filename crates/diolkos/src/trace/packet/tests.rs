// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets in words: what is read, what is refused, and the bytes they become.

use super::*;

const PLAIN: Details = Details {
    length: None,
    dont_fragment: false,
    hop_limit: 64,
};

#[test]
fn what_is_written_is_read_again() {
    for text in [
        "udp 2001:db8::5 4711 > 64:ff9b::c633:6401 53",
        "tcp syn 192.0.2.1 80 > 192.0.2.2 1024",
        "tcp syn,ack 192.0.2.1 80 > 192.0.2.2 1024",
        "icmp echo 7 192.0.2.1 > 192.0.2.2",
        "icmp reply 7 2001:db8::5 > 64:ff9b::c633:6401",
        "protocol 132 192.0.2.1 > 192.0.2.2",
    ] {
        let words: Words = text.parse().expect(text);
        assert_eq!(words.to_string(), text);
    }
    let short: Words = "tcp 192.0.2.1 80 > 192.0.2.2 1024"
        .parse()
        .expect("it is one");
    assert_eq!(short.to_string(), "tcp syn 192.0.2.1 80 > 192.0.2.2 1024");
}

#[test]
fn an_error_names_what_is_wrong() {
    for (text, what) in [
        ("", "the protocol is missing"),
        ("sctp 192.0.2.1 > 192.0.2.2", "`sctp` is no protocol"),
        ("udp 192.0.2.1 > 192.0.2.2", "`>` is no port"),
        ("udp 192.0.2.1 80", "`>` is missing"),
        (
            "udp 192.0.2.1 80 192.0.2.2 80",
            "`192.0.2.2` stands where `>`",
        ),
        ("udp 192.0.2.1 80 > 192.0.2.2", "the port is missing"),
        ("udp 192.0.2.1 80 > 192.0.2.2 65536", "`65536` is no port"),
        ("udp 192.0.2.1 80 > 2001:db8::1 80", "different families"),
        ("udp 192.0.2.1 80 > 192.0.2.2 80 x", "`x` is too much"),
        ("tcp sin 192.0.2.1 80 > 192.0.2.2 80", "`sin` is neither"),
        ("icmp ping 1 192.0.2.1 > 192.0.2.2", "`ping` is neither"),
        ("protocol 256 192.0.2.1 > 192.0.2.2", "`256` is no protocol"),
    ] {
        let why = text.parse::<Words>().expect_err(text);
        assert!(why.contains(what), "{text}: {why}");
    }
}

/// RFC 768: by hand. 192.0.2.1:80 to 192.0.2.2:80, without data.
#[test]
fn bytes_are_those_of_the_rfcs() {
    let words = "udp 192.0.2.1 80 > 192.0.2.2 80"
        .parse()
        .expect("it is one");
    let bytes = Imagined {
        words,
        details: PLAIN,
    }
    .bytes()
    .expect("it has room");
    // 0xc000 + 0x0201 + 0xc000 + 0x0202 + 17 + 8, then 0x50 + 0x50 + 8: 0x184c4, folded 0x84c5.
    assert_eq!(bytes[20..], [0, 80, 0, 80, 0, 8, 0x7b, 0x3a]);
    assert_eq!(bytes[..4], [0x45, 0, 0, 28]);
    let details = Details {
        length: Some(20),
        ..PLAIN
    };
    let why = Imagined { words, details }
        .bytes()
        .expect_err("it is too short");
    assert!(why.contains("has at least 28"), "{why}");
}
