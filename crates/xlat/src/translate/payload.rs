// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifies the payload of a packet and keeps its checksum correct (RFC 7915 sections 4.5 and
//! 5.5).

use crate::csum::{self, Sum};
use crate::frag;
use crate::packet::{Checksum, GsoKind, Offload};
use crate::verdict::Reason;
use crate::wire::icmp::{self, Class, ICMP_CHECKSUM_AT, ICMP_LEN};
use crate::wire::{protocol, FragmentKind, Transport, UdpHeader, UDP_CHECKSUM_AT};
use zerocopy::FromBytes;

/// The address family of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The kind of payload. It is small, like all values passed between stages, so that it fits in
/// registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadKind {
    /// The checksum at this byte covers the addresses. `never_zero`: 0 is sent as 0xFFFF (RFC 768,
    /// RFC 3828).
    Checksummed {
        /// Offset of the checksum in the transport part.
        at: u8,
        /// True if a zero checksum must not be sent.
        never_zero: bool,
    },
    /// UDP without checksum.
    UdpZeroChecksum,
    /// ICMP echo request or reply, with its type in the other family.
    Echo(u8),
    /// An ICMP error.
    IcmpError,
    /// Copied unchanged.
    Opaque,
}

/// The transport part of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    /// The kind of payload.
    pub kind: PayloadKind,
    largest: u32,
}

impl Payload {
    /// Transport bytes of the largest segment of the packet; of the packet itself if it is not a
    /// super-packet.
    #[inline]
    pub fn largest(&self) -> usize {
        self.largest as usize
    }

    /// Number of segments of the packet whose transport part, of `len` bytes, this describes; 1
    /// unless it is a super-packet.
    #[inline]
    pub fn segments(&self, len: usize, offload: Offload) -> u16 {
        match offload.gso {
            Some(gso) if self.largest() < len => {
                let size = usize::from(gso.size);
                let header_len = self.largest() - size;
                (len - header_len).div_ceil(size) as u16
            }
            _ => 1,
        }
    }
}

/// Classifies the transport part `bytes` of a packet of `family`.
#[inline]
pub fn inspect(
    family: Family,
    number: u8,
    bytes: &[u8],
    part: FragmentKind,
    offload: Offload,
) -> Result<Payload, Reason> {
    let kind = kind(family, number, bytes, part)?;
    if offload.leaves_work() {
        return inspect_offloaded(kind, number, bytes, part, offload);
    }
    Ok(Payload {
        kind,
        largest: bytes.len() as u32,
    })
}

#[inline]
fn kind(
    family: Family,
    number: u8,
    bytes: &[u8],
    part: FragmentKind,
) -> Result<PayloadKind, Reason> {
    let icmp = match family {
        Family::V4 => protocol::ICMPV4,
        Family::V6 => protocol::ICMPV6,
    };
    match Transport::of(number, icmp) {
        // "Fragmented ICMP/ICMPv6 packets will not be translated by IP/ICMP translators" (RFC 7915
        // section 1.2).
        Transport::Icmp if part != FragmentKind::Whole => Err(Reason::FragmentIcmp),
        _ if part == FragmentKind::Later => Ok(PayloadKind::Opaque),
        Transport::Icmp => icmp_kind(family, bytes),
        Transport::Udp => udp_kind(bytes, part),
        Transport::Checksummed {
            at,
            header_len,
            never_zero,
        } => {
            if bytes.len() < header_len {
                return Err(Reason::TransportTruncated);
            }
            Ok(PayloadKind::Checksummed {
                at: at as u8,
                never_zero,
            })
        }
        Transport::Opaque => Ok(PayloadKind::Opaque),
    }
}

#[inline]
fn udp_kind(bytes: &[u8], part: FragmentKind) -> Result<PayloadKind, Reason> {
    let (udp, _) = UdpHeader::ref_from_prefix(bytes).map_err(|_| Reason::TransportTruncated)?;
    let len = usize::from(udp.len.get());
    if len < size_of::<UdpHeader>() || (part == FragmentKind::Whole && len > bytes.len()) {
        return Err(Reason::UdpLength);
    }
    if udp.checksum.get() == 0 {
        return Ok(PayloadKind::UdpZeroChecksum);
    }
    Ok(PayloadKind::Checksummed {
        at: UDP_CHECKSUM_AT as u8,
        never_zero: true,
    })
}

fn icmp_kind(family: Family, bytes: &[u8]) -> Result<PayloadKind, Reason> {
    if bytes.len() < ICMP_LEN {
        return Err(Reason::TransportTruncated);
    }
    let class = match family {
        Family::V4 => icmp::v4::class_of(bytes[0]),
        Family::V6 => icmp::v6::class_of(bytes[0]),
    };
    match class {
        Class::Echo(counterpart) => Ok(PayloadKind::Echo(counterpart)),
        Class::Error => Ok(PayloadKind::IcmpError),
        Class::SingleHop => Err(Reason::IcmpSingleHop),
        Class::Other => Err(Reason::IcmpType),
    }
}

/// Describes a packet whose device promised to finish it. Returns an error if no device can finish it.
fn inspect_offloaded(
    kind: PayloadKind,
    number: u8,
    bytes: &[u8],
    part: FragmentKind,
    offload: Offload,
) -> Result<Payload, Reason> {
    if part != FragmentKind::Whole {
        return Err(Reason::OffloadMismatch);
    }
    let kind = match (offload.checksum, kind) {
        (Checksum::Complete, kind) => kind,
        // A seed of zero is valid.
        (Checksum::Partial, PayloadKind::UdpZeroChecksum) => PayloadKind::Checksummed {
            at: UDP_CHECKSUM_AT as u8,
            never_zero: true,
        },
        (Checksum::Partial, PayloadKind::Opaque) => return Err(Reason::OffloadMismatch),
        (Checksum::Partial, kind) => kind,
    };
    let mut largest = bytes.len();
    if let Some(gso) = offload.gso {
        let fits = matches!(
            (gso.kind, number),
            (GsoKind::Tcp, protocol::TCP) | (GsoKind::Udp, protocol::UDP)
        );
        let header_len =
            frag::transport_header_len(gso.kind, bytes).filter(|_| fits && gso.size > 0);
        largest = largest.min(header_len.ok_or(Reason::OffloadMismatch)? + usize::from(gso.size));
    }
    Ok(Payload {
        kind,
        largest: largest as u32,
    })
}

/// Updates the checksum at byte `at` from one pseudo-header to another.
#[inline]
pub(crate) fn carry_over(
    bytes: &mut [u8],
    at: usize,
    never_zero: bool,
    offload: Offload,
    old: Sum,
    new: Sum,
) {
    // A change is needed only "if the address translation algorithm is not checksum neutral" (RFC
    // 7915 section 4.5). An unnecessary update would turn a checksum of 0xffff into 0.
    if csum::are_neutral(old, new) {
        return;
    }
    let before = csum::field(bytes, at);
    let after = match offload.checksum {
        Checksum::Complete if never_zero => csum::never_zero(csum::update(before, old, new)),
        Checksum::Complete => csum::update(before, old, new),
        Checksum::Partial => csum::update_seed(before, old, new),
    };
    csum::set_field(bytes, at, after);
}

/// The ports that a NAT64 gives a packet. For an echo message, `src` is the identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The port of the source.
    pub src: u16,
    /// The port of the destination.
    pub dst: u16,
}

/// Writes other ports, or another identifier, and updates the checksum. A fragment without
/// transport header has neither.
#[inline]
pub fn renumber(bytes: &mut [u8], kind: PayloadKind, offload: Offload, numbers: Numbers) {
    let (at, len, checksum_at, never_zero) = match kind {
        PayloadKind::Checksummed { at, never_zero } => (0, 4, Some(usize::from(at)), never_zero),
        PayloadKind::UdpZeroChecksum => (0, 4, None, false),
        PayloadKind::Echo(_) => (4, 2, Some(ICMP_CHECKSUM_AT), false),
        PayloadKind::IcmpError | PayloadKind::Opaque => return,
    };
    let [src, dst] = [numbers.src, numbers.dst].map(u16::to_be_bytes);
    let new = [src[0], src[1], dst[0], dst[1]];
    let field = &mut bytes[at..at + len];
    if *field == new[..len] {
        return;
    }
    let old_sum = csum::sum(field);
    field.copy_from_slice(&new[..len]);
    // The seed of a partial checksum does not cover the ports.
    if let (Some(at), Checksum::Complete) = (checksum_at, offload.checksum) {
        let checksum = csum::update(csum::field(bytes, at), old_sum, csum::sum(&new[..len]));
        let checksum = if never_zero {
            csum::never_zero(checksum)
        } else {
            checksum
        };
        csum::set_field(bytes, at, checksum);
    }
}

/// Translates an echo message to the other family; `new_type` is its new type. Only ICMPv6 has a
/// pseudo-header; the sum for ICMPv4 is zero.
#[inline]
pub(crate) fn rewrite_echo(
    message: &mut [u8],
    new_type: u8,
    offload: Offload,
    old_pseudo: Sum,
    new_pseudo: Sum,
) {
    let old_type = std::mem::replace(&mut message[0], new_type);
    match offload.checksum {
        Checksum::Complete => {
            let old = old_pseudo.word(u16::from(old_type) << 8);
            let new = new_pseudo.word(u16::from(new_type) << 8);
            let before = csum::field(message, ICMP_CHECKSUM_AT);
            csum::set_field(message, ICMP_CHECKSUM_AT, csum::update(before, old, new));
            right_zero(message);
        }
        // The seed is only the folded pseudo-header.
        Checksum::Partial => csum::set_field(message, ICMP_CHECKSUM_AT, new_pseudo.fold()),
    }
}

/// Corrects the checksum of an all-zero message. An update by difference cannot distinguish zeros
/// from words that sum to 0xFFFF (RFC 1624 section 3). An all-zero message is possible only without
/// a pseudo-header: an ICMPv4 echo reply. Its checksum is 0xFFFF.
#[inline]
fn right_zero(message: &mut [u8]) {
    if csum::field(message, ICMP_CHECKSUM_AT) == 0 && message.iter().all(|&byte| byte == 0) {
        csum::set_field(message, ICMP_CHECKSUM_AT, 0xffff);
    }
}

/// Completes a partial checksum, for a packet that is not passed to the device as a whole.
pub fn complete(bytes: &mut [u8], kind: PayloadKind, offload: Offload) {
    let (at, never_zero) = match kind {
        PayloadKind::Checksummed { at, never_zero } => (usize::from(at), never_zero),
        PayloadKind::Echo(_) => (ICMP_CHECKSUM_AT, false),
        PayloadKind::UdpZeroChecksum | PayloadKind::IcmpError | PayloadKind::Opaque => return,
    };
    if offload.checksum == Checksum::Partial {
        // The seed in the field is part of the sum.
        let checksum = !csum::sum(bytes).fold();
        csum::set_field(
            bytes,
            at,
            if never_zero {
                csum::never_zero(checksum)
            } else {
                checksum
            },
        );
    }
}
