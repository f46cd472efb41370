// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds for every packet: no panic, no malformed output, no checksum made wrong, nothing above the MTU, and there and back is where it was.
//!
//! Strategies first, then what is checked of an output, then the properties.

mod common;

use common::*;
use diolkos_core::{
    Checksum, Config, Eam, Gso, GsoKind, Offload, Translator, UdpZeroChecksum, Verdict,
};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MTU4: usize = 1400;
const MTU6: usize = 1480;

/// Everything there is: two prefixes, mappings of both kinds, pools; MTUs that are met often.
fn everything() -> Translator {
    translator(|c: &mut Config| {
        c.pref64 = vec![
            "2001:db8:64::/96".parse().unwrap(),
            "2001:db8:4000::/40".parse().unwrap(),
        ];
        c.eam = [
            ("192.0.2.0/28", "2001:db8:e::/124"),
            ("198.51.100.0/24", "2001:db8:f::/64"),
        ]
        .map(|(v4, v6)| Eam {
            v4: v4.parse().unwrap(),
            v6: v6.parse().unwrap(),
        })
        .to_vec();
        (c.mtu4, c.mtu6, c.lowest_ipv6_mtu) = (MTU4 as u32, MTU6 as u32, 1300);
        c.udp_zero_checksum = UdpZeroChecksum::Compute;
        c.icmp.address6 = Some(v6("2001:db8::1"));
        c.icmp.source_pool4 = vec!["203.0.113.0/28".parse().unwrap()];
    })
}

// Strategies.

fn addr4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        3 => (0u32..16).prop_map(|n| Ipv4Addr::from_bits(0xc000_0200 + n)),
        3 => (0u32..256).prop_map(|n| Ipv4Addr::from_bits(0xc633_6400 + n)),
        3 => (0x0100_0000u32..0x7f00_0000).prop_map(Ipv4Addr::from_bits),
        1 => any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

fn addr6() -> impl Strategy<Value = Ipv6Addr> {
    prop_oneof![
        3 => addr4().prop_map(|a| Ipv6Addr::from_bits(v6("2001:db8:64::").to_bits() | u128::from(a.to_bits()))),
        1 => addr4().prop_map(|a| {
            let [a, b, c, d] = a.octets();
            Ipv6Addr::from([0x20, 1, 0x0d, 0xb8, 0x40, a, b, c, 0, d, 0, 0, 0, 0, 0, 0])
        }),
        3 => (0u128..16).prop_map(|n| Ipv6Addr::from_bits(v6("2001:db8:e::").to_bits() + n)),
        1 => any::<u128>().prop_map(Ipv6Addr::from_bits),
    ]
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..64),
        // On both sides of every limit there is: 1260 without DF, the lowest IPv6 MTU, both MTUs.
        2 => (prop::sample::select(vec![1232usize, 1252, 1372, 1432]), 0usize..24)
            .prop_map(|(limit, more)| pattern(limit - 12 + more)),
        1 => (0usize..4000).prop_map(|len| vec![0; len]),
    ]
}

/// A transport of this protocol without its checksum.
fn transport(protocol: u8, ipv6: bool, data: &[u8]) -> Vec<u8> {
    match (protocol, ipv6) {
        (6, _) => tcp(data),
        (17 | 136, _) => udp(data),
        // An echo reply of zeros is the only message that can be all zeros.
        (1 | 58, _) if data.iter().all(|&byte| byte == 0) => [
            vec![if ipv6 { 129 } else { 0 }, 0, 0, 0, 0, 0, 0, 0],
            data.to_vec(),
        ]
        .concat(),
        (1, _) => echo([8, 0][data.len() % 2], data),
        (58, _) => echo([128, 129][data.len() % 2], data),
        (33, _) => [vec![0; 12], data.to_vec()].concat(),
        _ => data.to_vec(),
    }
}

fn has_checksum(protocol: u8) -> bool {
    [1, 6, 17, 33, 58, 136].contains(&protocol)
}

fn valid4() -> impl Strategy<Value = V4> {
    let protocol = prop::sample::select(vec![1u8, 6, 6, 17, 17, 33, 47, 132, 136]);
    (
        addr4(),
        addr4(),
        protocol,
        data(),
        any::<(u8, u16, bool)>(),
        2u8..,
    )
        .prop_map(|(src, dst, protocol, data, (tos, id, df), ttl)| {
            let l4 = transport(protocol, false, &data);
            let (src, dst) = (src.to_string(), dst.to_string());
            let packet = if has_checksum(protocol) {
                packet4(&src, &dst, protocol, l4)
            } else {
                V4::new(&src, &dst, protocol, l4)
            };
            V4 {
                tos,
                id,
                ttl,
                flags_and_offset: if df { DF } else { 0 },
                ..packet
            }
        })
}

fn valid6() -> impl Strategy<Value = V6> {
    let protocol = prop::sample::select(vec![58u8, 6, 6, 17, 17, 33, 47, 132, 136]);
    (addr6(), addr6(), protocol, data(), any::<u8>(), 2u8..).prop_map(
        |(src, dst, protocol, data, class, hop_limit)| {
            let l4 = transport(protocol, true, &data);
            let (src, dst) = (src.to_string(), dst.to_string());
            let packet = if has_checksum(protocol) {
                packet6(&src, &dst, protocol, l4)
            } else {
                V6::new(&src, &dst, protocol, l4)
            };
            V6 {
                class,
                hop_limit,
                ..packet
            }
        },
    )
}

/// A whole IPv4 packet, an error about one, or an error with extensions.
fn message4() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => valid4().prop_map(|p| p.bytes()),
        1 => (addr4(), addr4(), prop::sample::select(vec![3u8, 11, 12]), 0u8..16, any::<[u8; 4]>(), valid4(), 20usize..200)
            .prop_map(|(src, dst, icmp_type, code, rest, about, cut)| {
                let mut quote = about.bytes();
                quote.truncate(cut);
                error4(&src.to_string(), &dst.to_string(), icmp_type, code, rest, &quote).bytes()
            }),
    ]
}

fn message6() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => valid6().prop_map(|p| p.bytes()),
        1 => (valid6(), prop::collection::vec(prop::sample::select(vec![0u8, 43, 44, 60]), 1..4), any::<u16>()).prop_map(|(mut p, chain, offset)| {
            for kind in chain {
                let mut header = if kind == 44 { fragment_header(p.next_header, offset & 0x1ff8, offset & 1 != 0, 7) } else { vec![p.next_header, 0, 0, 0, 0, 0, 0, 0] };
                header.append(&mut p.payload);
                (p.payload, p.next_header) = (header, kind);
            }
            p.bytes()
        }),
        1 => (addr6(), addr6(), 1u8..5, 0u8..5, any::<[u8; 4]>(), valid6(), 40usize..240)
            .prop_map(|(src, dst, icmp_type, code, rest, about, cut)| {
                let mut quote = about.bytes();
                quote.truncate(cut);
                error6(&src.to_string(), &dst.to_string(), icmp_type, code, rest, &quote).bytes()
            }),
    ]
}

/// Some bytes of a packet changed, some cut off or added.
fn mutated(message: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (
        message,
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        0usize..6,
        0usize..40,
    )
        .prop_map(|(mut bytes, changes, how, much)| {
            for (at, value) in changes {
                let at = at.index(bytes.len().min(96));
                bytes[at] = value;
            }
            match how {
                0 => bytes.truncate(bytes.len().saturating_sub(much)),
                1 => bytes.extend(vec![0x5a; much]),
                _ => {}
            }
            // With a right header checksum mutations reach further than the first check.
            if how != 2 && bytes.len() >= 60 && bytes[0] >> 4 == 4 {
                let len = usize::from(bytes[0] & 15).max(5) * 4;
                bytes[10..12].fill(0);
                let checksum = !ones_sum(&bytes[..len]);
                bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            bytes
        })
}

fn offload() -> impl Strategy<Value = Offload> {
    let gso = (
        any::<bool>(),
        prop_oneof![any::<u16>(), 1000u16..1500, 0u16..20],
    )
        .prop_map(|(tcp, size)| Gso {
            kind: if tcp { GsoKind::Tcp } else { GsoKind::Udp },
            size,
        });
    let checksum = prop::sample::select(vec![Checksum::Complete, Checksum::Partial]);
    prop_oneof![
        2 => Just(Offload::default()),
        2 => (checksum, prop::option::of(gso)).prop_map(|(checksum, gso)| Offload { checksum, gso }),
    ]
}

// What every output is.

/// Header and lengths are right, nothing is above the MTU; of a packet that stands for several, no segment is.
fn well_formed(bytes: &[u8], offload: Offload) {
    let headers = match bytes[0] >> 4 {
        4 => {
            assert_eq!(bytes[0], 0x45, "an IPv4 header without options");
            assert_eq!(ones_sum(&bytes[..20]), 0xffff, "IPv4 header checksum");
            assert_eq!(
                usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
                bytes.len()
            );
            20
        }
        6 => {
            assert_eq!(
                usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + 40,
                bytes.len()
            );
            40
        }
        version => panic!("version {version}"),
    };
    let segment = match offload.gso {
        Some(Gso {
            kind: GsoKind::Tcp,
            size,
        }) => headers + usize::from(bytes[headers + 12] >> 4) * 4 + usize::from(size),
        Some(Gso {
            kind: GsoKind::Udp,
            size,
        }) => headers + 8 + usize::from(size),
        None => bytes.len(),
    };
    let mtu = if headers == 20 { MTU4 } else { MTU6 };
    assert!(segment.min(bytes.len()) <= mtu, "{} bytes", bytes.len());
}

/// The transport checksum, if the packet is whole and has one, or the ICMP checksum.
fn checksum_is_right(bytes: &[u8]) -> bool {
    let (protocol, l4, pseudo) = match bytes[0] >> 4 {
        4 if u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff != 0 => return true,
        4 => {
            let mut pseudo = [&bytes[12..20], &[0, bytes[9]]].concat();
            pseudo.extend((bytes.len() as u16 - 20).to_be_bytes());
            (
                bytes[9],
                &bytes[20..],
                if bytes[9] == 1 { vec![] } else { pseudo },
            )
        }
        _ => {
            let mut pseudo = bytes[8..40].to_vec();
            pseudo.extend((bytes.len() as u32 - 40).to_be_bytes());
            pseudo.extend([0, 0, 0, bytes[6]]);
            (bytes[6], &bytes[40..], pseudo)
        }
    };
    let no_checksum = protocol == 17 && bytes[0] >> 4 == 4 && l4[6..8] == [0, 0];
    !has_checksum(protocol) || no_checksum || ones_sum(&[&pseudo, l4].concat()) == 0xffff
}

fn is_icmp_error(bytes: &[u8]) -> bool {
    match bytes[0] >> 4 {
        4 => bytes[9] == 1 && [3, 11, 12].contains(&bytes[20]),
        _ => bytes[6] == 58 && bytes[40] < 128,
    }
}

fn check(bytes: &[u8], offload: Offload) -> Verdict {
    let outcome = run(&everything(), bytes, offload);
    if outcome.verdict == Verdict::Forward {
        well_formed(&outcome.packet, outcome.offload);
        assert!(!is_icmp_error(&outcome.packet) || checksum_is_right(&outcome.packet));
    }
    for (sent, offload) in &outcome.sent {
        assert_eq!(*offload, Offload::default());
        well_formed(sent, *offload);
        assert!(!is_icmp_error(sent) || checksum_is_right(sent));
    }
    assert_eq!(outcome.verdict == Verdict::Emitted, outcome.sent.len() > 1);
    assert!(
        outcome.sent.len() <= 1 || outcome.verdict == Verdict::Emitted,
        "one error about a packet"
    );
    outcome.verdict
}

// The properties.

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0usize..4, offload in offload()) {
        let mut bytes = bytes;
        if let (Some(first), Some(&version)) = (bytes.first_mut(), [0x45, 0x46, 0x60].get(version)) {
            *first = version;
        }
        run(&everything(), &bytes, offload);
    }

    #[test]
    fn any_change_to_an_ipv4_packet(bytes in mutated(message4()), offload in offload()) {
        run(&everything(), &bytes, offload);
        if offload.gso.is_none() && !bytes.is_empty() {
            check(&bytes, offload);
        }
    }

    #[test]
    fn any_change_to_an_ipv6_packet(bytes in mutated(message6()), offload in offload()) {
        run(&everything(), &bytes, offload);
        if offload.gso.is_none() && !bytes.is_empty() {
            check(&bytes, offload);
        }
    }

    #[test]
    fn a_right_checksum_stays_right(four in valid4(), six in valid6()) {
        for bytes in [four.bytes(), six.bytes()] {
            let outcome = run(&everything(), &bytes, Offload::default());
            if outcome.verdict == Verdict::Forward {
                prop_assert!(checksum_is_right(&outcome.packet), "{outcome:x?}");
            }
        }
    }

    #[test]
    fn a_udp_checksum_is_never_zero(four in valid4(), six in valid6(), word in any::<u16>()) {
        // The data word is moved by what the checksum was on the far side, so that it is zero there.
        let (src4, dst4) = (four.src.to_string(), four.dst.to_string());
        let (src6, dst6) = (six.src.to_string(), six.dst.to_string());
        let four = |word: u16| packet4(&src4, &dst4, 17, udp(&word.to_be_bytes())).bytes();
        let six = |word: u16| packet6(&src6, &dst6, 17, udp(&word.to_be_bytes())).bytes();
        for packet in [&four as &dyn Fn(u16) -> Vec<u8>, &six] {
            let first = run(&everything(), &packet(word), Offload::default());
            if first.verdict == Verdict::Forward {
                let field = first.packet.len() - 4;
                let word = ones_sum(&[word.to_be_bytes(), [first.packet[field], first.packet[field + 1]]].concat());
                let outcome = run(&everything(), &packet(word), Offload::default());
                prop_assert_eq!(&outcome.packet[field..field + 2], [0xff, 0xff]);
                prop_assert!(checksum_is_right(&outcome.packet));
            }
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(four in valid4(), six in valid6(), change in 1u16..0xffff) {
        for (mut bytes, l4_at, protocol) in [(four.bytes(), 20, four.protocol), (six.bytes(), 40, six.next_header)] {
            let at = l4_at + checksum_at(protocol);
            if !has_checksum(protocol) {
                continue;
            }
            let wrong = u16::from_be_bytes([bytes[at], bytes[at + 1]]).wrapping_add(change);
            bytes[at..at + 2].copy_from_slice(&wrong.to_be_bytes());
            let outcome = run(&everything(), &bytes, Offload::default());
            // Zero would mean that there is none; and in one's complement 0 and 0xFFFF are the same number.
            let was_wrong = ![0, 0xffff].contains(&wrong) && !checksum_is_right(&bytes);
            if outcome.verdict == Verdict::Forward && was_wrong {
                prop_assert!(!checksum_is_right(&outcome.packet));
            }
        }
    }

    #[test]
    fn there_and_back_from_ipv4(four in valid4()) {
        let outcome = run(&everything(), &four.bytes(), Offload::default());
        if outcome.verdict == Verdict::Forward {
            let back = run(&everything(), &outcome.packet, Offload::default());
            // A packet between two nodes behind us does not come back: it turns to the other one.
            if back.verdict == Verdict::Forward && back.packet[0] >> 4 == 4 {
                let mut expected = four;
                expected.ttl = back.packet[8];
                let small = back.packet.len() <= 1260;
                (expected.flags_and_offset, expected.id) = if small { (0, 0x1001) } else { (DF, 0) };
                prop_assert_eq!(back.packet, expected.bytes());
            }
        }
    }

    #[test]
    fn there_and_back_from_ipv6(six in valid6()) {
        let outcome = run(&everything(), &six.bytes(), Offload::default());
        if outcome.verdict == Verdict::Forward && outcome.packet[0] >> 4 == 4 {
            let back = run(&everything(), &outcome.packet, Offload::default());
            if back.verdict == Verdict::Forward {
                let mut expected = six;
                expected.hop_limit = back.packet[7];
                let there: [&[u8]; 2] = [&expected.src.octets(), &expected.dst.octets()];
                let same = back.packet[8..40] == there.concat();
                // An address in the second prefix, or with bits set in what is ignored, comes back as the canonical one.
                if same {
                    prop_assert_eq!(back.packet, expected.bytes());
                }
            }
        }
    }

    #[test]
    fn fragments_put_together_are_the_datagram(data in prop::collection::vec(any::<u8>(), 1300..5000), id in any::<u16>()) {
        let mut four = packet4("192.0.2.1", "203.0.113.77", 17, udp(&data));
        (four.flags_and_offset, four.id) = (0, id);
        let sent = run(&everything(), &four.bytes(), Offload::default()).sent;
        let whole: Vec<u8> = sent.iter().flat_map(|(bytes, _)| bytes[48..].to_vec()).collect();
        prop_assert_eq!(whole, packet6("2001:db8:e::1", "2001:db8:64::203.0.113.77", 17, udp(&data)).payload);
        for (at, (bytes, offload)) in sent.iter().enumerate() {
            prop_assert!(bytes.len() <= 1300);
            well_formed(bytes, *offload);
            prop_assert_eq!(bytes[43] & 1 == 1, at + 1 < sent.len(), "M");
        }
    }

    #[test]
    fn super_packets(four in valid4(), six in valid6(), size in 1u16..1500, partial in any::<bool>()) {
        let checksum = if partial { Checksum::Partial } else { Checksum::Complete };
        for (bytes, protocol) in [(four.bytes(), four.protocol), (six.bytes(), six.next_header)] {
            let kind = if protocol == 6 { GsoKind::Tcp } else { GsoKind::Udp };
            check(&bytes, Offload { checksum, gso: Some(Gso { kind, size }) });
        }
    }
}
