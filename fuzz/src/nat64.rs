// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of both sides, one after the other, through a NAT64 that remembers; time passes, what left comes back, and the
//! configuration changes in between.
//!
//! configuration, two bytes | steps: what happens, one byte | what it takes
//!
//! Whatever comes, what leaves is whole, limits hold, and when all has expired nothing is left.

use crate::common::{echo, fragment_header, packet4, packet6, pattern, udp, MF, V4, V6};
use crate::input::Input;
use crate::seeds;
use crate::seen::Seen;
use crate::world::{binding, config, e6, Router};
use diolkos_nat64::config::{Filtering, Nat64Config, Protocol};
use diolkos_xlat::{Checksum, Gso, GsoKind, Offload, UdpZeroChecksum, Verdict};
use std::net::Ipv6Addr;

/// The longest sequence: each step can depend on the ones before.
const STEPS: usize = 64;
/// Packets of a seed.
const GROUP: usize = 12;
const SESSIONS: u32 = 12;
const SYNS: u32 = 3;
const FRAGMENTS: u32 = 4;
/// Ports of the pool; few, so that packets of others meet bindings.
const PORTS: std::ops::RangeInclusive<u16> = 2000..=2007;
const BOUND: &str = "203.0.113.1:2000";
/// In seconds; the last one is longer than every timeout.
const PAUSES: [f64; 6] = [0.0, 0.5, 3.0, 70.0, 400.0, 8000.0];

const FILTERING: u8 = 1;
const COMPUTE: u8 = 2;
const PRESERVE: u8 = 4;
const NARROW: u8 = 8;
const OTHER_ORDER: u8 = 16;
const BY_ADDRESS: u8 = 32;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let first = input.byte();
    let mut router = Router::new(|config| change(config, first));
    let mut last = Vec::new();
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        let (packet, offload) = match input.byte() % 8 {
            0..=2 => (input.block().to_vec(), Offload::default()),
            3 => (input.block().to_vec(), offload(&mut input)),
            4 => (answer(&last), Offload::default()),
            5 => (spoilt(&last, &mut input), Offload::default()),
            6 => {
                let sent = router.wait(input.one_of(&PAUSES));
                sent.iter().for_each(|packet| whole(packet));
                continue;
            }
            _ => {
                operate(&mut router, &mut input);
                continue;
            }
        };
        let (verdict, sent) = router.give_offloaded(&packet, offload);
        if offload.gso.is_none() {
            sent.iter().for_each(|packet| whole(packet));
        }
        match verdict {
            Verdict::Forward => assert_eq!(sent.len(), 1, "what is forwarded is all"),
            Verdict::Held => assert!(sent.is_empty(), "what is held is not sent"),
            Verdict::Elsewhere(_) => panic!("it is alone"),
            Verdict::Emitted | Verdict::Drop(_) => {}
        }
        if let Some(packet) = sent.into_iter().next_back() {
            last = packet;
        }
        within_limits(&router);
    }
    over(router);
}

/// Everything is small, so that limits are met.
fn change(config: &mut Nat64Config, has: u8) {
    let flag = |bit: u8| has & bit != 0;
    config.pool4[0].ports = PORTS;
    config.limits.sessions = SESSIONS;
    config.limits.sessions_per_source = SESSIONS / 2;
    config.limits.held_syns = SYNS;
    config.limits.held_fragments = FRAGMENTS;
    config.limits.fragmented_packets = FRAGMENTS;
    config.port_preservation = flag(PRESERVE);
    config.filtering = match flag(FILTERING) {
        true => Filtering::AddressDependent,
        false => Filtering::EndpointIndependent,
    };
    config.limits.source_prefix_len = if flag(BY_ADDRESS) { 128 } else { 64 };
    let translator = &mut config.translator;
    translator.udp_zero_checksum = match flag(COMPUTE) {
        true => Some(UdpZeroChecksum::Compute),
        false => Some(UdpZeroChecksum::Drop),
    };
    if flag(NARROW) {
        (translator.mtu4, translator.mtu6) = (600, 1280);
    }
    if flag(OTHER_ORDER) {
        translator.pref64.reverse();
    }
}

/// What the operator does: another configuration, or a binding more or less.
fn operate(router: &mut Router, input: &mut Input<'_>) {
    let has = input.byte();
    let protocol = Protocol::ALL[usize::from(has) % Protocol::ALL.len()];
    let Router { nat64, watch, .. } = router;
    let bound = binding(protocol, BOUND, e6("2001:db8::1", 5000));
    match has >> 6 {
        0 | 1 => {
            let mut next = config();
            change(&mut next, has);
            // Sizes of tables cannot change, and do not here.
            nat64.reconfigure(&next, watch).expect("it is a good one");
        }
        2 => drop(nat64.state_mut().bind(bound, watch)),
        _ => drop(nat64.state_mut().unbind(protocol, bound.v4, watch)),
    }
}

fn offload(input: &mut Input<'_>) -> Offload {
    let has = input.byte();
    let kind = if has & 2 != 0 {
        GsoKind::Tcp
    } else {
        GsoKind::Udp
    };
    Offload {
        checksum: match has & 1 {
            0 => Checksum::Complete,
            _ => Checksum::Partial,
        },
        gso: (has & 4 != 0).then(|| Gso {
            kind,
            size: input.word(),
        }),
        ..Offload::default()
    }
}

/// What left comes back with its ends exchanged.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut back = packet.to_vec();
    let (at, size, ports) = match packet.first().map(|first| first >> 4) {
        Some(4) => (12, 4, 20),
        Some(6) => (8, 16, 40),
        _ => return back,
    };
    for n in 0..size {
        back.swap(at + n, at + size + n);
    }
    if back.len() >= ports + 4 {
        back.swap(ports, ports + 2);
        back.swap(ports + 1, ports + 3);
    }
    back
}

/// What left comes back with a byte changed, or cut off.
fn spoilt(packet: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let mut back = answer(packet);
    let (at, value) = (usize::from(input.word()), input.byte());
    match back.get_mut(at) {
        Some(byte) => *byte = value,
        None => back.truncate(at % (back.len() + 1)),
    }
    back
}

/// Lengths and the IPv4 header's checksum, read a second time.
fn whole(packet: &[u8]) {
    let seen = Seen::of(packet).expect("what leaves is a packet");
    assert_eq!(
        seen.bytes.len(),
        packet.len(),
        "its length field says how long it is"
    );
    if packet[0] >> 4 == 4 {
        assert_eq!(packet[0], 0x45, "no options");
        assert_eq!(crate::common::ones_sum(&packet[..20]), 0xffff);
    } else {
        let dst: [u8; 16] = packet[24..40].try_into().expect("sixteen bytes");
        assert!(!Ipv6Addr::from(dst).is_unspecified());
    }
}

fn within_limits(router: &Router) {
    let counts = router.nat64.state().counts();
    assert!(
        counts.sessions <= SESSIONS && counts.held_syns <= SYNS as usize,
        "{counts:?}"
    );
    assert!(router.nat64.held_fragments() <= FRAGMENTS as usize);
}

/// Everything expires, but for what the operator has bound.
fn over(mut router: Router) {
    let Router { nat64, watch, .. } = &mut router;
    for protocol in Protocol::ALL {
        let bound = binding(protocol, BOUND, e6("2001:db8::1", 5000));
        drop(nat64.state_mut().unbind(protocol, bound.v4, watch));
    }
    for _ in 0..3 {
        router.wait(8000.0);
    }
    assert_eq!(router.nat64.state().counts(), Default::default());
    assert_eq!(router.nat64.held_fragments(), 0);
    for protocol in Protocol::ALL {
        let free = router.nat64.state().pool().free_ports(protocol);
        assert_eq!(free, PORTS.len() as u64, "a port of {protocol:?} is lost");
    }
}

/// Packets of the vectors, some at a time, to where they find a prefix or the pool; after each one what left comes back.
/// Then time passes.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let packets = seeds::packets();
    let groups = packets.chunks(GROUP).enumerate();
    let mut seeds: Vec<_> = groups
        .map(|(at, group)| {
            let mut seed = vec![at as u8];
            for (_, _, packet) in group {
                seed.push(0);
                let packet = led_here(packet.clone());
                seed.extend((packet.len() as u16).to_be_bytes());
                seed.extend(packet);
                seed.push(4);
            }
            seed.extend([6, 2, 4, 6, 4]);
            (group[0].0.clone(), seed)
        })
        .collect();
    seeds.extend(in_fragments());
    seeds
}

/// Packets that have to be put together: echo of both families, and UDP without checksum. In order, the last one first, twice
/// the same, and overlapping.
fn in_fragments() -> Vec<(String, Vec<u8>)> {
    let echo6 = packet6(
        "2001:db8::1",
        "2001:db8:64::192.0.2.33",
        58,
        echo(128, &pattern(80)),
    );
    let echo4 = packet4("192.0.2.33", "203.0.113.1", 1, echo(8, &pattern(80)));
    let mut without = V4::new("192.0.2.33", "203.0.113.1", 17, udp(&pattern(80)));
    without.l4[2..4].copy_from_slice(&PORTS.start().to_be_bytes());
    let piece6 = |from: usize, to: usize| {
        let more = to < echo6.payload.len();
        let mut payload = fragment_header(58, (from / 8) as u16, more, 7);
        payload.extend(&echo6.payload[from..to]);
        let piece = V6 {
            next_header: 44,
            payload,
            ..echo6.clone()
        };
        piece.bytes()
    };
    let piece4 = |whole: &V4, from: usize, to: usize| {
        let more = if to < whole.l4.len() { MF } else { 0 };
        let piece = V4 {
            id: 7,
            flags_and_offset: more | (from / 8) as u16,
            l4: whole.l4[from..to].to_vec(),
            ..whole.clone()
        };
        piece.bytes()
    };
    let orders: [(&str, &[(usize, usize)]); 4] = [
        ("in-order", &[(0, 48), (48, 88)]),
        ("last-first", &[(48, 88), (0, 48)]),
        ("twice", &[(0, 48), (0, 48), (48, 88)]),
        ("overlapping", &[(0, 48), (40, 88), (48, 88)]),
    ];
    let mut seeds = Vec::new();
    for (name, cuts) in orders {
        // A binding of the operator for what comes from IPv4.
        let mut seed = vec![COMPUTE, 7, 0x80, 7, 0x81, 7, 0x82];
        for &(from, to) in cuts {
            for packet in [
                piece6(from, to),
                piece4(&echo4, from, to),
                piece4(&without, from, to),
            ] {
                seed.push(0);
                seed.extend((packet.len() as u16).to_be_bytes());
                seed.extend(packet);
            }
        }
        seed.extend([4, 6, 2, 4]);
        seeds.push((format!("fragments-{name}"), seed));
    }
    seeds
}

/// With addresses that a NAT64 knows, a port of the pool, and an IPv4 header that is right again; transport checksums may be wrong, which
/// only whoever receives a packet looks at.
fn led_here(mut packet: Vec<u8>) -> Vec<u8> {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            packet[16..20].copy_from_slice(&[203, 0, 113, 1]);
            if packet.len() >= 24 {
                packet[22..24].copy_from_slice(&PORTS.start().to_be_bytes());
            }
            packet[10..12].fill(0);
            let end = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
            let checksum = !crate::common::ones_sum(&packet[..end]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => {
            let peer: Ipv6Addr = "2001:db8:64::192.0.2.33".parse().expect("an address");
            packet[24..40].copy_from_slice(&peer.octets());
        }
        _ => {}
    }
    packet
}
