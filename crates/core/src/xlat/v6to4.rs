// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From IPv6 to IPv4 (RFC 7915 section 5).

use super::payload::{self, Family, Kind, Part, Payload, ICMP_CHECKSUM_AT};
use super::{hop, legal, Answer, Refusal, Translator};
use crate::addr::special::{kind_of_ipv4, kind_of_ipv6};
use crate::csum::{self, Sum};
use crate::packet::{Checksum, Env, Outbox, Packet};
use crate::verdict::{Reason, Verdict};
use crate::wire::icmp::{v4, v6};
use crate::wire::{protocol, Chain, ChainError, Ipv4, Ipv6, IPV4_LEN, IPV6_LEN};
use std::net::Ipv4Addr;

/// "If the size of the translated IPv4 packet is less than or equal to 1260 bytes, [DF] is set to zero" (RFC 7915 section 5.1).
const LARGEST_WITHOUT_DF: usize = 1260;

pub(super) fn translate(
    t: &Translator,
    packet: &mut Packet<'_>,
    env: &mut impl Env,
    _out: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let ip = receive(packet)?;
    let ttl = hop(ip.hop_limit)?;
    let chain = follow(packet, &ip)?;
    let carried = carried(&chain, packet)?;
    let (src, dst) = map(t, &ip)?;
    fit(t, packet, &chain, &carried)?;
    if carried.kind == Kind::IcmpError {
        return Err(Reason::IcmpType.into());
    }

    rewrite_payload(packet, &ip, &chain, carried.kind, src, dst);
    packet.replace_front(chain.payload_at, IPV4_LEN);
    let may_fragment = IPV4_LEN + carried.largest <= LARGEST_WITHOUT_DF;
    let header = Ipv4 {
        tos: t.class_out(ip.traffic_class),
        header_len: IPV4_LEN,
        total_len: packet.bytes().len(),
        // An identification has meaning only where the packet may be fragmented (RFC 6864 section 4.1).
        id: if may_fragment { env.ipv4_id() } else { 0 },
        dont_fragment: !may_fragment,
        more_fragments: false,
        fragment_offset: 0,
        ttl,
        protocol: if chain.protocol == protocol::ICMPV6 {
            protocol::ICMPV4
        } else {
            chain.protocol
        },
        src,
        dst,
    };
    header.emit(packet.bytes_mut());
    Ok(Verdict::Forward)
}

/// The header, if a router may forward what it says; padding of the link is cut off.
fn receive(packet: &mut Packet<'_>) -> Result<Ipv6, Refusal> {
    let ip = Ipv6::parse_packet(packet.bytes())?;
    packet.truncate(IPV6_LEN + ip.payload_len);
    legal(kind_of_ipv6(ip.src), kind_of_ipv6(ip.dst))?;
    Ok(ip)
}

/// The extension headers: ignored, except a routing header that is not yet at its end (RFC 7915 section 5.1).
fn follow(packet: &Packet<'_>, ip: &Ipv6) -> Result<Chain, Refusal> {
    let chain = Chain::walk(packet.bytes(), ip.next_header).map_err(|why| match why {
        ChainError::Broken => Reason::ExtensionChain.into(),
        ChainError::AfterFragment => Reason::FragmentExtension.into(),
        ChainError::SegmentsLeft(at) => {
            Reason::RoutingSegmentsLeft.answer(Answer::ErroneousField(at))
        }
    })?;
    match chain.fragment {
        Some(_) => Err(Reason::FragmentMalformed.into()),
        None => Ok(chain),
    }
}

/// What the packet carries, if it can be carried over.
fn carried(chain: &Chain, packet: &Packet<'_>) -> Result<Payload, Refusal> {
    match chain.protocol {
        // It would be read as ICMPv4 that nobody has checked.
        protocol::ICMPV4 => return Err(Reason::Protocol.into()),
        protocol::IGMP => return Err(Reason::Igmp.into()),
        _ => {}
    }
    let part = chain.fragment.map_or(Part::Whole, |fragment| {
        Part::of(fragment.offset, fragment.more)
    });
    let bytes = &packet.bytes()[chain.payload_at..];
    Ok(payload::inspect(
        Family::V6,
        chain.protocol,
        bytes,
        part,
        packet.offload,
    )?)
}

/// Both addresses (RFC 7915 section 6).
fn map(t: &Translator, ip: &Ipv6) -> Result<(Ipv4Addr, Ipv4Addr), Refusal> {
    let (src, _) = t.mapper.to_ipv4(ip.src).map_err(|why| {
        why.reason(Reason::SourceUnmapped)
            .answer(Answer::Prohibited)
    })?;
    let (dst, _) = t.mapper.to_ipv4(ip.dst).map_err(|why| {
        why.reason(Reason::DestinationUnmapped)
            .answer(Answer::Prohibited)
    })?;
    // An IPv6 address may carry an IPv4 address that is none of a node.
    legal(kind_of_ipv4(src), kind_of_ipv4(dst))?;
    Ok((src, dst))
}

/// RFC 7915 section 5.1. Of a packet that stands for several, one segment must fit.
fn fit(
    t: &Translator,
    packet: &Packet<'_>,
    chain: &Chain,
    carried: &Payload,
) -> Result<(), Refusal> {
    if IPV4_LEN + carried.largest > t.mtu4 {
        return Err(Reason::TooBig.answer(Answer::TooBig(t.mtu4 + IPV6_LEN - IPV4_LEN)));
    }
    if IPV4_LEN + packet.bytes().len() - chain.payload_at > usize::from(u16::MAX) {
        return Err(Reason::TooLong.into());
    }
    Ok(())
}

/// Makes the payload one of IPv4: ICMP type, checksum.
#[inline]
fn rewrite_payload(
    packet: &mut Packet<'_>,
    ip: &Ipv6,
    chain: &Chain,
    kind: Kind,
    src: Ipv4Addr,
    dst: Ipv4Addr,
) {
    let offload = packet.offload;
    let bytes = &mut packet.bytes_mut()[chain.payload_at..];
    match kind {
        Kind::Checksummed {
            at,
            zero_means_none,
        } => {
            // Protocol and length are the same in both pseudo-headers.
            let old = Sum::default().ipv6(ip.src).ipv6(ip.dst);
            let new = Sum::default().ipv4(src).ipv4(dst);
            payload::carry_over(bytes, at, offload, zero_means_none, old, new);
        }
        Kind::Echo => {
            let pseudo = csum::pseudo_ipv6(ip.src, ip.dst, protocol::ICMPV6, bytes.len());
            let old_type = bytes[0];
            let new_type = if old_type == v6::ECHO_REQUEST {
                v4::ECHO_REQUEST
            } else {
                v4::ECHO_REPLY
            };
            bytes[0] = new_type;
            match offload.checksum {
                Checksum::Complete => {
                    let (old, new) = (type_word(old_type).plus(pseudo), type_word(new_type));
                    payload::carry_over(bytes, ICMP_CHECKSUM_AT, offload, false, old, new);
                    payload::right_zero(bytes);
                }
                // ICMPv4 has no pseudo-header, so that the seed is nothing.
                Checksum::Partial => bytes[ICMP_CHECKSUM_AT..][..2].fill(0),
            }
        }
        // IPv4 allows UDP without checksum; IPv6 does for tunnels (RFC 6935), and a tunnel it may remain.
        Kind::UdpZeroChecksum | Kind::IcmpError | Kind::Opaque => {}
    }
}

/// The first word of an ICMP message; its code is the same before and after.
fn type_word(icmp_type: u8) -> Sum {
    Sum::default().word(u16::from(icmp_type) << 8)
}
