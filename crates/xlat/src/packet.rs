// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet in the caller's buffer, and the interfaces through which the translator uses its environment.

use crate::verdict::{Gateway, Reason};
use std::time::Duration;

/// Free bytes that a caller must leave in front of a packet for the headers of the other family.
///
/// An ICMPv4 error grows the most at its front: 20 bytes for the outer header, 28 for the inner header with its
/// Fragment header, and up to 80 of padding (RFC 4884 section 5.1). A packet that needs more than the available
/// headroom is dropped ([`crate::Reason::Headroom`]).
pub const HEADROOM: usize = 128;

/// Metadata of a packet from the device. A TUN device passes it in both directions in `virtio_net_hdr`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Offload {
    /// The content of the transport checksum field.
    pub checksum: Checksum,
    /// Set if the packet is a super-packet of several segments.
    pub gso: Option<Gso>,
    /// Copied to every packet that results from this one.
    pub label: Label,
}

/// Local metadata of a packet, which is not sent. Translated packets inherit it; an ICMP error that answers the packet
/// does not. The firewall rules and queues of the host match the mark and the priority.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Label {
    /// Linux: `SO_MARK`.
    pub mark: u32,
    /// Linux: `SO_PRIORITY`.
    pub priority: u32,
    /// Index of the cluster interface on which another gateway sent the packet here, or 0. Such a packet is not passed
    /// on to a further gateway.
    pub link: u32,
}

impl Offload {
    /// Returns true if the device has to finish the packet.
    #[inline]
    pub(crate) fn leaves_work(&self) -> bool {
        self.checksum == Checksum::Partial || self.gso.is_some()
    }

    /// The metadata for a part of the packet, in which all checksums are complete.
    pub fn of_part(&self) -> Offload {
        Offload {
            label: self.label,
            ..Offload::default()
        }
    }
}

/// The content of the transport checksum field.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Checksum {
    /// The complete checksum.
    #[default]
    Complete,
    /// The folded sum of the pseudo-header, not complemented; the device adds the rest. Linux: `CHECKSUM_PARTIAL`,
    /// virtio: `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
    Partial,
}

/// A super-packet, which the device splits into segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// How to split it.
    pub kind: GsoKind,
    /// Transport payload of one segment in bytes. The last segment may be shorter.
    pub size: u16,
}

/// How to split a [`Gso`] packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// Into TCP segments with increasing sequence numbers (virtio `GSO_TCPV4`, `GSO_TCPV6`).
    Tcp,
    /// Into UDP datagrams, each with its own header (virtio `GSO_UDP_L4`).
    Udp,
}

/// A packet in the caller's buffer, translated in place.
///
/// The buffer may extend beyond the packet on both sides; the packet is [`Packet::bytes`].
#[derive(Debug)]
pub struct Packet<'a> {
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
    /// The metadata from the device; after [`crate::Verdict::Forward`], the metadata for the next device.
    pub offload: Offload,
}

impl<'a> Packet<'a> {
    /// Creates a packet from `buffer[start..end]`, which begins with an IP header. `start` should be at least
    /// `HEADROOM`.
    ///
    /// # Panics
    /// Panics if the range exceeds the buffer.
    #[inline]
    pub fn new(buffer: &'a mut [u8], start: usize, end: usize, offload: Offload) -> Self {
        assert!(
            start <= end && end <= buffer.len(),
            "packet {start}..{end} outside its buffer of {}",
            buffer.len()
        );
        Packet {
            buffer,
            start,
            end,
            offload,
        }
    }

    /// The bytes of the packet, starting with the IP header.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The mutable bytes of the packet.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// The position of the packet in its buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// Removes everything after the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    /// Returns true if `new` bytes fit in place of the first `old` bytes.
    #[inline]
    pub(crate) fn has_room(&self, old: usize, new: usize) -> bool {
        self.start + old >= new
    }

    /// Replaces the first `old` bytes with `new` undefined bytes.
    #[inline]
    pub(crate) fn replace_front(&mut self, old: usize, new: usize) {
        self.start = self.start + old - new;
    }

    /// Replaces the packet with other bytes. Returns false and changes nothing if there is no room.
    #[must_use]
    pub fn replace_all(&mut self, bytes: &[u8]) -> bool {
        let Some(start) = self.end.checked_sub(bytes.len()) else {
            return false;
        };
        self.start = start;
        self.bytes_mut().copy_from_slice(bytes);
        true
    }

    /// Returns `len` bytes from byte `at` of the packet, and `room` bytes in front of them.
    pub(crate) fn with_room(&mut self, at: usize, len: usize, room: usize) -> &mut [u8] {
        let at = self.start + at;
        &mut self.buffer[at - room..at + len]
    }

    /// Like [`Packet::with_room`], but returns a packet.
    pub(crate) fn part(&mut self, at: usize, len: usize, room: usize) -> Packet<'_> {
        let (at, offload) = (self.start + at, self.offload.of_part());
        Packet::new(self.buffer, at - room, at + len, offload)
    }
}

/// Time and identifications, which the caller provides.
pub trait Env {
    /// Time since a fixed moment; never decreases. A stateless translator reads it only before it originates an ICMP
    /// error, a NAT64 for every packet.
    fn now(&mut self) -> Duration;
    /// Identification for an IPv4 packet that may be fragmented later (RFC 7915 section 5.1): one more than the last,
    /// so that values repeat late.
    fn ipv4_id(&mut self) -> u16;
    /// Reserves identifications for `count` packets (at least one) and returns the first. Code that splits a
    /// super-packet counts up from it (RFC 6864 section 4.2).
    fn ipv4_ids(&mut self, count: u16) -> u16 {
        let first = self.ipv4_id();
        for _ in 1..count {
            self.ipv4_id();
        }
        first
    }
}

/// The maximum segment size in a TCP SYN that was lowered, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClampedMss {
    /// What its sender announced.
    pub from: u16,
    /// What the translated SYN announces.
    pub to: u16,
}

/// Receives the packets sent in addition to the translated one: fragments and originated ICMP errors.
pub trait Outbox {
    /// Receives one complete IP packet. The callee must copy or send it before it returns.
    fn emit(&mut self, packet: &[u8], offload: Offload);

    /// Receives one complete IP packet for another gateway, as it was received: a fragment that was held until the
    /// first fragment of its packet arrived, or that first fragment, which precedes it. The callee must copy or send it
    /// before it returns.
    fn forward(&mut self, to: Gateway, packet: &[u8], offload: Offload) {
        let _ = (to, packet, offload);
    }

    /// Reports a SYN whose maximum segment size was lowered, before the packet leaves.
    fn clamped(&mut self, mss: ClampedMss) {
        let _ = mss;
    }

    /// Reports a refused packet before the ICMP error about it is sent. The packet is as it was received, except that
    /// link padding may be removed, and that segments of a super-packet may already have been sent.
    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        let _ = (reason, packet);
    }
}
