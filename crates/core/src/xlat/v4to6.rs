// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From IPv4 to IPv6 (RFC 7915 section 4).

use super::payload::{self, Family, Kind, Part, Payload, ICMP_CHECKSUM_AT, UDP_CHECKSUM_AT};
use super::{hop, legal, Answer, Refusal, Translator};
use crate::addr::special::kind_of_ipv4;
use crate::config::UdpZeroChecksum;
use crate::csum::{self, Sum};
use crate::packet::{Checksum, Env, Outbox, Packet};
use crate::verdict::{Reason, Verdict};
use crate::wire::icmp::{v4, v6};
use crate::wire::{
    protocol, source_route, Ipv4, Ipv6, SourceRoute, FRAGMENT_LEN, IPV4_LEN, IPV6_LEN,
};
use std::net::Ipv6Addr;

pub(super) fn translate(
    t: &Translator,
    packet: &mut Packet<'_>,
    _env: &mut impl Env,
    _out: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let ip = receive(packet)?;
    let hop_limit = hop(ip.ttl)?;
    let carried = carried(t, &ip, packet)?;
    let (src, dst) = map(t, &ip)?;
    fit(t, &ip, &carried)?;
    if ip.is_fragment() {
        return Err(Reason::FragmentMalformed.into());
    }
    if carried.kind == Kind::IcmpError {
        return Err(Reason::IcmpType.into());
    }

    if !packet.has_room(ip.header_len, IPV6_LEN) {
        return Err(Reason::Headroom.into());
    }
    rewrite_payload(packet, &ip, carried.kind, src, dst);
    packet.replace_front(ip.header_len, IPV6_LEN);
    let header = Ipv6 {
        traffic_class: t.class_out(ip.tos),
        flow_label: 0,
        payload_len: ip.payload_len(),
        next_header: if ip.protocol == protocol::ICMPV4 {
            protocol::ICMPV6
        } else {
            ip.protocol
        },
        hop_limit,
        src,
        dst,
    };
    header.emit(packet.bytes_mut());
    Ok(Verdict::Forward)
}

/// The header, if a router may forward what it says; padding of the link is cut off.
fn receive(packet: &mut Packet<'_>) -> Result<Ipv4, Refusal> {
    let ip = Ipv4::parse_packet(packet.bytes())?;
    packet.truncate(ip.total_len);
    legal(kind_of_ipv4(ip.src), kind_of_ipv4(ip.dst))?;
    if ip.header_len > IPV4_LEN {
        // Options "MUST be ignored [...] However, if an unexpired source route option is present, then the packet MUST instead
        // be discarded", and Source Route Failed returned (RFC 7915 section 4.1).
        let options = &packet.bytes()[IPV4_LEN..ip.header_len];
        if source_route(options)? == SourceRoute::Unexpired {
            return Err(Reason::SourceRoute.answer(Answer::SourceRouteFailed));
        }
    }
    Ok(ip)
}

/// What the packet carries, if it can be carried over.
fn carried(t: &Translator, ip: &Ipv4, packet: &Packet<'_>) -> Result<Payload, Refusal> {
    match ip.protocol {
        // These would be read as IPv6 headers, or as ICMPv6 that nobody has checked.
        protocol::HOP_BY_HOP
        | protocol::ROUTING
        | protocol::FRAGMENT
        | protocol::DESTINATION_OPTIONS
        | protocol::ICMPV6 => return Err(Reason::Protocol.into()),
        // RFC 7915 section 4.2.
        protocol::IGMP => return Err(Reason::Igmp.into()),
        _ => {}
    }
    let part = Part::of(ip.fragment_offset, ip.more_fragments);
    let bytes = &packet.bytes()[ip.header_len..];
    let carried = payload::inspect(Family::V4, ip.protocol, bytes, part, packet.offload)?;
    if carried.kind == Kind::UdpZeroChecksum {
        // RFC 7915 section 4.5.
        match (part, t.udp_zero_checksum) {
            (Part::Whole, UdpZeroChecksum::Compute) => {}
            (Part::Whole, UdpZeroChecksum::Drop) => return Err(Reason::UdpZeroChecksum.into()),
            _ => return Err(Reason::FragmentUdpZeroChecksum.into()),
        }
    }
    Ok(carried)
}

/// Both addresses (RFC 7915 section 6).
fn map(t: &Translator, ip: &Ipv4) -> Result<(Ipv6Addr, Ipv6Addr), Refusal> {
    let (src, _) = t.mapper.to_ipv6(ip.src).map_err(|why| {
        why.reason(Reason::SourceUnmapped)
            .answer(Answer::Prohibited)
    })?;
    let (dst, _) = t.mapper.to_ipv6(ip.dst).map_err(|why| {
        why.reason(Reason::DestinationUnmapped)
            .answer(Answer::Prohibited)
    })?;
    Ok((src, dst))
}

/// RFC 7915 section 4.1. Of a packet that stands for several, one segment must fit.
fn fit(t: &Translator, ip: &Ipv4, carried: &Payload) -> Result<(), Refusal> {
    let headers = IPV6_LEN + if ip.is_fragment() { FRAGMENT_LEN } else { 0 };
    let largest = headers + carried.largest;
    if largest > t.mtu6 {
        // "If the DF bit is set and the MTU of the next-hop interface is less than the total length value of the IPv4 packet
        // plus 20": what fits is less by the headers' difference, which a Fragment header makes 28.
        return Err(Reason::TooBig.answer(Answer::TooBig(t.mtu6 - (headers - IPV4_LEN))));
    }
    Ok(())
}

/// Makes the payload one of IPv6: ICMP type, checksum.
#[inline]
fn rewrite_payload(packet: &mut Packet<'_>, ip: &Ipv4, kind: Kind, src: Ipv6Addr, dst: Ipv6Addr) {
    let offload = packet.offload;
    let bytes = &mut packet.bytes_mut()[ip.header_len..];
    match kind {
        Kind::Checksummed {
            at,
            zero_means_none,
        } => {
            // Protocol and length are the same in both pseudo-headers.
            let old = Sum::default().ipv4(ip.src).ipv4(ip.dst);
            let new = Sum::default().ipv6(src).ipv6(dst);
            payload::carry_over(bytes, at, offload, zero_means_none, old, new);
        }
        Kind::Echo => {
            // ICMPv6, unlike ICMPv4, has a pseudo-header (RFC 7915 section 4.2).
            let pseudo = csum::pseudo_ipv6(src, dst, protocol::ICMPV6, bytes.len());
            let old_type = bytes[0];
            let new_type = if old_type == v4::ECHO_REQUEST {
                v6::ECHO_REQUEST
            } else {
                v6::ECHO_REPLY
            };
            bytes[0] = new_type;
            // The seed of a partial checksum is the pseudo-header alone.
            let (old, new) = match offload.checksum {
                Checksum::Complete => (type_word(old_type), type_word(new_type).plus(pseudo)),
                Checksum::Partial => (Sum::default(), pseudo),
            };
            payload::carry_over(bytes, ICMP_CHECKSUM_AT, offload, false, old, new);
        }
        Kind::UdpZeroChecksum => {
            let len = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            let pseudo = csum::pseudo_ipv6(src, dst, protocol::UDP, len);
            let checksum = if offload.gso.is_some() {
                // Every segment gets one of its own, from the device.
                packet.offload.checksum = Checksum::Partial;
                pseudo.fold()
            } else {
                match !csum::sum(&bytes[..len]).plus(pseudo).fold() {
                    0 => 0xffff,
                    checksum => checksum,
                }
            };
            packet.bytes_mut()[ip.header_len + UDP_CHECKSUM_AT..][..2]
                .copy_from_slice(&checksum.to_be_bytes());
        }
        Kind::IcmpError | Kind::Opaque => {}
    }
}

/// The first word of an ICMP message; its code is the same before and after.
fn type_word(icmp_type: u8) -> Sum {
    Sum::default().word(u16::from(icmp_type) << 8)
}
