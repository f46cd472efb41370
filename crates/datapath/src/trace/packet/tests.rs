// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets in words: what is accepted, what is refused, and the bytes that result.

use super::*;

const PLAIN: Details = Details {
    length: None,
    dont_fragment: false,
    hop_limit: 64,
    mss: None,
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

/// The forms of `show sessions`, and separators that no shell interprets.
#[test]
fn endpoints_are_read_as_they_are_shown() {
    let is_read_as = |text: &str, plain: &str| {
        let words: Words = text.parse().expect(text);
        assert_eq!(words.to_string(), plain, "{text}");
    };
    let udp6 = "udp 2001:db8::5 4711 > 64:ff9b::c633:6401 53";
    for text in [
        "udp [2001:db8::5]:4711 to [64:ff9b::c633:6401]:53",
        "udp [2001:db8::5]:4711 [64:ff9b::c633:6401]:53",
        "udp [2001:db8::5]:4711 > 64:ff9b::c633:6401 53",
        "udp 2001:db8::5 4711 64:ff9b::c633:6401 53",
    ] {
        is_read_as(text, udp6);
    }
    let tcp4 = "tcp syn,ack 198.51.100.1 443 > 192.0.2.1 40000";
    is_read_as("tcp syn,ack 198.51.100.1:443 to 192.0.2.1:40000", tcp4);
    let echo = "icmp echo 7 198.51.100.1 > 192.0.2.1";
    is_read_as("icmp 198.51.100.1:7 192.0.2.1", echo);
    is_read_as("icmp echo 7 198.51.100.1 to 192.0.2.1", echo);
}

#[test]
fn a_session_as_it_is_shown_is_a_packet_of_its_node() {
    let pref64 = || "64:ff9b::/96".parse().ok();
    let tcp = "tcp syn 2001:db8::5 4711 > 64:ff9b::c633:6401 443";
    let echo = "icmp echo 7 2001:db8::5 > 64:ff9b::c633:6401";
    for (line, packet) in [
        (
            "tcp  [2001:db8::5]:4711  192.0.2.1:1024  198.51.100.1:443  v6-init  240",
            tcp,
        ),
        ("tcp [2001:db8::5]:4711 198.51.100.1:443", tcp),
        (
            "icmp  [2001:db8::5]:7  192.0.2.1:1024  198.51.100.1:0  icmp  60",
            echo,
        ),
    ] {
        let words = Words::read(line, &pref64).expect(line);
        assert_eq!(words.to_string(), packet);
        let unknown = line.parse::<Words>().expect_err("no prefix is known");
        assert!(unknown.contains("different families"), "{unknown}");
    }
}

#[test]
fn an_error_names_what_is_wrong() {
    for (text, what) in [
        ("", "the protocol is missing"),
        ("sctp 192.0.2.1 > 192.0.2.2", "`sctp` is no protocol"),
        ("udp 192.0.2.1 > 192.0.2.2", "`>` is no port"),
        ("udp 192.0.2.1 80", "the destination is missing"),
        (
            "udp 192.0.2.1 80 and 192.0.2.2 80",
            "`and` stands where the destination",
        ),
        (
            "icmp echo 7 192.0.2.1 to 192.0.2.2:80",
            "`192.0.2.2:80` has the port 80, and this packet has none: write `192.0.2.2`",
        ),
        ("udp 192.0.2.1 80 > 192.0.2.2", "the port is missing"),
        ("udp 192.0.2.1 80 > 192.0.2.2 65536", "`65536` is no port"),
        ("udp 192.0.2.1 80 > 2001:db8::1 80", "different families"),
        ("udp 192.0.2.1 80 > 192.0.2.2 80 x", "`x` is too much"),
        ("tcp sin 192.0.2.1 80 > 192.0.2.2 80", "`sin` is neither"),
        ("icmp ping 1 192.0.2.1 > 192.0.2.2", "`ping` is neither"),
        (
            "icmp 192.0.2.1 > 192.0.2.2 unreachable port",
            "`192.0.2.1` is neither `echo` nor `reply`",
        ),
        (
            "udp 192.0.2.1 80 > 192.0.2.2 80 fragment offset 8 id 7",
            "`fragment` is too much",
        ),
        ("protocol 256 192.0.2.1 > 192.0.2.2", "`256` is no protocol"),
        ("udp 192.0.2.1 80 > 192.0.2.2 80 length 99", "with --length"),
    ] {
        let why = text.parse::<Words>().expect_err(text);
        assert!(why.contains(what), "{text}: {why}");
    }
}

/// RFC 768, by hand: 192.0.2.1:80 to 192.0.2.2:80, without data.
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

/// RFC 9293 section 3.2: kind 2, length 4, the size.
#[test]
fn a_syn_may_announce_its_maximum_segment_size() {
    let imagine = |text: &str| Imagined {
        words: text.parse().expect(text),
        details: Details {
            mss: Some(1460),
            ..PLAIN
        },
    };
    let syn = imagine("tcp 192.0.2.1 80 > 192.0.2.2 1024").bytes();
    let syn = syn.expect("it is a packet");
    assert_eq!(syn.len(), 44);
    assert_eq!(syn[32..34], [0x60, 0x02]);
    assert_eq!(syn[40..], [2, 4, 0x05, 0xb4]);
    for other in [
        "tcp ack 192.0.2.1 80 > 192.0.2.2 1024",
        "udp 192.0.2.1 80 > 192.0.2.2 1024",
    ] {
        let refused = imagine(other).bytes();
        assert!(refused.is_err_and(|why| why.contains("only TCP with SYN")));
    }
}
