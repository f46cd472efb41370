// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Originated ICMP errors: RFC 7915 sections 4.4 and 5.4, RFC 1812 section 4.3.2, RFC 4443 section 2.4.

use crate::common::*;
use diolkos_xlat::{Offload, Outbox, Packet, Reason, Translator, Verdict, HEADROOM};
use std::time::Duration;

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";

/// The single error that answers a refused packet.
fn answer(t: &Translator, packet: &[u8], reason: Reason) -> Vec<u8> {
    let outcome = run(t, packet, Offload::default());
    assert_eq!(outcome.verdict, Verdict::Drop(reason));
    assert_eq!(outcome.sent.len(), 1);
    outcome.sent.into_iter().next().unwrap().0
}

fn silent(packet: &[u8]) {
    let outcome = run(&translator(|_| ()), packet, Offload::default());
    assert!(matches!(outcome.verdict, Verdict::Drop(_)));
    assert_eq!(outcome.sent, []);
}

fn expected4(icmp_type: u8, code: u8, rest: [u8; 4], about: &[u8]) -> Vec<u8> {
    let mut error = error4(
        "192.0.0.8",
        A4,
        icmp_type,
        code,
        rest,
        &about[..about.len().min(548)],
    );
    (error.tos, error.flags_and_offset, error.id) = (0xc0, 0, 0x1001);
    error.bytes()
}

fn expected6(icmp_type: u8, code: u8, rest: [u8; 4], about: &[u8]) -> Vec<u8> {
    error6(
        "2001:db8:64::192.0.0.8",
        A6,
        icmp_type,
        code,
        rest,
        &about[..about.len().min(1232)],
    )
    .bytes()
}

#[test]
fn time_exceeded() {
    let mut four = packet4(A4, B4, 17, udp(b"x"));
    four.ttl = 1;
    let four = four.bytes();
    assert_eq!(
        answer(&translator(|_| ()), &four, Reason::HopLimit),
        expected4(11, 0, [0; 4], &four)
    );
    let mut six = packet6(A6, B6, 58, echo(128, b"x"));
    six.hop_limit = 1;
    let six = six.bytes();
    assert_eq!(
        answer(&translator(|_| ()), &six, Reason::HopLimit),
        expected6(3, 0, [0; 4], &six)
    );
}

#[test]
fn too_big() {
    let four = packet4(A4, B4, 17, udp(&pattern(1453))).bytes();
    assert_eq!(
        answer(&translator(|_| ()), &four, Reason::TooBig),
        expected4(3, 4, [0, 0, 0x05, 0xc8], &four)
    );
    let six = packet6(A6, B6, 17, udp(&pattern(1473))).bytes();
    let t = translator(|c| c.mtu6 = 9000);
    assert_eq!(
        answer(&t, &six, Reason::TooBig),
        expected6(2, 0, 1520u32.to_be_bytes(), &six)
    );
    // A fragment with DF gets a Fragment header.
    let mut fragment = V4::new(A4, B4, 17, pattern(1456));
    fragment.flags_and_offset = DF | MF;
    let fragment = fragment.bytes();
    assert_eq!(
        answer(&translator(|_| ()), &fragment, Reason::TooBig),
        expected4(3, 4, [0, 0, 0x05, 0xc0], &fragment)
    );
}

#[test]
fn source_routes() {
    let mut four = packet4(A4, B4, 17, udp(b"x"));
    four.options = vec![131, 7, 4, 192, 0, 2, 9, 0];
    let four = four.bytes();
    assert_eq!(
        answer(&translator(|_| ()), &four, Reason::SourceRoute),
        expected4(3, 5, [0; 4], &four)
    );
    let routing = [
        vec![17, 0, 0, 3, 0, 0, 0, 0],
        packet6(A6, B6, 17, udp(b"x")).payload,
    ]
    .concat();
    let six = V6::new(A6, B6, 43, routing).bytes();
    assert_eq!(
        answer(&translator(|_| ()), &six, Reason::RoutingSegmentsLeft),
        expected6(4, 0, [0, 0, 0, 43], &six)
    );
}

#[test]
fn no_mapping() {
    let six = packet6(A6, "2001:db8::1", 17, udp(b"x")).bytes();
    assert_eq!(
        answer(&translator(|_| ()), &six, Reason::DestinationUnmapped),
        expected6(1, 1, [0; 4], &six)
    );
    let only_eam = translator(|c| {
        c.pref64.clear();
        c.eam = vec![diolkos_xlat::Eam {
            v4: "192.0.2.0/24".parse().unwrap(),
            v6: "2001:db8::/120".parse().unwrap(),
        }];
    });
    let four = packet4(A4, B4, 17, udp(b"x")).bytes();
    assert_eq!(
        answer(&only_eam, &four, Reason::DestinationUnmapped),
        expected4(3, 13, [0; 4], &four)
    );
}

/// RFC 1812 section 5.2.7.1 and RFC 4443 section 3.1: a router's answer for an address without a route. A mapping takes
/// precedence over the routes, and so does hairpinning (RFC 7757 section 4.2).
#[test]
fn what_would_come_back() {
    let t = translator(|c| {
        c.loops4 = vec!["198.51.100.0/24".parse().unwrap()];
        c.eam = vec![diolkos_xlat::Eam {
            v4: "198.51.100.9/32".parse().unwrap(),
            v6: "2001:db8:6::9/128".parse().unwrap(),
        }];
    });
    let four = packet4(A4, B4, 17, udp(b"x")).bytes();
    assert_eq!(
        answer(&t, &four, Reason::DestinationLoops),
        expected4(3, 1, [0; 4], &four)
    );
    let six = packet6(A6, B6, 17, udp(b"x")).bytes();
    assert_eq!(
        answer(&t, &six, Reason::DestinationLoops),
        expected6(1, 3, [0; 4], &six)
    );
    for mapped in [
        packet4(A4, "198.51.100.9", 17, udp(b"x")).bytes(),
        packet6(A6, "2001:db8:64::198.51.100.9", 17, udp(b"x")).bytes(),
        packet4(A4, "198.51.101.0", 17, udp(b"x")).bytes(),
    ] {
        let outcome = run(&t, &mapped, Offload::default());
        assert_eq!(outcome.verdict, Verdict::Forward);
    }
    // An error is never answered by an error.
    let quoted = packet4(B4, A4, 17, udp(b"x")).bytes();
    let error = error4(A4, B4, 3, 1, [0; 4], &quoted).bytes();
    let outcome = run(&t, &error, Offload::default());
    assert!(matches!(outcome.verdict, Verdict::Drop(_)));
    assert_eq!(outcome.sent, []);
}

#[test]
fn udp_without_checksum() {
    let four = V4::new(A4, B4, 17, udp(b"x")).bytes();
    assert_eq!(
        answer(&translator(|_| ()), &four, Reason::UdpZeroChecksum),
        expected4(3, 13, [0; 4], &four)
    );
}

#[test]
fn a_fragmented_echo() {
    let mut four = packet4(A4, B4, 1, echo(8, &pattern(24)));
    four.flags_and_offset = MF;
    let four = four.bytes();
    assert_eq!(
        answer(&translator(|_| ()), &four, Reason::FragmentIcmp),
        expected4(3, 13, [0; 4], &four)
    );
}

#[test]
fn configured_sources() {
    let t = translator(|c| {
        c.icmp.address4 = Some(v4("203.0.113.1"));
        c.icmp.address6 = Some(v6("2001:db8::1"));
    });
    let mut four = packet4(A4, B4, 17, udp(b"x"));
    four.ttl = 1;
    assert_eq!(
        answer(&t, &four.bytes(), Reason::HopLimit)[12..16],
        [203, 0, 113, 1]
    );
    let mut six = packet6(A6, B6, 17, udp(b"x"));
    six.hop_limit = 1;
    assert_eq!(
        answer(&t, &six.bytes(), Reason::HopLimit)[8..24],
        v6("2001:db8::1").octets()
    );
}

#[test]
fn without_an_address_for_it_there_is_no_icmpv6_error() {
    // 192.0.0.8 is not global, so the well-known prefix must not represent it.
    let t = translator(|c| c.pref64 = vec!["64:ff9b::/96".parse().unwrap()]);
    let mut six = packet6("64:ff9b::8.8.8.8", "64:ff9b::9.9.9.9", 17, udp(b"x"));
    six.hop_limit = 1;
    let outcome = run(&t, &six.bytes(), Offload::default());
    assert_eq!(
        (outcome.verdict, outcome.sent.len()),
        (Verdict::Drop(Reason::HopLimit), 0)
    );
}

#[test]
fn what_must_not_be_answered() {
    let expire4 = |mut packet: V4| {
        packet.ttl = 1;
        packet.bytes()
    };
    let expire6 = |mut packet: V6| {
        packet.hop_limit = 1;
        packet.bytes()
    };
    let quote = packet4(B4, A4, 17, udp(b"x")).bytes();
    silent(&expire4(error4(A4, B4, 3, 1, [0; 4], &quote)));
    silent(&expire4(packet4(A4, B4, 1, echo(5, &quote))));
    silent(&expire4(packet4(A4, "224.0.0.5", 17, udp(b"x"))));
    silent(&expire4(packet4("0.0.0.0", B4, 17, udp(b"x"))));
    silent(&expire4(V4 {
        flags_and_offset: 5,
        ..V4::new(A4, B4, 17, pattern(16))
    }));
    let quote = packet6(B6, A6, 17, udp(b"x")).bytes();
    silent(&expire6(error6(A6, B6, 1, 0, [0; 4], &quote)));
    silent(&expire6(packet6(A6, B6, 58, echo(137, &quote))));
    silent(&expire6(packet6(A6, "ff0e::1", 17, udp(b"x"))));
    silent(&expire6(packet6("::1", B6, 17, udp(b"x"))));
    let error = error6(A6, B6, 1, 0, [0; 4], &quote).payload;
    silent(&expire6(V6::new(
        A6,
        B6,
        60,
        [vec![58, 0, 0, 0, 0, 0, 0, 0], error].concat(),
    )));
}

#[test]
fn errors_are_limited() {
    let t = translator(|c| (c.icmp.rate, c.icmp.burst) = (10, 2));
    let mut world = World::new();
    let mut six = packet6(A6, B6, 17, udp(b"x"));
    six.hop_limit = 1;
    let mut errors = |now: u64| {
        world.now = Duration::from_millis(now);
        run_in(&mut world, &t, &six.bytes(), Offload::default())
            .sent
            .len()
    };
    assert_eq!([0, 0, 0, 99, 100, 100].map(&mut errors), [1, 1, 0, 0, 1, 0]);
}

/// The outbox receives refused packets as they arrived.
#[test]
fn the_outbox_is_told() {
    #[derive(Default)]
    struct Told(Vec<(Reason, Vec<u8>)>);
    impl Outbox for Told {
        fn emit(&mut self, _packet: &[u8], _offload: Offload) {}
        fn refused(&mut self, reason: Reason, packet: &[u8]) {
            self.0.push((reason, packet.to_vec()));
        }
    }
    let fine = packet4(A4, B4, 17, udp(b"data")).bytes();
    let mut without_checksum = fine.clone();
    without_checksum[26..28].fill(0);
    let foreign = packet6("2001:db8:ffff::1", B6, 17, udp(b"data")).bytes();

    let mut told = Told::default();
    for bytes in [&fine, &without_checksum, &foreign] {
        let mut buffer = [&[0; HEADROOM][..], bytes].concat();
        let end = buffer.len();
        let mut packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
        translator(|_| ()).translate(&mut packet, &mut World::new().clock(), &mut told);
    }
    let expected = [
        (Reason::UdpZeroChecksum, without_checksum),
        (Reason::SourceUnmapped, foreign),
    ];
    assert_eq!(told.0, expected);
}

/// RFC 1812 section 5.2.7.1: without a route, type 3 code 0; RFC 4443 section 3.1: type 1 code 0.
#[test]
fn what_cannot_be_sent_is_answered_network_unreachable() {
    #[derive(Default)]
    struct Sent(Vec<Vec<u8>>, Vec<Reason>);
    impl Outbox for Sent {
        fn emit(&mut self, packet: &[u8], _offload: Offload) {
            self.0.push(packet.to_vec());
        }
        fn refused(&mut self, reason: Reason, _packet: &[u8]) {
            self.1.push(reason);
        }
    }
    let four = packet4(A4, B4, 17, udp(b"data")).bytes();
    let six = packet6(A6, B6, 17, udp(b"data")).bytes();
    let about_error = error4(A4, B4, 3, 1, [0; 4], &four).bytes();
    let mut sent = Sent::default();
    for bytes in [&four, &six, &about_error] {
        let mut buffer = [&[0; HEADROOM][..], bytes].concat();
        let end = buffer.len();
        let packet = Packet::new(&mut buffer, HEADROOM, end, Offload::default());
        let mut world = World::new();
        let verdict = translator(|_| ()).refuse_unroutable(&packet, &mut world.clock(), &mut sent);
        assert_eq!(verdict, Verdict::Drop(Reason::NoRoute));
    }
    let expected = [
        expected4(3, 0, [0; 4], &four),
        expected6(1, 0, [0; 4], &six),
    ];
    assert_eq!(sent.0, expected);
    assert_eq!(sent.1, [Reason::NoRoute; 3]);
}
