// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that the slow path sends to another gateway: written with a spoilt byte, whose original value is in the slot
//! beside the queue.

use std::io::IoSlice;
use std::net::Ipv6Addr;

use diolkos_fastpath::{Attach, Slip, LABEL_HEAD, SPOILT_V4, SPOILT_V6};
use diolkos_sys::vnet::{self, Header, Segments, Shape};
use rustix::thread::{sched_setaffinity, CpuSet};

use crate::world::*;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// A packet with its spoilt byte, and the original byte.
fn spoilt(packet: &[u8]) -> (Vec<u8>, u8) {
    let mut packet = packet.to_vec();
    let (at, wrong) = match packet[0] >> 4 {
        4 => (SPOILT_V4, !packet[SPOILT_V4]),
        _ => (SPOILT_V6, 0xff),
    };
    let right = std::mem::replace(&mut packet[at], wrong);
    (packet, right)
}

impl World {
    /// Writes a packet as the slow path does. Returns true if the program has found it in its slot.
    fn lead(&self, front: [u8; vnet::LEN], packet: &[u8], mark: u32) -> bool {
        let (packet, right) = spoilt(packet);
        let slots = self.labels().slots();
        slots.set(0, &slip(&packet, mark, right));
        self.write(front, &packet);
        slots.clear(0)
    }

    /// The next packet that the other gateway receives, without the Ethernet header.
    fn seen(&self) -> Vec<u8> {
        let frame = self.cable.next_to(OTHER_GATEWAY);
        let kind = if frame[14] >> 4 == 6 {
            [0x86, 0xdd]
        } else {
            [8, 0]
        };
        assert_eq!(frame[6..14], [&CABLE[..], &kind].concat());
        frame[14..].to_vec()
    }
}

fn slip(packet: &[u8], mark: u32, right: u8) -> Slip {
    let mut head = [0; LABEL_HEAD];
    let known = packet.len().min(LABEL_HEAD);
    head[..known].copy_from_slice(&packet[..known]);
    Slip {
        len: packet.len(),
        head,
        mark,
        priority: 0,
        gateway: Some((other(), right)),
    }
}

const PLAIN: [u8; vnet::LEN] = [0; vnet::LEN];

fn fragments(of: fn(u8) -> Vec<u8>) -> Vec<Vec<u8>> {
    // The bytes after the IP headers are not read.
    let whole = of(61);
    if whole[0] >> 4 == 4 {
        return [0x2000u16, 0x2002, 0x0004]
            .map(|place| {
                let mut piece = whole.clone();
                piece[6..8].copy_from_slice(&place.to_be_bytes());
                summed(piece)
            })
            .to_vec();
    }
    [0x0001u16, 0x0009, 0x0010]
        .map(|place| {
            let mut piece = whole[..40].to_vec();
            (piece[6], piece[5]) = (44, 8 + 12);
            piece.extend([UDP, 0]);
            piece.extend(place.to_be_bytes());
            piece.extend([0, 0, 0, 9]);
            piece.extend(&whole[40..]);
            piece
        })
        .to_vec()
}

/// Computes the header checksum.
fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10..12].fill(0);
    let sum: u32 = packet[..20]
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A super-packet of three segments, and its offload header.
fn super_packet(is_v6: bool, protocol: u8) -> ([u8; vnet::LEN], Vec<u8>) {
    const SIZE: usize = 1000;
    let data: Vec<u8> = (0..2500).map(|at| (at % 251) as u8).collect();
    let l4_len = if protocol == TCP { 20 } else { 8 };
    let len = l4_len + data.len();
    let mut packet = if is_v6 { ipv6(61) } else { ipv4(61) };
    let l4_at = if is_v6 { 40 } else { 20 };
    packet.truncate(l4_at);
    let total = if is_v6 { len } else { 20 + len } as u16;
    if is_v6 {
        packet[4..6].copy_from_slice(&total.to_be_bytes());
        packet[6] = protocol;
    } else {
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[9] = protocol;
        packet = summed(packet);
    }
    let addresses = if is_v6 { 8..40 } else { 12..20 };
    let pseudo = [
        &packet[addresses],
        &[0, protocol],
        &(len as u16).to_be_bytes(),
    ]
    .concat();
    let sum: u32 = pseudo
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let seed = ((sum & 0xffff) + (sum >> 16)) as u16;
    let mut l4 = vec![0x0f, 0xa0, 0, 53];
    if protocol == TCP {
        l4.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0x20, 0]);
        l4.extend(seed.to_be_bytes());
        l4.extend([0, 0]);
    } else {
        l4.extend((len as u16).to_be_bytes());
        l4.extend(seed.to_be_bytes());
    }
    packet.extend(l4);
    packet.extend(data);
    let kind = if protocol == TCP {
        Segments::Tcp { ecn: false }
    } else {
        Segments::Udp
    };
    let header = Header {
        partial_checksum: true,
        segments: Some((kind, SIZE as u16)),
    };
    let front = header.emit(&Shape {
        ipv6: is_v6,
        l4_offset: l4_at as u16,
        l4_len: l4_len as u16,
        checksum_offset: if protocol == TCP { 16 } else { 6 },
    });
    (front, packet)
}

fn packets_go_as_they_were_written(attach: Attach) {
    let world = world(attach);
    for of in [ipv6, ipv4] {
        for packet in [vec![of(61)], fragments(of)].concat() {
            assert!(world.lead(PLAIN, &packet, 0));
            assert_eq!(world.seen(), packet);
            // The shortest packet, which is identified by all its bytes.
            let bare = packet[0] >> 4 == 4 && packet[6] & 0x20 == 0;
            if bare {
                let mut packet = packet[..20].to_vec();
                packet[2..4].copy_from_slice(&[0, 20]);
                let packet = summed(packet);
                assert!(world.lead(PLAIN, &packet, 0));
                assert_eq!(world.seen()[..20], packet);
            }
        }
    }
    let count = world.labels().count();
    assert_eq!(count, Default::default());
    // The forwarding program has not seen them, and none has returned to the device.
    assert_eq!(world.counts(), [0, 0]);
    assert_eq!(world.unread(), 0);
}

#[test]
fn packets_of_the_slow_path_reach_the_other_gateway() {
    in_own_namespace(|| packets_go_as_they_were_written(Attach::Auto));
}

#[test]
fn packets_of_the_slow_path_reach_the_other_gateway_by_a_queueing_discipline() {
    in_own_namespace(|| packets_go_as_they_were_written(Attach::Clsact));
}

/// A virtual cable passes super-packets whole. The other end sees the written packet, or its segments if the kernel
/// does not accept UDP super-packets.
#[test]
fn super_packets_reach_the_other_gateway() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        for is_v6 in [true, false] {
            let (front, packet) = super_packet(is_v6, TCP);
            assert!(world.lead(front, &packet, 0));
            let mut seen = world.seen();
            assert_eq!(seen.len(), packet.len());
            seen[10..12].copy_from_slice(&packet[10..12]);
            assert_eq!(seen, packet);
        }
        for is_v6 in [true, false] {
            let (front, packet) = super_packet(is_v6, UDP);
            let (bytes, right) = spoilt(&packet);
            world.labels().slots().set(0, &slip(&bytes, 0, right));
            let pieces = [&front[..], &bytes].map(IoSlice::new);
            if world.tun.queues[0].write_vectored(&pieces).is_err() {
                // Linux before 6.2.
                world.labels().slots().clear(0);
                continue;
            }
            assert!(world.labels().slots().clear(0));
            let seen = world.seen();
            assert_eq!(seen.len(), packet.len());
            assert_eq!(seen[20..], packet[20..]);
        }
        assert_eq!(world.unread(), 0);
    });
}

/// Network cards cut super-packets: on a link without these offloads, segments are sent.
#[test]
fn super_packets_are_cut_for_the_link() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        let off = "ethtool -K cable gso off tso off tx off";
        assert!(shell(off), "{off}");
        for (is_v6, headers) in [(true, 60), (false, 40)] {
            let (front, packet) = super_packet(is_v6, TCP);
            assert!(world.lead(front, &packet, 0));
            let mut data = Vec::new();
            for len in [1000, 1000, 500] {
                let seen = world.seen();
                assert_eq!(seen.len(), headers + len);
                let addresses = if is_v6 { 8..40 } else { 12..20 };
                assert_eq!(seen[addresses.clone()], packet[addresses]);
                assert!(is_v6 || summed(seen[..20].to_vec()) == seen[..20]);
                data.extend_from_slice(&seen[headers..]);
            }
            assert_eq!(data, packet[headers..]);
        }
    });
}

/// A packet that arrives too late for its slot, as with RPS, or that never had one.
#[test]
fn what_misses_its_slot_goes_nowhere() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        let slots = world.labels().slots();
        for of in [ipv6, ipv4] {
            for packet in [vec![of(61)], fragments(of)].concat() {
                let (packet, right) = spoilt(&packet);
                // The slot is empty.
                world.write(PLAIN, &packet);
                // The slot holds another packet.
                let mut another = packet.clone();
                *another.last_mut().expect("it has bytes") ^= 1;
                another.push(0);
                slots.set(0, &slip(&another, 0, right));
                world.write(PLAIN, &packet);
                assert!(!slots.clear(0));
            }
        }
        // A packet that returned would be at the device by now, because the next one has arrived there on the same
        // path.
        assert_eq!(world.unread(), 0);
        assert_eq!(world.counts(), [0, 0]);
        assert!(world.lead(PLAIN, &ipv6(61), 0));
        assert_eq!(world.seen(), ipv6(61));
    });
}

/// Pins this thread to the first CPU.
fn run_on_first_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).expect("the first CPU is there");
}

/// The real case: the kernel moves packets of the device to another CPU.
#[test]
fn with_receive_packet_steering_nothing_turns_back() {
    in_own_namespace(|| {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return;
        }
        let world = world(Attach::Auto);
        run_on_first_cpu();
        // Mounts sysfs of this namespace, and sends packets of the device to the second CPU.
        let steers = "unshare -m sh -ec 'mount -t sysfs none /sys; echo 2 > /sys/class/net/nat64/queues/rx-0/rps_cpus'";
        assert!(shell(steers), "{steers}");
        let mut met = 0;
        for round in 0..100 {
            for of in [ipv6, ipv4] {
                met += u32::from(world.lead(PLAIN, &of(100 + round), 0));
            }
        }
        println!("{met} of 200 have met their slots");
        // After all of them.
        lead_to_host();
        world.answer();
        for _ in 0..met {
            world.seen();
        }
        assert_eq!(world.unread(), 0);
        assert_eq!(world.counts(), [0, 0]);
    });
}

/// A packet is sent with the mark with which it arrived.
#[test]
fn the_mark_goes_with_the_packet() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        // Packets sent from this end have their marks.
        let leaving = Wire::at("cable");
        leaving.only_marked(7);
        for packet in [ipv6(61), ipv4(61)] {
            for (mark, marked) in [(0, 0), (7, 1), (8, 0)] {
                assert!(world.lead(PLAIN, &packet, mark));
                assert_eq!(world.seen(), packet);
                assert_eq!(leaving.unseen(OTHER_GATEWAY), marked);
            }
        }
    });
}

#[test]
fn without_a_way_packets_are_dropped_and_counted() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        let lead = |way| world.forwarding().lead(other(), way);
        lead(None).expect("the map takes it");
        assert!(world.lead(PLAIN, &ipv6(61), 0));
        assert_eq!(world.labels().count().no_way, 1);
        lead(Some(way())).expect("the map takes it");
        assert!(world.lead(PLAIN, &ipv4(61), 0));
        assert_eq!(world.seen(), ipv4(61));
        assert_eq!(world.unread(), 0);
    });
}

/// Programs count the packets that they leave to the slow path, by reason.
#[test]
fn what_programs_leave_to_the_slow_path_is_counted() {
    in_own_namespace(|| {
        let world = world(Attach::Auto);
        let lead = |way| world.forwarding().lead(other(), way);
        let packets = [ipv6 as fn(u8) -> Vec<u8>, ipv4];
        for of in packets {
            world.hosts.send(&frame(HOSTS, &of(2)));
            assert_eq!(world.read(), of(1));
        }
        let short = diolkos_fastpath::Gateway { mtu: 31, ..way() };
        for (way, of) in [(Some(short), packets), (None, packets)] {
            lead(way).expect("the map takes it");
            for of in of {
                world.hosts.send(&frame(HOSTS, &of(64)));
                assert_eq!(world.read(), of(63));
            }
        }
        let count = world.forwarding().count(other()).expect("it is read");
        assert_eq!((count.hops, count.too_big, count.no_way), (2, 2, 2));
        assert_eq!((count.packets, count.dropped), (0, 0));
    });
}

/// The source addresses are not multicast and the checksums are correct, so both can be spoilt.
#[test]
fn every_packet_can_be_spoilt() {
    for packet in [ipv6(1), ipv4(1)] {
        let (bytes, right) = spoilt(&packet);
        assert_ne!(bytes, packet);
        assert_eq!(
            right,
            packet[if packet[0] >> 4 == 4 {
                SPOILT_V4
            } else {
                SPOILT_V6
            }]
        );
        if packet[0] >> 4 == 6 {
            let src: [u8; 16] = bytes[8..24].try_into().expect("an address");
            assert!(Ipv6Addr::from(src).is_multicast());
        } else {
            assert_ne!(summed(bytes.clone()), bytes);
        }
    }
}
