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
        "udp 192.0.2.1 80 > 192.0.2.2 80 fragment offset 1480 id 77 more",
        "icmp echo 7 2001:db8::5 > 2001:db8::6 fragment offset 0 id 4294967295",
        "icmp 198.51.100.1 > 192.0.2.1 unreachable fragmentation-needed mtu 1400 quoting 'udp 192.0.2.1 40000 > 203.0.113.5 53 length 1500'",
        "icmp 198.51.100.1 > 192.0.2.1 unreachable 19 quoting 'icmp echo 7 192.0.2.1 > 203.0.113.5 fragment offset 8 id 1'",
        "icmp 198.51.100.1 > 192.0.2.1 parameter-problem erroneous-field pointer 8 quoting 'tcp ack 192.0.2.1 40000 > 203.0.113.5 53'",
        "icmp 198.51.100.1 > 192.0.2.1 time-exceeded transit fragment offset 0 id 5 more quoting 'protocol 132 192.0.2.1 > 203.0.113.5'",
        "icmp 2001:db8::1 > 2001:db8::2 too-big mtu 1280 quoting 'tcp syn 2001:db8::2 80 > 2001:db8::3 1024'",
        "icmp 2001:db8::1 > 2001:db8::2 unreachable no-route quoting 'tcp syn 2001:db8::2 80 > 2001:db8::3 1024'",
    ] {
        let words: Words = text.parse().expect(text);
        assert_eq!(words.to_string(), text);
    }
    let short: Words = "tcp 192.0.2.1 80 > 192.0.2.2 1024"
        .parse()
        .expect("it is one");
    assert_eq!(short.to_string(), "tcp syn 192.0.2.1 80 > 192.0.2.2 1024");
    // Without quotation marks, as words of their own and without the codes that go without saying.
    let bare: Words =
        "icmp 192.0.2.1 > 192.0.2.2 time-exceeded quoting udp 192.0.2.2 1 > 192.0.2.3 2"
            .parse()
            .expect("it is one");
    let marked =
        "icmp 192.0.2.1 > 192.0.2.2 time-exceeded transit quoting 'udp 192.0.2.2 1 > 192.0.2.3 2'";
    assert_eq!(bare.to_string(), marked);
    assert_eq!(Ok(bare), marked.replace('\'', "\"").parse());
}

/// The forms of `show sessions`, and separators that no shell takes for something else.
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
        ("protocol 256 192.0.2.1 > 192.0.2.2", "`256` is no protocol"),
        (
            "udp 192.0.2.1 80 > 192.0.2.2 80 length 99",
            "`length` belongs to a quoted packet",
        ),
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

#[test]
fn an_error_names_what_is_wrong_with_a_fragment() {
    for (words, what) in [
        ("", "`offset` is missing"),
        ("offset 8", "`id` is missing"),
        ("id 7 more", "`offset` is missing"),
        ("offset 12 id 7", "`12` is no offset of a fragment"),
        ("offset 65536 id 7", "`65536` is no offset of a fragment"),
        ("offset 8 id 65536", "`65536` is no identification"),
        ("offset 8 last", "`last` stands where `id` should be"),
        ("offset 8 id 7 last", "`last` is too much"),
        ("offset 0 id 7", "`offset 0` without `more`"),
    ] {
        let text = format!("udp 192.0.2.1 80 > 192.0.2.2 80 fragment {words}");
        let why = text.parse::<Words>().expect_err(&text);
        assert!(why.contains(what), "{text}: {why}");
    }
}

#[test]
fn an_error_names_what_is_wrong_with_an_icmp_error() {
    let quoted = "quoting 'udp 192.0.2.2 80 > 192.0.2.3 80'";
    for (words, what) in [
        (String::new(), "what the error says is missing"),
        (
            format!("too-big mtu 1280 {quoted}"),
            "`too-big` is no error of ICMP",
        ),
        (
            format!("unreachable {quoted}"),
            "`quoting` is no code of `unreachable`",
        ),
        (
            format!("unreachable address {quoted}"),
            "`address` is no code of `unreachable`",
        ),
        (
            format!("unreachable fragmentation-needed {quoted}"),
            "`quoting` stands where `mtu`",
        ),
        (
            format!("unreachable fragmentation-needed mtu 65536 {quoted}"),
            "`65536` is no MTU",
        ),
        (
            format!("parameter-problem pointer 256 {quoted}"),
            "`256` is no pointer",
        ),
        ("unreachable port".to_owned(), "`quoting` is missing"),
        (
            format!("unreachable port about {quoted}"),
            "`about` stands where `quoting`",
        ),
        (
            "unreachable port quoting".to_owned(),
            "the protocol is missing",
        ),
        (
            format!("unreachable port {quoted}").replace("80'", "80"),
            "no ' at its end",
        ),
        (format!("unreachable port {quoted} more"), "no ' at its end"),
        (
            format!("unreachable port {quoted}").replace("80'", "80 more'"),
            "`more` is too much",
        ),
        (
            "unreachable port quoting udp 2001:db8::1 80 > 2001:db8::2 80".to_owned(),
            "different families",
        ),
        (
            format!(
                "unreachable port quoting icmp 192.0.2.2 > 192.0.2.3 unreachable port {quoted}"
            ),
            "which no error quotes",
        ),
    ] {
        let text = format!("icmp 192.0.2.1 > 192.0.2.2 {words}");
        let why = text.parse::<Words>().expect_err(&text);
        assert!(why.contains(what), "{text}: {why}");
    }
}

fn bytes_of(text: &str, length: Option<u16>) -> Result<Vec<u8>, String> {
    let words = text.parse().expect(text);
    let details = Details { length, ..PLAIN };
    Imagined { words, details }.bytes()
}

/// RFC 791 section 3.1 and RFC 8200 section 4.5.
#[test]
fn fragments_have_their_place_and_only_the_first_has_ports() {
    let first = "udp 192.0.2.1 80 > 192.0.2.2 80 fragment offset 0 id 77 more";
    let first = bytes_of(first, Some(36)).expect("it has room");
    assert_eq!(first[..8], [0x45, 0, 0, 36, 0, 77, 0x20, 0]);
    assert_eq!(first[20..26], [0, 80, 0, 80, 0, 24]);
    let later = "udp 192.0.2.1 80 > 192.0.2.2 80 fragment offset 1480 id 77";
    let later = bytes_of(later, None).expect("it has room");
    // 1480 / 8 = 185.
    assert_eq!(later[..8], [0x45, 0, 0, 28, 0, 77, 0, 185]);
    assert_eq!(later[20..], [0; 8]);

    let later = "tcp 2001:db8::1 80 > 2001:db8::2 80 fragment offset 16 id 65536 more";
    let later = bytes_of(later, None).expect("it has room");
    assert_eq!(later[4..8], [0, 16, 44, 64]);
    assert_eq!(later[40..48], [6, 0, 0, 17, 0, 1, 0, 0]);
    assert_eq!(later.len(), 56);
    // The 20 bytes of a header of TCP, and what makes them a multiple of 8.
    let first = "tcp 2001:db8::1 80 > 2001:db8::2 80 fragment offset 0 id 1 more";
    assert_eq!(bytes_of(first, None).expect("it has room").len(), 72);
}

/// RFC 1191 section 4, RFC 792 and RFC 4443 section 3: the second word of the header.
#[test]
fn errors_have_their_field_and_their_quote() {
    let quoted = "udp 192.0.2.2 80 > 192.0.2.3 80 length 1500";
    let too_big = format!(
        "icmp 192.0.2.1 > 192.0.2.2 unreachable fragmentation-needed mtu 1400 quoting '{quoted}'"
    );
    let bytes = bytes_of(&too_big, None).expect("it has room");
    assert_eq!(bytes.len(), 576, "RFC 1812 section 4.3.2.3");
    assert_eq!(bytes[20..22], [3, 4]);
    assert_eq!(bytes[24..28], [0, 0, 0x05, 0x78]);
    // The quoted packet, which says its own length and that nobody may cut it.
    assert_eq!(bytes[28..36], [0x45, 0, 0x05, 0xdc, 0, 0, 0x40, 0]);
    assert_eq!(bytes[48..54], [0, 80, 0, 80, 0x05, 0xc8]);

    // A header and 8 bytes (RFC 792), as long as the sentence says, and not longer than what there is.
    assert_eq!(bytes_of(&too_big, Some(56)).expect("it has room").len(), 56);
    assert!(bytes_of(&too_big, Some(27))
        .expect_err("too short")
        .contains("at least 28"));
    assert!(bytes_of(&too_big, Some(1529))
        .expect_err("too long")
        .contains("ends after 1528"));

    // The quoted header sums up to nothing. The datagram sums up to what its pseudo-header lacks: c000 + 0202 + c000 + 0203 +
    // 11 + 8 is 1841e, folded 841f, complemented 7be0. With 0c00 and 0900 that is 90e0, complemented 6f1f.
    let problem = "icmp 192.0.2.1 > 192.0.2.2 parameter-problem pointer 9 quoting 'udp 192.0.2.2 80 > 192.0.2.3 80'";
    assert_eq!(
        bytes_of(problem, None).expect("it has room")[20..28],
        [12, 0, 0x6f, 0x1f, 9, 0, 0, 0]
    );

    let too_big = "icmp 2001:db8::1 > 2001:db8::2 too-big mtu 1400 quoting 'tcp ack 2001:db8::2 80 > 2001:db8::3 80 length 1500'";
    let bytes = bytes_of(too_big, None).expect("it has room");
    assert_eq!(bytes.len(), 1280, "RFC 4443 section 2.4(c)");
    assert_eq!(bytes[40..42], [2, 0]);
    assert_eq!(bytes[44..48], 1400u32.to_be_bytes());
    // The payload of 1460 bytes.
    assert_eq!(bytes[52..54], [0x05, 0xb4]);
}
