// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet carries, and how its checksum is kept right (RFC 7915 sections 4.5 and 5.5).

use crate::csum::{self, Sum};
use crate::packet::{Checksum, GsoKind, Offload};
use crate::verdict::Reason;
use crate::wire::icmp::{v4, v6, ICMP_LEN};
use crate::wire::{protocol, Transport, UdpHeader};
use zerocopy::FromBytes;

/// One of the two families, where only the name matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    V4,
    V6,
}

/// What part of a datagram a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Its beginning, with the transport header.
    First,
    /// Something later, without.
    Later,
}

impl Part {
    pub(super) fn of(offset: u16, more: bool) -> Part {
        match (offset, more) {
            (0, false) => Part::Whole,
            (0, true) => Part::First,
            _ => Part::Later,
        }
    }
}

/// What is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Its checksum, at this byte, covers the addresses. `zero_means_none`: a result of 0 is sent as 0xFFFF (RFC 768, RFC 3828).
    Checksummed { at: usize, zero_means_none: bool },
    /// UDP without checksum.
    UdpZeroChecksum,
    /// ICMP echo request or reply.
    Echo,
    /// An ICMP error.
    IcmpError,
    /// Copied as it is.
    Opaque,
}

/// The transport part of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Payload {
    pub kind: Kind,
    /// Transport bytes of the largest packet that the packet stands for.
    pub largest: usize,
}

/// Looks at the transport part `bytes` of a packet of `family`.
#[inline]
pub(super) fn inspect(
    family: Family,
    number: u8,
    bytes: &[u8],
    part: Part,
    offload: Offload,
) -> Result<Payload, Reason> {
    let icmp = match family {
        Family::V4 => protocol::ICMPV4,
        Family::V6 => protocol::ICMPV6,
    };
    let transport = Transport::of(number, icmp);
    if offload != Offload::default() {
        return inspect_offloaded(family, number, transport, bytes, part, offload);
    }
    Ok(Payload {
        kind: kind(family, transport, bytes, part)?,
        largest: bytes.len(),
    })
}

fn kind(family: Family, transport: Transport, bytes: &[u8], part: Part) -> Result<Kind, Reason> {
    match transport {
        // "Fragmented ICMP/ICMPv6 packets will not be translated by IP/ICMP translators" (RFC 7915 section 1.2).
        Transport::Icmp if part != Part::Whole => Err(Reason::FragmentIcmp),
        _ if part == Part::Later => Ok(Kind::Opaque),
        Transport::Icmp => icmp(family, bytes),
        Transport::Udp => udp(bytes, part),
        Transport::Checksummed {
            checksum_at,
            header_len,
        } => {
            if bytes.len() < header_len {
                return Err(Reason::TransportTruncated);
            }
            Ok(Kind::Checksummed {
                at: checksum_at,
                zero_means_none: checksum_at == UDP_CHECKSUM_AT,
            })
        }
        Transport::Opaque => Ok(Kind::Opaque),
    }
}

/// Where UDP, and the protocols made after it, have their checksum.
pub(super) const UDP_CHECKSUM_AT: usize = 6;
/// Where both ICMPs have it.
pub(super) const ICMP_CHECKSUM_AT: usize = 2;

fn udp(bytes: &[u8], part: Part) -> Result<Kind, Reason> {
    let (udp, _) = UdpHeader::ref_from_prefix(bytes).map_err(|_| Reason::TransportTruncated)?;
    let len = usize::from(udp.len.get());
    if len < size_of::<UdpHeader>() || (part == Part::Whole && len > bytes.len()) {
        return Err(Reason::UdpLength);
    }
    if udp.checksum.get() == 0 {
        return Ok(Kind::UdpZeroChecksum);
    }
    Ok(Kind::Checksummed {
        at: UDP_CHECKSUM_AT,
        zero_means_none: true,
    })
}

fn icmp(family: Family, bytes: &[u8]) -> Result<Kind, Reason> {
    if bytes.len() < ICMP_LEN {
        return Err(Reason::TransportTruncated);
    }
    match (family, bytes[0]) {
        (Family::V4, v4::ECHO_REQUEST | v4::ECHO_REPLY) => Ok(Kind::Echo),
        (Family::V6, v6::ECHO_REQUEST | v6::ECHO_REPLY) => Ok(Kind::Echo),
        (Family::V4, v4::UNREACHABLE | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM) => {
            Ok(Kind::IcmpError)
        }
        (Family::V6, v6::UNREACHABLE..=v6::PARAMETER_PROBLEM) => Ok(Kind::IcmpError),
        (Family::V4, v4::REDIRECT | v4::ROUTER_ADVERTISEMENT | v4::ROUTER_SOLICITATION) => {
            Err(Reason::IcmpSingleHop)
        }
        (Family::V6, v6::FIRST_SINGLE_HOP..=v6::REDIRECT | v6::MLDV2_REPORT) => {
            Err(Reason::IcmpSingleHop)
        }
        _ => Err(Reason::IcmpType),
    }
}

/// The device has promised to finish the packet: is it one that it can finish?
#[cold]
#[inline(never)]
fn inspect_offloaded(
    family: Family,
    number: u8,
    transport: Transport,
    bytes: &[u8],
    part: Part,
    offload: Offload,
) -> Result<Payload, Reason> {
    let mut kind = kind(family, transport, bytes, part)?;
    if part != Part::Whole {
        return Err(Reason::OffloadMismatch);
    }
    if offload.checksum == Checksum::Partial {
        kind = match kind {
            // A seed of zero is a seed.
            Kind::UdpZeroChecksum => Kind::Checksummed {
                at: UDP_CHECKSUM_AT,
                zero_means_none: true,
            },
            Kind::Opaque => return Err(Reason::OffloadMismatch),
            kind => kind,
        };
    }
    let mut largest = bytes.len();
    if let Some(gso) = offload.gso {
        let header_len = match (gso.kind, number) {
            (GsoKind::Tcp, protocol::TCP) => usize::from(bytes[12] >> 4) * 4,
            (GsoKind::Udp, protocol::UDP) => size_of::<UdpHeader>(),
            _ => return Err(Reason::OffloadMismatch),
        };
        if gso.size == 0 || header_len < size_of::<UdpHeader>() || header_len > bytes.len() {
            return Err(Reason::OffloadMismatch);
        }
        largest = largest.min(header_len + usize::from(gso.size));
    }
    Ok(Payload { kind, largest })
}

/// Brings the checksum at byte `at` from one pseudo-header to another.
#[inline]
pub(super) fn carry_over(
    bytes: &mut [u8],
    at: usize,
    offload: Offload,
    zero_means_none: bool,
    old: Sum,
    new: Sum,
) {
    let field = &mut bytes[at..at + 2];
    let before = u16::from_be_bytes([field[0], field[1]]);
    let after = match offload.checksum {
        Checksum::Complete => match csum::update(before, old, new) {
            0 if zero_means_none => 0xffff,
            checksum => checksum,
        },
        Checksum::Partial => csum::update_seed(before, old, new),
    };
    field.copy_from_slice(&after.to_be_bytes());
}

/// A sum that came out as zero by difference is one of all zeros, or of 0xFFFF; only looking at every byte tells (RFC 1624 section 3).
/// It can be all zeros only where no pseudo-header is summed: in ICMPv4, for an echo reply of zeros.
#[inline]
pub(super) fn right_zero(icmpv4: &mut [u8]) {
    if icmpv4[ICMP_CHECKSUM_AT..][..2] == [0, 0] && icmpv4.iter().all(|&byte| byte == 0) {
        icmpv4[ICMP_CHECKSUM_AT..][..2].fill(0xff);
    }
}
