// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which translated packets of a flow can leave as one super-packet, and builds its headers.
//!
//! consecutive packets of one flow → train → one header for all of them
//!
//! The rules are those of the kernel's own GRO: splitting the super-packet yields the same packets. Only IPv4
//! identifications of packets with DF may differ, where they have no meaning (RFC 6864 section 4.1).

use diolkos_xlat::csum;
use diolkos_xlat::{Checksum, Gso, GsoKind, Label, Offload};

const TCP: u8 = 6;
const UDP: u8 = 17;
const FLAGS_AT: usize = 13;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// The length field of IPv4 counts its header; that of IPv6 would allow a few bytes more.
const LONGEST: usize = u16::MAX as usize;
/// The longest headers: IPv6, and TCP with all options.
pub const HEADERS: usize = 40 + 60;
/// Maximum number of packets in a train. The kernel splits a UDP super-packet into at most this many datagrams
/// (UDP_MAX_SEGMENTS before Linux 6.9).
pub const MOST: usize = 64;

/// Identifies a flow: addresses, ports, protocol, family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow([u8; 38]);

impl Flow {
    /// Returns a tag that distinguishes it from most others.
    pub fn tag(&self) -> u32 {
        let words = self.0.chunks(4).map(|word| {
            word.iter()
                .fold(0, |word, &byte| word << 8 | u32::from(byte))
        });
        words.fold(0, |tag, word| {
            (tag.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b1)
        })
    }
}

/// Returns the flow of a TCP or UDP packet; `None` for other packets, which may belong to any flow.
pub fn flow(packet: &[u8]) -> Option<Flow> {
    let (l4_at, protocol) = transport(packet)?;
    let mut flow = [0; 38];
    let addresses = if l4_at == 40 { 8..40 } else { 12..20 };
    flow[..addresses.len()].copy_from_slice(&packet[addresses]);
    flow[32..36].copy_from_slice(packet.get(l4_at..l4_at + 4)?);
    (flow[36], flow[37]) = (protocol, packet[0] >> 4);
    Some(Flow(flow))
}

/// Returns the offset of the TCP or UDP header, and the protocol, of a packet without options, extensions and
/// fragmentation.
fn transport(packet: &[u8]) -> Option<(usize, u8)> {
    let (at, protocol) = match packet.first()? {
        0x45 if packet.len() >= 20 && packet[6] & 0x3f == 0 && packet[7] == 0 => (20, packet[9]),
        first if first >> 4 == 6 && packet.len() >= 40 => (40, packet[6]),
        _ => return None,
    };
    matches!(protocol, TCP | UDP).then_some((at, protocol))
}

/// A packet that others may follow, or that may follow others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroSegment {
    kind: GsoKind,
    l4_at: usize,
    /// Bytes of all headers.
    headers: usize,
    data: usize,
    label: Label,
    /// True if its checksum has still to be verified.
    unchecked: bool,
}

/// Returns the description of a packet. `checked`: a device has verified the checksum. `None`: the packet must leave
/// unchanged.
pub fn part(packet: &[u8], offload: Offload, checked: bool) -> Option<GroSegment> {
    let (l4_at, protocol) = transport(packet)?;
    let length = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let is_right = match l4_at {
        40 => 40 + length(4) == packet.len(),
        at => length(2) == packet.len() && csum::sum(&packet[..at]).fold() == 0xffff,
    };
    let transport = is_right.then_some(&packet[l4_at..])?;
    let (kind, len) = if protocol == TCP {
        // All other flags begin, end or change something.
        let plain = transport.get(FLAGS_AT)? & !PSH == ACK && transport[12] & 0x0f == 0;
        let len = usize::from(transport[12] >> 4) * 4;
        (GsoKind::Tcp, (plain && len >= 20).then_some(len)?)
    } else {
        // A datagram without a checksum would get one.
        let length = usize::from(u16::from_be_bytes([*transport.get(4)?, *transport.get(5)?]));
        let checksum = [*transport.get(6)?, *transport.get(7)?];
        let plain = length == transport.len()
            && (checksum != [0, 0] || offload.checksum == Checksum::Partial);
        (GsoKind::Udp, plain.then_some(8)?)
    };
    let data = transport.len().checked_sub(len).filter(|&data| data > 0)?;
    offload.gso.is_none().then_some(GroSegment {
        kind,
        l4_at,
        headers: l4_at + len,
        data,
        label: offload.label,
        unchecked: offload.checksum == Checksum::Complete && !checked,
    })
}

impl GroSegment {
    /// Returns the range of the data in the packet.
    pub fn data(&self) -> std::ops::Range<usize> {
        self.headers..self.headers + self.data
    }

    /// Returns true if it is a datagram.
    pub fn is_udp(&self) -> bool {
        self.kind == GsoKind::Udp
    }

    /// Checks what must hold before the packet can lose its own checksum.
    fn is_whole(&self, packet: &[u8]) -> bool {
        let transport = &packet[self.l4_at..];
        let sum = || csum::sum(transport).plus(self.pseudo(packet, transport.len()));
        !self.unchecked || sum().fold() == 0xffff
    }

    fn pseudo(&self, packet: &[u8], len: usize) -> csum::Sum {
        let addresses = if self.l4_at == 40 { 8..40 } else { 12..20 };
        let protocol = if self.kind == GsoKind::Tcp { TCP } else { UDP };
        csum::sum(&packet[addresses])
            .word(protocol.into())
            .long(len as u32)
    }
}

/// Packets that will leave together. It has the headers of the first, and what is equal for all others.
#[derive(Clone, Debug)]
pub struct Train {
    /// The flow of all its packets.
    pub flow: Flow,
    first: GroSegment,
    header: [u8; HEADERS],
    data: usize,
    packets: u16,
    /// True if no packet can follow.
    pub is_closed: bool,
}

impl Train {
    /// Begins a train with one packet.
    pub fn new(flow: Flow, packet: &[u8], part: GroSegment) -> Train {
        let mut header = [0; HEADERS];
        header[..part.headers].copy_from_slice(&packet[..part.headers]);
        Train {
            flow,
            first: part,
            header,
            data: part.data,
            packets: 1,
            is_closed: pushes(&part, packet),
        }
    }

    /// Returns the label of all its packets.
    pub fn label(&self) -> Label {
        self.first.label
    }

    /// Appends a packet of the same flow, if it is the next one. `first` is the packet with which the train began.
    pub fn take(&mut self, packet: &[u8], part: &GroSegment, first: &[u8]) -> bool {
        let fits = !self.is_closed
            && (part.kind, part.headers) == (self.first.kind, self.first.headers)
            && part.label == self.first.label
            && part.data <= self.first.data
            && self.first.headers + self.data + part.data <= LONGEST
            && self.is_next(packet)
            && self.first.is_whole(first)
            && part.is_whole(packet);
        if fits {
            self.first.unchecked = false;
            self.data += part.data;
            self.packets += 1;
            self.is_closed = part.data < self.first.data
                || pushes(part, packet)
                || usize::from(self.packets) == MOST;
            if part.kind == GsoKind::Tcp {
                self.header[self.first.l4_at + FLAGS_AT] |=
                    packet[self.first.l4_at + FLAGS_AT] & PSH;
            }
        }
        fits
    }

    /// Returns true if a packet has the headers that splitting the super-packet would give to the next one.
    fn is_next(&self, packet: &[u8]) -> bool {
        let l4_at = self.first.l4_at;
        let (ours, theirs) = (&self.header, packet);
        let same = |range: std::ops::Range<usize>| ours[range.clone()] == theirs[range];
        let ip = if l4_at == 40 {
            same(0..4) && same(6..40)
        } else {
            let id = |header: &[u8]| u16::from_be_bytes([header[4], header[5]]);
            let counts = id(theirs) == id(ours).wrapping_add(self.packets);
            same(0..2) && same(6..10) && same(12..20) && (counts || ours[6] & 0x40 != 0)
        };
        let tcp = || {
            let number = |header: &[u8]| {
                let at = l4_at + 4;
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            let next = number(ours).wrapping_add(self.data as u32);
            let after = l4_at + 18..self.first.headers;
            number(theirs) == next
                && same(l4_at + 8..l4_at + FLAGS_AT)
                && same(l4_at + 14..l4_at + 16)
                && same(after)
        };
        ip && same(l4_at..l4_at + 4) && (self.first.kind == GsoKind::Udp || tcp())
    }

    /// Returns true if it has several packets.
    pub fn is_joined(&self) -> bool {
        self.packets > 1
    }

    /// Returns true if it is a train of datagrams.
    pub fn is_udp(&self) -> bool {
        self.first.kind == GsoKind::Udp
    }

    /// Returns the headers of the super-packet, and its offload header.
    pub fn headers(&self) -> ([u8; HEADERS], usize, Offload) {
        let mut header = self.header;
        let l4_at = self.first.l4_at;
        let len = self.first.headers - l4_at + self.data;
        let length = len as u16;
        let mut put = |at: usize, value: u16| csum::set_field(&mut header, at, value);
        let seed = self.first.pseudo(&self.header, len).fold();
        if self.is_udp() {
            put(l4_at + 4, length);
            put(l4_at + 6, seed);
        } else {
            put(l4_at + 16, seed);
        }
        if l4_at == 40 {
            put(4, length);
        } else {
            put(2, l4_at as u16 + length);
            put(10, 0);
            let sum = !csum::sum(&header[..l4_at]).fold();
            csum::set_field(&mut header, 10, sum);
        }
        let gso = Gso {
            kind: self.first.kind,
            size: self.first.data as u16,
        };
        let offload = Offload {
            checksum: Checksum::Partial,
            gso: Some(gso),
            label: self.first.label,
        };
        (header, self.first.headers, offload)
    }
}

/// Returns true if TCP asks to deliver the data so far to the reader.
fn pushes(part: &GroSegment, packet: &[u8]) -> bool {
    part.kind == GsoKind::Tcp && packet[part.l4_at + FLAGS_AT] & PSH != 0
}

#[cfg(test)]
mod tests;
