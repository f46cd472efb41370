// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for other gateways, as they are written. No program reads the slots here, so none of the packets meets its
//! slot.

use diolkos_nat64::config::{Gateway, Nat64Config, Pool4, Protocol};
use diolkos_nat64::Nat64;
use diolkos_xlat::Config;

use super::*;

/// Other gateways: the first has a way, the second none.
const REACHED: Gateway = 5;
const UNREACHED: Gateway = 6;
const MTU: u32 = 1400;

/// Packets to these ports belong to another gateway. In front of one to the last of them, two parts leave that have
/// waited.
const TO_REACHED: u8 = 10;
const TO_UNREACHED: u8 = 11;
const AFTER_PARTS: u8 = 12;

/// Forwards with a real NAT64.
struct Gatewayed(Nat64);

impl Engine for Gatewayed {
    fn translate(&self, packet: &mut Packet<'_>, _: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        match packet.bytes()[41] {
            TO_REACHED => Verdict::Elsewhere(REACHED),
            TO_UNREACHED => Verdict::Elsewhere(UNREACHED),
            AFTER_PARTS => {
                for data in [&b"first"[..], b"second"] {
                    let part = &datagram(AFTER_PARTS, data)[VNET..];
                    out.forward(REACHED, part, Offload::default());
                }
                Verdict::Emitted
            }
            _ => Verdict::Forward,
        }
    }

    fn onward(
        &self,
        packet: &mut Packet<'_>,
        mtu: usize,
        env: &mut Clock,
        out: &mut Writer<'_>,
        send: &mut dyn FnMut(&[u8], Offload),
    ) -> Verdict {
        self.0.onward(packet, mtu, env, out, send)
    }
}

fn gateway() -> (QueueReader, UnixDatagram) {
    let config = Nat64Config {
        translator: Config {
            pref64: vec!["2001:db8:64::/96".parse().expect("a prefix")],
            ..Config::default()
        },
        pool4: vec![Pool4 {
            interface: None,
            net: "203.0.113.0/28".parse().expect("a network"),
            ports: 1024..=65535,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![],
        }],
        ..Nat64Config::default()
    };
    let nat64 = Nat64::new(&config, [1, 2, 3, 4]).expect("a configuration");
    let (reader, outside) = reader(|_| Arc::new(Gatewayed(nat64)));
    reader.ways.set(REACHED, Some(MTU));
    (reader, outside)
}

/// Returns a datagram from a host, with addresses to which an ICMP error can be sent.
fn from_host(port: u8, data: &[u8]) -> Vec<u8> {
    let mut packet = datagram(port, data);
    for (at, address) in [(8, "2001:db8:1::10"), (24, "2001:db8:64::198.51.100.2")] {
        let address: std::net::Ipv6Addr = address.parse().expect("an address");
        packet[VNET + at..][..16].copy_from_slice(&address.octets());
    }
    packet
}

/// Returns everything that leaves when these packets arrive.
fn written(reader: &mut QueueReader, outside: &UnixDatagram, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    for packet in packets {
        outside.send(packet).expect("a queue with room");
    }
    while let Ok((place, len)) = reader.slots.read(reader.outlet.queue()) {
        reader.packet(place, len - VNET);
    }
    reader.depart();
    let mut left = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len) = outside.recv(&mut buffer) {
        left.push(buffer[..len].to_vec());
    }
    left
}

fn counted(reader: &QueueReader, name: &str) -> u64 {
    let counters =
        counters::read(None, std::slice::from_ref(&reader.tally)).expect("no kernel is asked");
    let counter = counters.iter().find(|counter| counter.name == name);
    counter.expect(name).packets
}

/// Returns the packet as the kernel must get it: from a group, which it refuses, with one hop less, and with the
/// device's metadata.
fn spoilt(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[VNET + 7] -= 1;
    packet[VNET + 8] = 0xff;
    packet
}

/// They are not joined with others of their flow, nor with each other, and do not keep others from being joined.
#[test]
fn packets_for_another_gateway_leave_as_they_came() {
    let (mut reader, outside) = gateway();
    let there = from_host(TO_REACHED, b"there");
    let packets = [
        from_host(1, b"aa"),
        there.clone(),
        from_host(1, b"bb"),
        with_label(&there, 7, 3),
    ];
    let left = written(&mut reader, &outside, &packets);
    assert_eq!(left.len(), 3);
    assert_eq!(left[0], spoilt(&there));
    assert_eq!(left[1], spoilt(&there));
    assert_eq!(left[2][VNET + 48..], *b"aabb");
    assert_eq!(counted(&reader, "slow.drop.strayed"), 2);
    assert_eq!(counted(&reader, "slow.forwarded"), 0);
    assert_eq!(counted(&reader, "slow.translated_6to4"), 2);
}

#[test]
fn a_super_packet_keeps_its_offload_header() {
    let (mut reader, outside) = gateway();
    let mut packet = from_host(TO_REACHED, &[b'x'; 3000]);
    // VIRTIO_NET_HDR_GSO_UDP_L4, headers, bytes of a segment.
    packet[1] = 5;
    packet[2..4].copy_from_slice(&48u16.to_ne_bytes());
    packet[4..6].copy_from_slice(&1000u16.to_ne_bytes());
    let left = written(&mut reader, &outside, &[packet.clone()]);
    assert_eq!(left, [spoilt(&packet)]);
    // One segment is too long.
    packet[4..6].copy_from_slice(&1353u16.to_ne_bytes());
    let left = written(&mut reader, &outside, &[packet]);
    assert_eq!((left.len(), left[0][VNET + 40]), (1, 2), "Packet Too Big");
}

#[test]
fn parts_that_have_waited_leave_in_their_order() {
    let (mut reader, outside) = gateway();
    let left = written(&mut reader, &outside, &[from_host(AFTER_PARTS, b"last")]);
    let data: Vec<&[u8]> = left.iter().map(|packet| &packet[VNET + 48..]).collect();
    assert_eq!(data, [&b"first"[..], b"second"]);
    assert!(left.iter().all(|packet| packet[VNET + 8] == 0xff));
    assert_eq!(counted(&reader, "slow.drop.strayed"), 2);
}

#[test]
fn what_cannot_get_there_is_answered_and_counted() {
    let (mut reader, outside) = gateway();
    let long = from_host(TO_REACHED, &vec![0; MTU as usize + 1 - 48]);
    let mut last_hop = from_host(TO_REACHED, b"data");
    last_hop[VNET + 7] = 1;
    for (packet, kind, counter) in [
        (&long, 2, "slow.drop.too_big"),
        (&last_hop, 3, "slow.drop.hop_limit"),
    ] {
        let left = written(&mut reader, &outside, std::slice::from_ref(packet));
        assert_eq!((left.len(), left[0][VNET + 40]), (1, kind), "{counter}");
        assert_eq!(counted(&reader, counter), 1);
    }
    assert_eq!(counted(&reader, "slow.originated"), 2);
    let (expired, ends) = counters::expired(std::slice::from_ref(&reader.tally));
    assert_eq!(expired, 1);
    assert!(ends.is_some_and(|ends| ends.src.to_string() == "2001:db8:1::10"));
}

/// None is left to the kernel instead, which would route it back.
#[test]
fn without_a_way_nothing_leaves() {
    let (mut reader, outside) = gateway();
    let drops = |reader: &mut QueueReader, port| {
        let before = counted(reader, "slow.drop.owner_unreachable");
        let left = written(reader, &outside, &[from_host(port, b"data")]);
        assert_eq!(left, Vec::<Vec<u8>>::new());
        counted(reader, "slow.drop.owner_unreachable") - before
    };
    assert_eq!(drops(&mut reader, TO_UNREACHED), 1);
    reader.ways.set(REACHED, None);
    assert_eq!(drops(&mut reader, TO_REACHED), 1);
    assert_eq!(drops(&mut reader, AFTER_PARTS), 2);
    // Nor without the programs.
    reader.ways.set(REACHED, Some(MTU));
    let queue = reader.outlet.queue().try_clone().expect("a descriptor");
    reader.outlet = Arc::new(Outlet::new(queue, None));
    assert_eq!(drops(&mut reader, TO_REACHED), 1);
}
