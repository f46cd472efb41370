// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long sequences of packets from both sides, many of them corrupted, truncated, repeated, quoted, or
//! with an invalid offload. In all cases sent packets are well-formed, limits hold, and no state is
//! left after everything has expired.

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use diolkos_nat64::config::{Filtering, Nat64Config, Protocol};
use diolkos_xlat::{Checksum, Gso, GsoKind, Offload, UdpZeroChecksum, Verdict};

const STEPS: usize = 20_000;

pub struct Sender {
    random: Box<dyn FnMut() -> u64>,
    /// Recently sent packets, which are answered and quoted.
    pub left: Vec<Vec<u8>>,
    /// One in this many new packets is a fragment.
    pub one_fragment_in: usize,
}

impl Sender {
    pub fn new() -> Sender {
        Sender {
            random: Box::new(random()),
            left: vec![],
            one_fragment_in: 5,
        }
    }

    /// A packet from one of the sides, sometimes corrupted.
    pub fn packet(&mut self) -> (Vec<u8>, bool) {
        let mut packet = match self.below(5) {
            0 | 1 => self.of_ipv6(),
            2 | 3 => self.of_ipv4(),
            _ => self.echoed(),
        };
        let is_spoilt = self.below(3) == 0;
        if is_spoilt {
            self.spoil(&mut packet);
        }
        (packet, is_spoilt)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.random)() % n as u64) as usize
    }

    fn recent(&mut self) -> Option<Vec<u8>> {
        let at = self.below(self.left.len().max(1));
        self.left.get(at).cloned()
    }

    fn transport(&mut self, src: u16, dst: u16, is_v6: bool) -> (u8, Vec<u8>) {
        let data = pattern(self.below(40));
        match self.below(6) {
            0 | 1 => {
                let flags = [SYN, SYN | ACK, ACK, ACK | 1, 4][self.below(5)];
                (6, tcp_of(src, dst, flags, &data))
            }
            2 | 3 => (17, udp_of(src, dst, &data)),
            4 if is_v6 => (58, echo_of(128 + self.below(2) as u8, src, &data)),
            4 => (1, echo_of(8 * self.below(2) as u8, dst, &data)),
            _ => (17, udp_of(src, dst, &pattern(1400))),
        }
    }

    /// A packet from one of a few nodes, to a peer or to the pool.
    fn of_ipv6(&mut self) -> Vec<u8> {
        let node = format!("2001:db8:{}::1", self.below(3));
        let peer = ["192.0.2.33", "192.0.2.34", "203.0.113.1"][self.below(3)];
        let dst = format!("2001:db8:6{}::{peer}", 4 + self.below(2));
        let ports = (5000 + self.below(4) as u16, 2000 + self.below(12) as u16);
        let (protocol, l4) = self.transport(ports.0, ports.1, true);
        let mut packet = packet6(&node, &dst, protocol, l4);
        if self.below(self.one_fragment_in) == 0 {
            let (first, id) = (self.below(2) == 0, self.below(3) as u32);
            let len = packet.payload.len();
            let cut = (len / 16 * 8).min(len);
            let mut payload =
                fragment_header(protocol, if first { 0 } else { cut as u16 / 8 }, first, id);
            payload.extend(if first {
                &packet.payload[..cut]
            } else {
                &packet.payload[cut..]
            });
            (packet.next_header, packet.payload) = (44, payload);
        }
        packet.bytes()
    }

    fn of_ipv4(&mut self) -> Vec<u8> {
        let peer = ["192.0.2.33", "192.0.2.34", "192.0.2.35"][self.below(3)];
        let ports = (2000 + self.below(12) as u16, 2000 + self.below(12) as u16);
        let (protocol, l4) = self.transport(ports.0, ports.1, false);
        let mut packet = packet4(peer, POOL, protocol, l4);
        packet.flags_and_offset = [0, DF][self.below(2)];
        if self.below(self.one_fragment_in) == 0 {
            let (first, id) = (self.below(2) == 0, self.below(3) as u16);
            let cut = packet.l4.len() / 16 * 8;
            packet.id = id;
            packet.flags_and_offset = if first { MF } else { cut as u16 / 8 };
            packet.l4 = if first {
                packet.l4[..cut].to_vec()
            } else {
                packet.l4[cut..].to_vec()
            };
        }
        packet.bytes()
    }

    /// A response to a sent packet: an error about it, or the packet with its endpoints exchanged.
    fn echoed(&mut self) -> Vec<u8> {
        let Some(packet) = self.recent() else {
            return self.of_ipv6();
        };
        let len = (28 + self.below(200)).min(packet.len());
        let is_v6 = packet[0] >> 4 == 6;
        if self.below(2) == 0 {
            if is_v6 {
                let to = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&packet[8..24]).unwrap());
                let kind = 1 + self.below(4) as u8;
                return error6(
                    "2001:db8:9::9",
                    &to.to_string(),
                    kind,
                    0,
                    [0, 0, 5, 0],
                    &packet[..len.max(40)],
                )
                .bytes();
            }
            let kind = [3, 11, 12][self.below(3)];
            let code = self.below(5) as u8;
            return error4(
                "198.51.100.9",
                POOL,
                kind,
                code,
                [0, 0, 5, 0],
                &packet[..len],
            )
            .bytes();
        }
        let mut back = packet;
        let (at, size, ports) = if is_v6 { (8, 16, 40) } else { (12, 4, 20) };
        for n in 0..size {
            back.swap(at + n, at + size + n);
        }
        if back.len() >= ports + 4 && ![1, 58].contains(&back[if is_v6 { 6 } else { 9 }]) {
            back.swap(ports, ports + 2);
            back.swap(ports + 1, ports + 3);
        }
        back
    }

    fn spoil(&mut self, packet: &mut Vec<u8>) {
        for _ in 0..1 + self.below(3) {
            let at = self.below(packet.len().min(80));
            packet[at] = (self.random)() as u8;
        }
        if self.below(3) == 0 {
            let len = self.below(packet.len());
            packet.truncate(len);
        } else if packet.len() >= 20 && packet[0] == 0x45 && self.below(4) != 0 {
            packet[10..12].fill(0);
            let checksum = !ones_sum(&packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    fn offload(&mut self) -> Offload {
        let checksum = [Checksum::Complete, Checksum::Partial][self.below(2)];
        let kind = [GsoKind::Tcp, GsoKind::Udp][self.below(2)];
        let size = [0, 1, 8, 500, 1400][self.below(5)];
        let gso = (self.below(2) == 0).then_some(Gso { kind, size });
        Offload {
            checksum,
            gso,
            ..Offload::default()
        }
    }
}

/// Checks lengths and header checksums.
fn check_headers(packet: &[u8]) {
    match packet[0] >> 4 {
        4 => {
            assert_eq!(packet[0], 0x45);
            assert_eq!(
                usize::from(packet[2]) << 8 | usize::from(packet[3]),
                packet.len()
            );
            assert_eq!(ones_sum(&packet[..20]), 0xffff);
        }
        6 => assert_eq!(
            usize::from(packet[4]) << 8 | usize::from(packet[5]),
            packet.len() - 40
        ),
        other => panic!("version {other}"),
    }
}

/// Checks the transport checksum of a packet that is not a fragment.
fn check_transport(packet: &[u8]) {
    let (protocol, l4, mut sum) = if packet[0] >> 4 == 4 {
        if u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0 {
            return;
        }
        (packet[9], &packet[20..], packet[12..20].to_vec())
    } else {
        (packet[6], &packet[40..], packet[8..40].to_vec())
    };
    if protocol == 44 || protocol == 17 && l4[6..8] == [0, 0] {
        return;
    }
    if protocol == 1 {
        sum.clear();
    } else {
        sum.extend((l4.len() as u32).to_be_bytes());
        sum.extend([0, 0, 0, protocol]);
    }
    sum.extend(l4);
    assert_eq!(
        ones_sum(&sum),
        0xffff,
        "{:02x?}",
        &packet[..packet.len().min(100)]
    );
}

fn storm(change: impl FnOnce(&mut Nat64Config)) {
    let mut w = Router::new(|config| {
        config.pool4[0].ports = 2000..=2011;
        config.limits.sessions = 40;
        config.limits.sessions_per_source = 20;
        config.limits.held_syns = 5;
        config.limits.held_fragments = 8;
        config.limits.fragmented_packets = 10;
        change(config);
    });
    let mut sender = Sender::new();
    let mut forwarded = 0;
    for step in 0..STEPS {
        let (packet, is_spoilt) = sender.packet();
        let offload = match sender.below(8) {
            0 => sender.offload(),
            _ => Offload::default(),
        };
        let (verdict, sent) = w.give_offloaded(&packet, offload);
        forwarded += usize::from(verdict == Verdict::Forward);
        for packet in &sent {
            if offload.gso.is_none() {
                check_headers(packet);
            }
            if !is_spoilt && offload == Offload::default() {
                check_transport(packet);
            }
        }
        // Results of corrupted packets are just as corrupted.
        if !is_spoilt && offload == Offload::default() {
            sender.left.extend(sent);
        }
        let excess = sender.left.len().saturating_sub(50);
        sender.left.drain(..excess);
        let counts = w.nat64.state().counts();
        assert!(counts.sessions <= 40 && counts.held_syns <= 5);
        assert!(w.nat64.held_fragments() <= 8);
        if step % 10 == 0 {
            let seconds = [0.1, 1.0, 3.0, 70.0, 400.0][sender.below(5)];
            for packet in w.wait(seconds) {
                check_headers(&packet);
                check_transport(&packet);
            }
        }
    }
    assert!(forwarded > STEPS / 20, "only {forwarded} were forwarded");
    for _ in 0..3 {
        w.wait(8000.0);
    }
    assert_eq!(w.nat64.state().counts(), Default::default());
    assert_eq!(w.nat64.held_fragments(), 0);
    for protocol in Protocol::ALL {
        assert_eq!(w.nat64.state().pool().free_ports(protocol), 12);
    }
}

#[test]
fn a_storm() {
    storm(|_| {});
}

#[test]
fn a_storm_that_is_filtered() {
    storm(|config| config.filtering = Filtering::AddressDependent);
}

#[test]
fn a_storm_through_narrow_links() {
    storm(|config| {
        config.translator.mtu4 = 600;
        config.translator.mtu6 = 1280;
        config.translator.udp_zero_checksum = Some(UdpZeroChecksum::Compute);
        config.port_preservation = true;
    });
}
