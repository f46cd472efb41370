// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every packet: no panic, no malformed output, no checksum made wrong, nothing above
//! the MTU, and a round trip restores the packet.
//!
//! The checks of an output come first, then the properties.

use crate::common::*;
use crate::strategies::*;
use diolkos_xlat::{
    Checksum, Config, Eam, Gso, GsoKind, Offload, Translator, UdpZeroChecksum, Verdict,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::net::{Ipv4Addr, Ipv6Addr};

const MTU4: usize = 1400;
const MTU6: usize = 1480;

/// A translator with every feature: two prefixes, mappings of both kinds, pools; MTUs that packets
/// often reach.
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
        c.udp_zero_checksum = Some(UdpZeroChecksum::Compute);
        c.icmp.address6 = Some(v6("2001:db8::1"));
        c.icmp.source_pool4 = vec!["203.0.113.0/28".parse().unwrap()];
    })
}

// Checks of every output.

/// Checks that header and lengths are right and the packet is within the MTU; for a super-packet, each
/// segment.
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
    let mtu = match (headers, is_icmp_error(bytes)) {
        (20, false) => MTU4,
        (_, false) => MTU6,
        // Without DF, and the smallest MTU of IPv6.
        (20, true) => 1260,
        (_, true) => 1280,
    };
    assert!(segment.min(bytes.len()) <= mtu, "{} bytes", bytes.len());
}

/// Checks the transport checksum if the packet is whole and has one, or the ICMP checksum.
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

/// Two traces of a packet are equal and predict its real translation.
fn told_and_done(bytes: &[u8]) {
    let translator = everything();
    let trace = translator.trace(bytes, &mut World::new().clock());
    assert_eq!(
        trace,
        translator.trace(bytes, &mut World::new().clock()),
        "asking uses up no error"
    );
    let outcome = run(&translator, bytes, Offload::default());
    assert_eq!(trace.verdict, outcome.verdict);
    let mut left: Vec<Vec<u8>> = outcome.sent.into_iter().map(|sent| sent.0).collect();
    if outcome.verdict == Verdict::Forward {
        left.push(outcome.packet);
    }
    let mut told = trace.sent;
    told.extend(trace.answer);
    assert_eq!(told, left);
}

// The properties.

/// The number of cases takes some seconds, unless `PROPTEST_CASES` sets it.
fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig {
            cases: 2000,
            ..config
        },
    }
}

proptest! {
    #![proptest_config(cases())]

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

    /// A trace predicts the real translation.
    #[test]
    fn what_is_told_of_an_ipv4_packet_happens(bytes in mutated(message4())) {
        told_and_done(&bytes);
    }

    #[test]
    fn what_is_told_of_an_ipv6_packet_happens(bytes in mutated(message6())) {
        told_and_done(&bytes);
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
        // The data word is shifted by the checksum on the far side, so that the new checksum there
        // is zero.
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
            // Zero would mean no checksum; and in one's complement 0 and 0xFFFF are the same
            // number.
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
            // A packet between two nodes behind the translator does not return: it is hairpinned to
            // the other node.
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
                // An address in the second prefix, or with bits set in the ignored part, comes back
                // as the canonical address.
                if same {
                    prop_assert_eq!(back.packet, expected.bytes());
                }
            }
        }
    }

    #[test]
    fn an_error_is_cut_to_what_every_path_takes(quoted in 1100usize..1440) {
        let (here4, here6) = ("192.0.2.1", "2001:db8:e::1");
        let (there4, there6) = ("203.0.113.77", "2001:db8:64::203.0.113.77");
        let about4 = packet4(here4, there4, 17, udp(&pattern(1500))).bytes();
        let about6 = packet6(there6, here6, 17, udp(&pattern(1500))).bytes();
        for error in [
            error4(there4, here4, 3, 3, [0; 4], &about4[..quoted]).bytes(),
            error6(here6, there6, 1, 4, [0; 4], &about6[..quoted]).bytes(),
        ] {
            prop_assert_eq!(check(&error, Offload::default()), Verdict::Forward);
        }
    }

    #[test]
    fn every_prefix_carries_the_same_addresses(src in addr4(), dst in addr4(), data in data()) {
        let translated = |place: fn(Ipv4Addr) -> Ipv6Addr| {
            let packet = packet6(&place(src).to_string(), &place(dst).to_string(), 17, udp(&data));
            run(&everything(), &packet.bytes(), Offload::default())
        };
        let first = translated(in_the_first_prefix);
        if first.verdict == Verdict::Forward && first.packet[0] >> 4 == 4 {
            prop_assert_eq!(first.packet, translated(in_the_second_prefix).packet);
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
            check(&bytes, Offload { checksum, gso: Some(Gso { kind, size }), ..Offload::default() });
        }
    }
}

// Whether the properties apply to enough packets.

/// The number of matching values among 1000 fixed values of a strategy.
fn of_1000<T: std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
    kind: impl Fn(T) -> bool,
) -> usize {
    let mut runner = TestRunner::deterministic();
    let mut value = || strategy.new_tree(&mut runner).unwrap().current();
    (0..1000).filter(|_| kind(value())).count()
}

/// A property holds trivially if no packet reaches it. This counts the packets that reach those
/// above.
#[test]
fn the_properties_are_about_packets_that_are_translated() {
    let whole = everything();
    let through = |bytes: &[u8]| run(&whole, bytes, Offload::default());
    let forward = |bytes: &[u8]| through(bytes).verdict == Verdict::Forward;
    let of_ipv6 =
        |outcome: &Outcome| outcome.verdict == Verdict::Forward && outcome.packet[0] >> 4 == 6;
    let of_ipv4 =
        |outcome: &Outcome| outcome.verdict == Verdict::Forward && outcome.packet[0] >> 4 == 4;

    let there4 = of_1000(valid4(), |four| forward(&four.bytes()));
    let back4 = of_1000(valid4(), |four| {
        let there = through(&four.bytes());
        of_ipv6(&there) && of_ipv4(&through(&there.packet))
    });
    let there6 = of_1000(valid6(), |six| forward(&six.bytes()));
    let turned = of_1000(valid6(), |six| of_ipv6(&through(&six.bytes())));
    let back6 = of_1000(valid6(), |six| {
        let there = through(&six.bytes());
        let same =
            |back: Outcome| back.packet[8..40] == [six.src.octets(), six.dst.octets()].concat();
        of_ipv4(&there) && of_ipv6(&through(&there.packet)) && same(through(&there.packet))
    });
    let errors4 = of_1000(message4(), |bytes| {
        bytes[9] == 1 && is_icmp_error(&bytes) && forward(&bytes)
    });
    let errors6 = of_1000(message6(), |bytes| {
        bytes[6] == 58 && is_icmp_error(&bytes) && forward(&bytes)
    });
    let cut4 = of_1000(valid4(), |four| {
        through(&four.bytes()).verdict == Verdict::Emitted
    });
    let changed4 = of_1000(mutated(message4()), |bytes| forward(&bytes));
    let changed6 = of_1000(mutated(message6()), |bytes| forward(&bytes));
    let found = [
        there4, back4, there6, turned, back6, errors4, errors6, cut4, changed4, changed6,
    ];
    let least = [700, 650, 550, 150, 150, 120, 60, 80, 250, 120];
    assert!(
        found
            .iter()
            .zip(least)
            .all(|(&found, least)| found >= least),
        "{found:?}, at least {least:?}"
    );
}
