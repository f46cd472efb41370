// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet in a buffer that belongs to the caller, and what the translator asks of the world
//! around it.

use crate::verdict::{Gateway, Reason};
use std::time::Duration;

/// Free bytes that a caller must leave in front of a packet, so that the headers of the other
/// family fit.
///
/// The greatest growth at the front is that of an ICMPv4 error: 20 bytes for the outer header, 28
/// for the inner one with its Fragment header, and up to 80 of padding (RFC 4884 section 5.1). With
/// less headroom a packet that needs more is dropped ([`crate::Reason::Headroom`]).
pub const HEADROOM: usize = 128;

/// What the device knows about a packet beyond its bytes; with a TUN device it comes from, and goes
/// back to, `virtio_net_hdr`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Offload {
    /// What the transport checksum field holds.
    pub checksum: Checksum,
    /// Set if the packet stands for several segments.
    pub gso: Option<Gso>,
    /// What goes with all that the packet becomes.
    pub label: Label,
}

/// What this host knows of a packet beside its bytes; it is not sent. The translator gives it to what the packet becomes, and not to an
/// ICMP error that answers it. The host's own rules and queues know a packet by its mark and its priority.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Label {
    /// Linux: `SO_MARK`.
    pub mark: u32,
    /// Linux: `SO_PRIORITY`.
    pub priority: u32,
    /// Index of the interface between gateways of a cluster by which another gateway has sent the packet here; 0: none has. It ends here.
    pub link: u32,
}

impl Offload {
    /// Whether the device is to finish the packet.
    #[inline]
    pub(crate) fn leaves_work(&self) -> bool {
        self.checksum == Checksum::Partial || self.gso.is_some()
    }

    /// The one of a part of the packet, in which all checksums are complete.
    pub fn of_part(&self) -> Offload {
        Offload {
            label: self.label,
            ..Offload::default()
        }
    }
}

/// What the transport checksum field holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Checksum {
    /// The whole checksum.
    #[default]
    Complete,
    /// Only the folded sum of the pseudo-header, not complemented; the device adds the rest.
    /// Linux: `CHECKSUM_PARTIAL`, virtio: `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
    Partial,
}

/// A packet that stands for several, to be cut by the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// How to cut it.
    pub kind: GsoKind,
    /// Transport payload of one segment, in bytes. The last one may be shorter.
    pub size: u16,
}

/// How a [`Gso`] packet is to be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// Into TCP segments with rising sequence numbers (virtio `GSO_TCPV4`, `GSO_TCPV6`).
    Tcp,
    /// Into UDP datagrams, each with a header of its own (virtio `GSO_UDP_L4`).
    Udp,
}

/// A packet in a buffer that belongs to the caller, translated in place.
///
/// The buffer may be longer than the packet on both sides; only [`Packet::bytes`] is the packet.
#[derive(Debug)]
pub struct Packet<'a> {
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
    /// What the device said about the packet; after [`crate::Verdict::Forward`], what to tell the
    /// next device.
    pub offload: Offload,
}

impl<'a> Packet<'a> {
    /// The packet `buffer[start..end]`, which begins with an IP header. Leave `start >= HEADROOM`.
    ///
    /// # Panics
    /// If the range does not lie in the buffer.
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

    /// The bytes of the packet, from the IP header on.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The bytes of the packet, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// Where the packet stands in its buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// Cuts everything after the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    /// Is there room for `new` bytes in place of the first `old` ones?
    #[inline]
    pub(crate) fn has_room(&self, old: usize, new: usize) -> bool {
        self.start + old >= new
    }

    /// Takes `old` bytes off the front and puts `new` undefined ones there.
    #[inline]
    pub(crate) fn replace_front(&mut self, old: usize, new: usize) {
        self.start = self.start + old - new;
    }

    /// Puts other bytes in place of the packet. False, and nothing done, if there is no room.
    #[must_use]
    pub fn replace_all(&mut self, bytes: &[u8]) -> bool {
        let Some(start) = self.end.checked_sub(bytes.len()) else {
            return false;
        };
        self.start = start;
        self.bytes_mut().copy_from_slice(bytes);
        true
    }

    /// `len` bytes from byte `at` of the packet on, and `room` bytes in front of them.
    pub(crate) fn with_room(&mut self, at: usize, len: usize, room: usize) -> &mut [u8] {
        let at = self.start + at;
        &mut self.buffer[at - room..at + len]
    }

    /// The same as a packet.
    pub(crate) fn part(&mut self, at: usize, len: usize, room: usize) -> Packet<'_> {
        let (at, offload) = (self.start + at, self.offload.of_part());
        Packet::new(self.buffer, at - room, at + len, offload)
    }
}

/// Time and randomness, which the translator does not have by itself.
pub trait Env {
    /// Time since any fixed moment; it never goes back. A stateless translator asks for it only when
    /// an ICMP error is about to be originated, a NAT64 with every packet.
    fn now(&mut self) -> Duration;
    /// Identification for an IPv4 packet that may be fragmented later on (RFC 7915 section 5.1): one
    /// more than the last one, so that it does not repeat soon.
    fn ipv4_id(&mut self) -> u16;
    /// Identifications for `count` packets, at least one: the first of them. Who cuts a packet that
    /// stands for several counts on from it (RFC 6864 section 4.2).
    fn ipv4_ids(&mut self, count: u16) -> u16 {
        let first = self.ipv4_id();
        for _ in 1..count {
            self.ipv4_id();
        }
        first
    }
}

/// Takes the packets that leave besides the translated one: fragments and ICMP errors of our own.
pub trait Outbox {
    /// Takes one complete IP packet. It is the callee's to copy or send before it returns.
    fn emit(&mut self, packet: &[u8], offload: Offload);

    /// Takes one complete IP packet that belongs to another gateway, as it was received: a fragment that was held until the first of its packet
    /// said so, or that first one before them. It is the callee's to copy or send before it returns.
    fn forward(&mut self, to: Gateway, packet: &[u8], offload: Offload) {
        let _ = (to, packet, offload);
    }

    /// Is told of a packet that is refused, before the ICMP error about it. It stands there as it was received, except
    /// that padding of the link may be cut off, and that of a packet that stands for several, segments may have left.
    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        let _ = (reason, packet);
    }
}
