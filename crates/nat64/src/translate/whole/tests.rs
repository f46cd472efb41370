// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments in every order, with duplicates, gaps and overlaps, compared with a model that counts the arrivals of
//! each byte.

use super::*;
use diolkos_xlat::wire::protocol;
use proptest::prelude::*;

const LEN: usize = 160;

/// Bytes `from` to `to` of a packet in which byte `n` has the value `n`, as a fragment.
fn piece(is_v6: bool, from: usize, to: usize, more: bool) -> HeldPacket {
    let data: Vec<u8> = (from..to).map(|at| at as u8).collect();
    let offset = (from / 8) as u16;
    let mut packet;
    if is_v6 {
        packet = vec![0; IPV6_LEN + FRAGMENT_LEN];
        let header = Ipv6 {
            traffic_class: 2,
            flow_label: 7,
            payload_len: FRAGMENT_LEN + data.len(),
            next_header: protocol::FRAGMENT,
            hop_limit: 60,
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
        };
        header.emit(&mut packet);
        let fragment = Fragment {
            next_header: protocol::ICMPV6,
            offset,
            more,
            id: 0x1234_5678,
        };
        fragment.emit(&mut packet[IPV6_LEN..]);
    } else {
        packet = vec![0; IPV4_LEN];
        let header = Ipv4 {
            tos: 2,
            header_len: IPV4_LEN,
            total_len: IPV4_LEN + data.len(),
            id: 0x5678,
            dont_fragment: true,
            more_fragments: more,
            fragment_offset: offset,
            ttl: 60,
            protocol: protocol::ICMPV4,
            src: "192.0.2.1".parse().unwrap(),
            dst: "192.0.2.2".parse().unwrap(),
        };
        header.emit(&mut packet);
    }
    packet.extend(data);
    held(packet, from)
}

/// A held fragment, labelled with its position.
fn held(packet: Vec<u8>, from: usize) -> HeldPacket {
    HeldPacket {
        bytes: packet.into(),
        label: Label {
            mark: from as u32 + 1,
            priority: from as u32 + 2,
            link: from as u32 + 3,
        },
    }
}

/// The payload of a packet whose headers must say that it is whole.
fn payload(whole: &[u8]) -> &[u8] {
    match whole[0] >> 4 {
        4 => {
            let ip = Ipv4::parse_packet(whole).unwrap();
            assert_eq!((ip.total_len, ip.id), (whole.len(), 0x5678));
            assert!(!ip.is_fragment() && !ip.dont_fragment);
            &whole[IPV4_LEN..]
        }
        _ => {
            let (ip, chain, fragment) = ipv6(whole).unwrap();
            assert_eq!(IPV6_LEN + ip.payload_len, whole.len());
            assert!(fragment.is_atomic());
            assert_eq!(
                (fragment.id, chain.protocol),
                (0x1234_5678, protocol::ICMPV6)
            );
            &whole[chain.payload_at..]
        }
    }
}

proptest! {
    /// Ranges of eight bytes in arrival order: the result equals that of counting the arrivals of each byte.
    #[test]
    fn as_a_count_of_every_byte(
        is_v6: bool,
        ranges in proptest::collection::vec((0usize..LEN / 8, 1usize..=LEN / 8), 0..12),
    ) {
        let mut seen = [0; LEN];
        let mut copies = std::collections::HashSet::new();
        let mut held = Vec::new();
        let mut has_last = false;
        for (from, words) in ranges {
            let (from, to) = (from * 8, (from * 8 + words * 8).min(LEN));
            held.push(piece(is_v6, from, to, to < LEN));
            if copies.insert((from, to)) {
                seen[from..to].iter_mut().for_each(|count| *count += 1);
                has_last |= to == LEN;
            }
        }
        match sum(&held) {
            Sum::Spoilt(reason) => {
                prop_assert_eq!(reason, Reason::FragmentOverlap);
                prop_assert!(seen.iter().any(|&count| count > 1));
            }
            Sum::Whole(whole) => {
                prop_assert!(seen.iter().all(|&count| count == 1));
                let expected: Vec<u8> = (0..LEN).map(|at| at as u8).collect();
                prop_assert_eq!(payload(&whole.bytes), &expected[..]);
                prop_assert_eq!(whole.label, Label { mark: 1, priority: 2, link: 3 });
            }
            Sum::Incomplete => {
                prop_assert!(seen.iter().all(|&count| count < 2));
                prop_assert!(!has_last || seen.contains(&0));
            }
        }
    }
}

#[test]
fn what_stands_behind_the_last_fragment_spoils_the_packet() {
    for is_v6 in [false, true] {
        let two_ends = [piece(is_v6, 0, 16, false), piece(is_v6, 16, 32, false)];
        assert!(matches!(
            sum(&two_ends),
            Sum::Spoilt(Reason::FragmentOverlap)
        ));
        let beyond = [piece(is_v6, 0, 16, false), piece(is_v6, 24, 32, true)];
        assert!(matches!(sum(&beyond), Sum::Spoilt(Reason::FragmentOverlap)));
    }
}

#[test]
fn a_copy_with_other_bytes_is_an_overlap() {
    let mut other = piece(false, 0, 16, true);
    other.bytes[25] ^= 1;
    let held = [
        piece(false, 0, 16, true),
        other,
        piece(false, 16, 24, false),
    ];
    assert!(matches!(sum(&held), Sum::Spoilt(Reason::FragmentOverlap)));
}

#[test]
fn no_packet_comes_in_more_fragments_than_a_path_makes() {
    let held: Vec<HeldPacket> = (0..65)
        .map(|n| piece(true, n * 16, n * 16 + 8, true))
        .collect();
    assert!(matches!(sum(&held[..64]), Sum::Incomplete));
    assert!(matches!(sum(&held), Sum::Spoilt(Reason::FragmentLimit)));
}

#[test]
fn an_empty_fragment_is_none() {
    let held = [piece(false, 0, 0, true), piece(false, 0, 16, false)];
    assert!(matches!(sum(&held), Sum::Spoilt(Reason::FragmentMalformed)));
}

#[test]
fn congestion_met_by_any_fragment_is_told() {
    let mut marked = piece(false, 16, 24, false);
    marked.bytes[1] |= 3;
    match sum(&[piece(false, 0, 16, true), marked]) {
        Sum::Whole(whole) => assert_eq!(whole.bytes[1], 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_too_long_together_is_no_packet() {
    let options = |fragment: HeldPacket| {
        let mut packet = fragment.bytes.into_vec();
        // Destination options of 8 bytes in front of the Fragment header.
        let at = IPV6_LEN;
        packet.splice(at..at, [protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0]);
        packet[6] = protocol::DESTINATION_OPTIONS;
        let len = (packet.len() - IPV6_LEN) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        held(packet, 0)
    };
    let held = [
        options(piece(true, 0, 32_768, true)),
        options(piece(true, 32_768, 65_528, false)),
    ];
    assert!(matches!(sum(&held), Sum::Spoilt(Reason::TooLong)));
}
