// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for property tests: valid ones of every protocol, errors about them, and both with some bytes changed.

use super::common::*;
use diolkos_xlat::{Checksum, Gso, GsoKind, Offload};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

pub fn addr4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        3 => (0u32..16).prop_map(|n| Ipv4Addr::from_bits(0xc000_0200 + n)),
        3 => (0u32..256).prop_map(|n| Ipv4Addr::from_bits(0xc633_6400 + n)),
        3 => (0x0100_0000u32..0x7f00_0000).prop_map(Ipv4Addr::from_bits),
        1 => any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

/// The IPv6 address in 2001:db8:64::/96 that embeds an IPv4 address.
pub fn in_the_first_prefix(addr: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(v6("2001:db8:64::").to_bits() | u128::from(addr.to_bits()))
}

/// The IPv6 address in 2001:db8:4000::/40 that embeds an IPv4 address.
pub fn in_the_second_prefix(addr: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = addr.octets();
    Ipv6Addr::from([0x20, 1, 0x0d, 0xb8, 0x40, a, b, c, 0, d, 0, 0, 0, 0, 0, 0])
}

pub fn addr6() -> impl Strategy<Value = Ipv6Addr> {
    prop_oneof![
        3 => addr4().prop_map(in_the_first_prefix),
        1 => addr4().prop_map(in_the_second_prefix),
        3 => (0u128..16).prop_map(|n| Ipv6Addr::from_bits(v6("2001:db8:e::").to_bits() + n)),
        1 => any::<u128>().prop_map(Ipv6Addr::from_bits),
    ]
}

pub fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..64),
        // On both sides of every limit: 1260 without DF, the lowest IPv6 MTU, and both MTUs.
        2 => (prop::sample::select(vec![1232usize, 1252, 1372, 1432]), 0usize..24)
            .prop_map(|(limit, more)| pattern(limit - 12 + more)),
        1 => (0usize..4000).prop_map(|len| vec![0; len]),
    ]
}

/// A transport of this protocol without its checksum.
pub fn transport(protocol: u8, ipv6: bool, data: &[u8]) -> Vec<u8> {
    match (protocol, ipv6) {
        (6, _) => tcp(data),
        (17 | 136, _) => udp(data),
        // An all-zero echo reply is the only message that can be all zeros.
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

pub fn has_checksum(protocol: u8) -> bool {
    [1, 6, 17, 33, 58, 136].contains(&protocol)
}

pub fn valid4() -> impl Strategy<Value = V4> {
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

pub fn valid6() -> impl Strategy<Value = V6> {
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

/// Bytes 4 to 7 of an ICMP error: zero, a number at the end (an MTU, an ICMPv6 pointer), a number at the beginning (an
/// ICMPv4 pointer, an ICMPv6 length), or arbitrary bytes.
fn rest() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        Just([0; 4]),
        any::<u16>().prop_map(|n| u32::from(n).to_be_bytes()),
        (0u8..40).prop_map(|n| [0, 0, 0, n]),
        (0u8..24).prop_map(|n| [n, 0, 0, 0]),
        any::<[u8; 4]>(),
    ]
}

/// The length of a quote after a header of this length: common values, and values on both sides of the limit.
fn quoted(header_len: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        3 => header_len..200,
        1 => 1180usize..1400,
    ]
}

/// A whole IPv4 packet, an error about one, or an error with extensions.
pub fn message4() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => valid4().prop_map(|p| p.bytes()),
        1 => (addr4(), addr4(), prop::sample::select(vec![3u8, 11, 12]), 0u8..16, rest(), valid4(), quoted(20))
            .prop_map(|(src, dst, icmp_type, code, rest, about, cut)| {
                let mut quote = about.bytes();
                quote.truncate(cut);
                error4(&src.to_string(), &dst.to_string(), icmp_type, code, rest, &quote).bytes()
            }),
    ]
}

pub fn message6() -> impl Strategy<Value = Vec<u8>> {
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
        1 => (addr6(), addr6(), 1u8..5, 0u8..5, rest(), valid6(), quoted(40))
            .prop_map(|(src, dst, icmp_type, code, rest, about, cut)| {
                let mut quote = about.bytes();
                quote.truncate(cut);
                error6(&src.to_string(), &dst.to_string(), icmp_type, code, rest, &quote).bytes()
            }),
    ]
}

/// Changes some bytes of a packet, or cuts or appends some.
pub fn mutated(message: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
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
            // With a correct header checksum, mutations pass the first check.
            if how != 2 && bytes.len() >= 60 && bytes[0] >> 4 == 4 {
                let len = usize::from(bytes[0] & 15).max(5) * 4;
                bytes[10..12].fill(0);
                let checksum = !ones_sum(&bytes[..len]);
                bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            bytes
        })
}

pub fn offload() -> impl Strategy<Value = Offload> {
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
        2 => (checksum, prop::option::of(gso)).prop_map(|(checksum, gso)| Offload { checksum, gso, ..Offload::default() }),
    ]
}
