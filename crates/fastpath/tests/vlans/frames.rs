// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames with tags (IEEE 802.1Q clause 9), and what a host may make of them.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::world::{Side, SIDES};

const TAG: u16 = 0x8100;
const PROVIDER: u16 = 0x88a8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Without the checksum that the card adds.
const SHORTEST: usize = 60;

/// A tag: its type, and priority and number of the VLAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u16, pub u16);

impl Tag {
    pub fn vlan(number: u16) -> Tag {
        Tag(TAG, number)
    }
}

#[derive(Clone, Debug)]
pub struct Frame {
    to: [u8; 6],
    tags: Vec<Tag>,
    kind: u16,
    packet: Vec<u8>,
    /// Bytes that are missing at the end.
    cut: usize,
}

impl Frame {
    /// A frame as its neighbour sends it to a side.
    pub fn at(side: &Side, packet: Vec<u8>) -> Frame {
        Frame {
            to: side.address(),
            tags: side.vlan.map(Tag::vlan).into_iter().collect(),
            kind: if packet[0] >> 4 == 6 { IPV6 } else { IPV4 },
            packet,
            cut: 0,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.to, [2, 0, 0, 0, 0, 0x99]].concat();
        for Tag(kind, tci) in &self.tags {
            bytes.extend(kind.to_be_bytes());
            bytes.extend(tci.to_be_bytes());
        }
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend(&self.packet);
        if self.cut > 0 {
            // The kernel runs programs on frames with a whole header of Ethernet only.
            bytes.truncate(bytes.len().saturating_sub(self.cut).max(14));
        } else if bytes.len() < SHORTEST {
            bytes.resize(SHORTEST, 0xaa);
        }
        bytes
    }

    /// Does one of the things that make it a frame of another network, or none.
    pub fn worsen(&mut self, random: &mut Random) {
        let tci = random.below(0x1_0000) as u16;
        match random.below(12) {
            0 => self.tags.clear(),
            1 => self.tags = vec![Tag(TAG, tci)],
            2 => self.tags.insert(0, Tag(TAG, tci)),
            3 => self.tags.push(Tag(TAG, tci)),
            4 => self.tags.push(Tag(PROVIDER, tci & 0xf000 | 10)),
            5 => self.tags.iter_mut().for_each(|tag| tag.0 = PROVIDER),
            6 => self.to = random.of(&SIDES).address(),
            7 => self.to = [2, 0, 0, 0, 0, tci as u8],
            8 => self.kind = tci,
            9 => self.cut = 1 + random.below(64) as usize,
            10 => self.tags = vec![Tag::vlan(u16::from(tci & 1 == 0) * 10 + 10)],
            // Priorities are of no consequence.
            _ => self.tags.iter_mut().for_each(|tag| tag.1 |= tci & 0xf000),
        }
    }

    /// The side that the kernel would receive it by, if a program may translate it.
    pub fn received_by(&self) -> Option<Side> {
        let vlan = match self.tags[..] {
            [] => None,
            [Tag(TAG, tci)] if tci & 0xfff != 0 => Some(tci & 0xfff),
            _ => return None,
        };
        let is_whole = self.cut == 0 && self.kind == if self.is_ipv6() { IPV6 } else { IPV4 };
        let sides = SIDES.into_iter();
        sides
            .filter(|_| is_whole)
            .find(|side| side.vlan == vlan && side.address() == self.to)
    }

    fn is_ipv6(&self) -> bool {
        self.packet[0] >> 4 == 6
    }

    /// Checks what has become of the packet: its addresses' family, its length, and every byte that the host sent.
    pub fn check(&self, got: &[u8], is_ipv6: bool) {
        let (before, behind) = if is_ipv6 { (20, 40) } else { (40, 20) };
        let len = self.packet.len() - before + behind;
        assert_eq!(got[0] >> 4, if is_ipv6 { 6 } else { 4 });
        // Ports and payload; the checksum behind the ports is checked below.
        assert_eq!(got[behind..behind + 6], self.packet[before..before + 6]);
        assert_eq!(got[behind + 8..len], self.packet[before + 8..]);
        assert_eq!(udp_sum(&got[..len], behind), 0xffff, "{got:02x?}");
        // A frame that a switch takes the tag off is still long enough.
        assert_eq!(got.len(), len.max(SHORTEST - 14));
        assert!(got[len..].iter().all(|byte| *byte == 0));
    }
}

/// Destination, source, tags, type, and what is behind.
pub fn parts(frame: &[u8]) -> ([u8; 6], [u8; 6], Vec<Tag>, u16, &[u8]) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (mut at, mut tags) = (12, Vec::new());
    while [TAG, PROVIDER].contains(&word(at)) {
        tags.push(Tag(word(at), word(at + 2)));
        at += 4;
    }
    let address = |at: usize| frame[at..at + 6].try_into().expect("six bytes");
    (address(0), address(6), tags, word(at), &frame[at + 2..])
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum()
}

fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// The sum over a datagram with its pseudo-header (RFC 768, RFC 8200 section 8.1): all ones if it is right.
fn udp_sum(packet: &[u8], header: usize) -> u16 {
    let addresses = if header == 40 { 8..40 } else { 12..20 };
    let len = (packet.len() - header) as u32;
    folded(sum(&packet[addresses]) + len + 17 + sum(&packet[header..]))
}

fn with_udp(mut header: Vec<u8>, size: usize) -> Vec<u8> {
    let at = header.len();
    header.extend([0x13, 0x88, 0x0f, 0xa0]);
    header.extend(((8 + size) as u16).to_be_bytes());
    header.extend([0, 0]);
    header.extend((0..size).map(|at| at as u8 ^ 0x5a));
    let check = !udp_sum(&header, at);
    header[at + 6..at + 8].copy_from_slice(&check.to_be_bytes());
    header
}

/// From the IPv4 host behind one side to the mapped address of the other's.
pub fn datagram4(from: &Side, to: &Side, size: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(((28 + size) as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    header.extend(from.v4.octets());
    header.extend(Ipv4Addr::octets(&to.mapped));
    let check = !folded(sum(&header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
    with_udp(header, size)
}

/// From the IPv6 host behind one side to the IPv4 host behind the other.
pub fn datagram6(from: &Side, to: &Side, size: usize) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(((8 + size) as u16).to_be_bytes());
    header.extend([17, 64]);
    header.extend(from.v6.octets());
    let [a, b, c, d] = to.v4.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    header.extend(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).octets());
    with_udp(header, size)
}

/// The same numbers at every run (Knuth's MMIX).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub fn of(&mut self, sides: &[Side]) -> Side {
        sides[self.below(sides.len() as u64) as usize]
    }
}
