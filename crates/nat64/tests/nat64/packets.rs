// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole packets in the stateful translator. The stateless translator makes their headers and has
//! its own tests; these are about addresses, ports, checksums, refusals and errors.

use crate::common::*;
use crate::harness::*;
use diolkos_nat64::config::{Filtering, Protocol};
use diolkos_xlat::{Checksum, Gso, GsoKind, Offload, Reason, UdpZeroChecksum, Verdict};

pub const NODE: &str = "2001:db8:1::10";
pub const PEER: &str = "192.0.2.33";
pub const PEER6: &str = "2001:db8:64::192.0.2.33";
pub const POOL: &str = "203.0.113.1";

/// A UDP datagram without its checksum.
pub fn udp_of(src: u16, dst: u16, data: &[u8]) -> Vec<u8> {
    let mut l4 = udp(data);
    l4[..2].copy_from_slice(&src.to_be_bytes());
    l4[2..4].copy_from_slice(&dst.to_be_bytes());
    l4
}

/// A TCP segment without its checksum.
pub fn tcp_of(src: u16, dst: u16, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut l4 = tcp(data);
    l4[..2].copy_from_slice(&src.to_be_bytes());
    l4[2..4].copy_from_slice(&dst.to_be_bytes());
    l4[13] = flags;
    l4
}

pub fn echo_of(icmp_type: u8, id: u16, data: &[u8]) -> Vec<u8> {
    let mut l4 = echo(icmp_type, data);
    l4[4..6].copy_from_slice(&id.to_be_bytes());
    l4
}

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;

fn port(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// The source address, source port and destination port of a sent IPv4 packet.
pub fn ends4(packet: &[u8]) -> (std::net::Ipv4Addr, u16, u16) {
    assert_eq!(packet[0], 0x45);
    let src = [packet[12], packet[13], packet[14], packet[15]];
    (src.into(), port(packet, 20), port(packet, 22))
}

#[test]
fn udp_there_and_back() {
    for len in [0, 1, 7, 100] {
        let mut w = Router::new(|_| {});
        let there = packet6(NODE, PEER6, 17, udp_of(5000, 53, &pattern(len)));
        let got = w.pass(&there.bytes());
        let (src, src_port, dst_port) = ends4(&got);
        assert_eq!((src, dst_port), (v4(POOL), 53));
        assert_ne!(src_port, 5000);
        let mut expected = packet4(POOL, PEER, 17, udp_of(src_port, 53, &pattern(len)));
        (expected.ttl, expected.id, expected.flags_and_offset) = (63, 1, 0);
        assert_eq!(got, expected.bytes());

        let back = packet4(PEER, POOL, 17, udp_of(53, src_port, &pattern(len)));
        let got = w.pass(&back.bytes());
        let mut expected = packet6(PEER6, NODE, 17, udp_of(53, 5000, &pattern(len)));
        expected.hop_limit = 63;
        assert_eq!(got, expected.bytes());
    }
}

#[test]
fn a_tcp_connection() {
    let mut w = Router::new(|_| {});
    let there = |flags| packet6(NODE, PEER6, 6, tcp_of(5000, 80, flags, &[])).bytes();
    let got = w.pass(&there(SYN));
    let (src, src_port, dst_port) = ends4(&got);
    assert_eq!((src, dst_port), (v4(POOL), 80));
    let expected = packet4(POOL, PEER, 6, tcp_of(src_port, 80, SYN, &[]));
    assert_eq!(got[20..], expected.l4);
    let back = packet4(PEER, POOL, 6, tcp_of(80, src_port, SYN | ACK, &[]));
    let got = w.pass(&back.bytes());
    let expected = packet6(PEER6, NODE, 6, tcp_of(80, 5000, SYN | ACK, &[]));
    assert_eq!(got[40..], expected.payload);
    assert_eq!(w.pass(&there(ACK))[20..22], src_port.to_be_bytes());
    let states: Vec<_> = w.nat64.state().sessions().map(|v| v.state).collect();
    assert_eq!(states, [diolkos_nat64::session::SessionState::Established]);
}

#[test]
fn an_echo_and_its_reply() {
    for data in [&b""[..], b"x", b"some data"] {
        let mut w = Router::new(|_| {});
        let there = packet6(NODE, PEER6, 58, echo_of(128, 77, data));
        let got = w.pass(&there.bytes());
        let id = port(&got, 24);
        let expected = packet4(POOL, PEER, 1, echo_of(8, id, data));
        assert_eq!(got[20..], expected.l4);
        let back = packet4(PEER, POOL, 1, echo_of(0, id, data));
        let got = w.pass(&back.bytes());
        assert_eq!(
            got[40..],
            packet6(PEER6, NODE, 58, echo_of(129, 77, data)).payload
        );
        assert_eq!(
            w.refuse(&packet4(PEER, POOL, 1, echo_of(0, id ^ 1, data)).bytes())
                .0,
            Reason::NoBinding
        );
    }
}

#[test]
fn the_answer_comes_from_the_prefix_that_was_asked() {
    let mut w = Router::new(|_| {});
    let other = "2001:db8:65::192.0.2.33";
    let got = w.pass(&packet6(NODE, other, 17, udp_of(5000, 53, b"a")).bytes());
    let back = packet4(PEER, POOL, 17, udp_of(53, ends4(&got).1, b"b"));
    let got = w.pass(&back.bytes());
    let mut expected = packet6(other, NODE, 17, udp_of(53, 5000, b"b"));
    expected.hop_limit = 63;
    assert_eq!(got, expected.bytes());
}

#[test]
fn checksums_that_the_device_completes() {
    let partial = Offload {
        checksum: Checksum::Partial,
        gso: None,
        ..Offload::default()
    };
    let mut w = Router::new(|_| {});
    let packet = V6::new(NODE, PEER6, 17, udp_of(5000, 53, b"data"));
    let seed = ones_sum(&packet.pseudo(17, packet.payload.len()));
    let mut seeded = packet.clone();
    seeded.payload[6..8].copy_from_slice(&seed.to_be_bytes());
    let (verdict, sent) = w.give_offloaded(&seeded.bytes(), partial);
    assert_eq!(verdict, Verdict::Forward);
    let got = &sent[0];
    let expected = V4::new(POOL, PEER, 17, vec![0; packet.payload.len()]);
    assert_eq!(got[26..28], ones_sum(&expected.pseudo()).to_be_bytes());
    assert_eq!(port(got, 22), 53);
}

#[test]
fn udp_without_checksum() {
    // "The NAT64 MUST calculate the checksum" (RFC 6146 section 3.4), by default.
    let mut w = Router::new(|_| {});
    let got = w.pass(&V6::new(NODE, PEER6, 17, udp_of(5000, 53, b"data")).bytes());
    let (_, src_port, _) = ends4(&got);
    assert_eq!(got[26..28], [0, 0], "a tunnel it may remain");
    let back = V4::new(PEER, POOL, 17, udp_of(53, src_port, b"data"));
    let expected = packet6(PEER6, NODE, 17, udp_of(53, 5000, b"data"));
    assert_eq!(w.pass(&back.bytes())[40..], expected.payload);
    let mut w = Router::new(|config| {
        config.translator.udp_zero_checksum = Some(UdpZeroChecksum::Drop);
    });
    let back = V4::new(PEER, POOL, 17, udp_of(53, 2000, b"data"));
    assert_eq!(w.refuse(&back.bytes()).0, Reason::UdpZeroChecksum);
}

#[test]
fn a_super_packet_is_translated_once_or_cut() {
    let gso = |size| Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso {
            kind: GsoKind::Tcp,
            size,
        }),
        ..Offload::default()
    };
    let mut w = Router::new(|_| {});
    w.pass(&packet6(NODE, PEER6, 6, tcp_of(5000, 80, SYN, &[])).bytes());
    let v4_port = w.nat64.state().bindings().next().unwrap().binding.v4.port;
    let big = |data: &[u8]| V6::new(NODE, PEER6, 6, tcp_of(5000, 80, ACK, data)).bytes();
    let (verdict, sent) = w.give_offloaded(&big(&pattern(4000)), gso(1400));
    assert_eq!((verdict, sent.len()), (Verdict::Forward, 1));
    assert_eq!(sent[0].len(), 20 + 20 + 4000);

    // A super-packet whose segments do not fit is answered, and opens no session.
    let (verdict, sent) = w.give_offloaded(&big(&pattern(4000)), gso(1480));
    assert_eq!(verdict, Verdict::Drop(Reason::TooBig));
    assert_eq!((sent[0][40], sent[0][41]), (2, 0));

    // Segments that must be fragmented are sent one by one, each with its ports and a correct
    // checksum.
    let mut w = Router::new(|config| config.translator.mtu4 = 600);
    w.pass(&packet6(NODE, PEER6, 6, tcp_of(5000, 80, SYN, &[])).bytes());
    let v4_port2 = w.nat64.state().bindings().next().unwrap().binding.v4.port;
    let (verdict, sent) = w.give_offloaded(&big(&pattern(1400)), gso(500));
    assert_eq!((verdict, sent.len()), (Verdict::Forward, 1));
    let (verdict, sent) = w.give_offloaded(&big(&pattern(1400)), gso(900));
    assert_eq!(verdict, Verdict::Emitted);
    assert_eq!(sent.len(), 3, "two fragments and a segment that fits");
    let whole: Vec<u8> = [&sent[0][20..], &sent[1][20..]].concat();
    let expected = packet4(
        POOL,
        PEER,
        6,
        tcp_of(v4_port2, 80, ACK, &pattern(1400)[..900]),
    );
    assert_eq!(whole, expected.l4);
    assert_eq!(ends4(&sent[2]).1, v4_port2);
    assert_ne!(v4_port, 0);
}

#[test]
fn a_big_datagram_is_fragmented_with_its_ports_and_checksum() {
    let mut w = Router::new(|_| {});
    let got = w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, b"x")).bytes());
    let v4_port = ends4(&got).1;
    let mut back = packet4(PEER, POOL, 17, udp_of(53, v4_port, &pattern(1400)));
    back.flags_and_offset = 0;
    let (verdict, sent) = w.give(&back.bytes());
    assert_eq!((verdict, sent.len()), (Verdict::Emitted, 2));
    let whole = [&sent[0][48..], &sent[1][48..]].concat();
    let expected = packet6(PEER6, NODE, 17, udp_of(53, 5000, &pattern(1400)));
    assert_eq!(whole, expected.payload);
}

#[test]
fn too_big_or_too_far_becomes_no_state() {
    let mut w = Router::new(|config| config.translator.mtu4 = 1400);
    let big = packet6(NODE, PEER6, 17, udp_of(5000, 53, &pattern(1400)));
    let (reason, answer) = w.refuse(&big.bytes());
    assert_eq!(reason, Reason::TooBig);
    assert_eq!(answer.unwrap()[44..48], 1420u32.to_be_bytes());
    let mut far = packet6(NODE, PEER6, 17, udp_of(5000, 53, &[]));
    far.hop_limit = 1;
    let (reason, answer) = w.refuse(&far.bytes());
    assert_eq!(reason, Reason::HopLimit);
    assert_eq!(answer.unwrap()[40..42], [3, 0]);
    assert_eq!(w.nat64.state().counts(), Default::default());
}

#[test]
fn what_no_table_knows() {
    let mut w = Router::new(|_| {});
    for protocol in [33, 47, 50, 132] {
        let (reason, answer) = w.refuse(&V6::new(NODE, PEER6, protocol, pattern(64)).bytes());
        assert_eq!(reason, Reason::TransportUnknown);
        assert_eq!(answer.unwrap()[40..42], [1, 4]);
        let (reason, answer) = w.refuse(&V4::new(PEER, POOL, protocol, pattern(64)).bytes());
        assert_eq!(reason, Reason::TransportUnknown);
        assert_eq!(answer.unwrap()[20..22], [3, 2]);
    }
}

#[test]
fn addresses_that_are_not_for_us() {
    let mut w = Router::new(|_| {});
    let reason = |w: &mut Router, src, dst| {
        w.refuse(&packet6(src, dst, 17, udp_of(1, 2, &[])).bytes())
            .0
    };
    assert_eq!(
        reason(&mut w, "2001:db8:64::192.0.2.9", PEER6),
        Reason::SourceInPrefix
    );
    assert_eq!(
        reason(&mut w, "2001:db8:65::192.0.2.9", PEER6),
        Reason::SourceInPrefix
    );
    assert_eq!(
        reason(&mut w, NODE, "2001:db8:2::1"),
        Reason::DestinationUnmapped
    );
    assert_eq!(
        reason(&mut w, NODE, "2001:db8:64::224.0.0.1"),
        Reason::Multicast
    );
    assert_eq!(
        reason(&mut w, NODE, "2001:db8:64::127.0.0.1"),
        Reason::DestinationIllegal
    );
    assert_eq!(reason(&mut w, "::1", PEER6), Reason::SourceIllegal);
    assert_eq!(w.nat64.state().counts(), Default::default());
}

#[test]
fn what_the_tables_refuse_is_answered_as_the_rfc_says() {
    // Address unreachable, if the pool is exhausted (RFC 6146 section 3.5).
    let mut w = Router::new(|config| config.pool4[0].ports = 2000..=2001);
    for n in 1..=2 {
        w.pass(&packet6(NODE, PEER6, 17, udp_of(n, 53, &[])).bytes());
    }
    let (reason, answer) = w.refuse(&packet6(NODE, PEER6, 17, udp_of(3, 53, &[])).bytes());
    assert_eq!(reason, Reason::PoolExhausted);
    let answer = answer.unwrap();
    assert_eq!(answer[40..42], [1, 3]);
    assert_eq!(answer[8..24], v6("2001:db8:64::203.0.113.1").octets());

    // Without a binding: host unreachable, but no answer to TCP.
    let (reason, answer) = w.refuse(&packet4(PEER, POOL, 17, udp_of(53, 5, &[])).bytes());
    assert_eq!(reason, Reason::NoBinding);
    let answer = answer.unwrap();
    assert_eq!(answer[20..22], [3, 1]);
    assert_eq!(answer[12..16], v4(POOL).octets());
    let other = packet4(PEER, POOL, 6, tcp_of(80, 5, ACK, &[]));
    assert_eq!(w.refuse(&other.bytes()), (Reason::NoBinding, None));
    let other = packet6(NODE, PEER6, 6, tcp_of(80, 5, ACK, &[]));
    assert_eq!(w.refuse(&other.bytes()), (Reason::NoConnection, None));

    // Administratively prohibited, if the filter refuses.
    let mut w = Router::new(|config| config.filtering = Filtering::AddressDependent);
    let got = w.pass(&packet6(NODE, PEER6, 17, udp_of(1, 53, &[])).bytes());
    let stranger = packet4("192.0.2.99", POOL, 17, udp_of(53, ends4(&got).1, &[]));
    let (reason, answer) = w.refuse(&stranger.bytes());
    assert_eq!(reason, Reason::Filtered);
    assert_eq!(answer.unwrap()[20..22], [3, 13]);
}

#[test]
fn answers_are_limited() {
    let mut w = Router::new(|config| {
        config.translator.icmp.rate = 10;
        config.translator.icmp.burst = 3;
    });
    let nobody = packet4(PEER, POOL, 17, udp_of(53, 5000, &[])).bytes();
    let answered = (0..20).filter(|_| w.refuse(&nobody).1.is_some()).count();
    assert_eq!(answered, 3);
}

#[test]
fn a_syn_that_nobody_wants_is_answered_after_six_seconds() {
    let mut w = Router::new(|_| {});
    let syn = packet4(PEER, POOL, 6, tcp_of(4000, 5000, SYN, &[])).bytes();
    assert_eq!(w.give(&syn), (Verdict::Held, vec![]));
    assert_eq!(w.wait(5.0), Vec::<Vec<u8>>::new());
    let sent = w.wait(1.0);
    assert_eq!(sent.len(), 1);
    assert_eq!(
        sent[0][12..20],
        [v4(POOL).octets(), v4(PEER).octets()].concat()
    );
    assert_eq!(sent[0][20..22], [3, 3]);
    assert_eq!(sent[0][28..], syn, "quoted as it came");
    assert_eq!(w.watch.dropped, [Reason::SynUnanswered]);
}

#[test]
fn the_probe_of_a_silent_connection() {
    let mut w = Router::new(|_| {});
    let got = w.pass(&packet6(NODE, PEER6, 6, tcp_of(5000, 80, SYN, &[])).bytes());
    let port = ends4(&got).1;
    w.pass(&packet4(PEER, POOL, 6, tcp_of(80, port, SYN | ACK, &[])).bytes());
    let sent = w.wait(7441.0);
    let mut l4 = tcp_of(80, 5000, ACK, &[]);
    l4[4..12].fill(0);
    l4[14..16].fill(0);
    assert_eq!(sent, [packet6(PEER6, NODE, 6, l4).bytes()]);
    // The node's answer makes the session established again.
    w.pass(&packet6(NODE, PEER6, 6, tcp_of(5000, 80, ACK, &[])).bytes());
    assert_eq!(w.wait(7000.0), Vec::<Vec<u8>>::new());
    assert_eq!(w.nat64.state().counts().sessions, 1);
}

#[test]
fn a_static_binding_from_outside() {
    let node = e6(NODE, 80);
    let mut w = Router::new(|config| {
        config.bindings = vec![binding(Protocol::Tcp, "203.0.113.1:8080", node)];
    });
    let syn = packet4(PEER, POOL, 6, tcp_of(4000, 8080, SYN, &[]));
    let got = w.pass(&syn.bytes());
    let expected = packet6(PEER6, NODE, 6, tcp_of(4000, 80, SYN, &[]));
    assert_eq!(got[40..], expected.payload);
    let back = packet6(NODE, PEER6, 6, tcp_of(80, 4000, SYN | ACK, &[]));
    assert_eq!(ends4(&w.pass(&back.bytes())), (v4(POOL), 8080, 4000));
}

#[test]
fn another_configuration_at_run_time() {
    let mut w = Router::new(|_| {});
    let packet = packet6(NODE, PEER6, 17, udp_of(5000, 53, &[])).bytes();
    let before = ends4(&w.pass(&packet));
    let mut new = config();
    new.translator.traffic_class = diolkos_xlat::TrafficClass::Zero;
    w.nat64.reconfigure(&new, &mut w.watch).unwrap();
    assert_eq!(ends4(&w.pass(&packet)), before);
    new.pool4.clear();
    assert!(w.nat64.reconfigure(&new, &mut w.watch).is_err());
    assert_eq!(ends4(&w.pass(&packet)), before, "nothing has changed");
}
