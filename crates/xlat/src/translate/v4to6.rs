// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates from IPv4 to IPv6 (RFC 7915 section 4).

use super::payload::{self, Family, Payload, PayloadKind};
use super::{hop, leave, legal, mss, place_in_datagram, Fit, Outgoing, Translator};
use crate::addr::special::{kind_of_ipv4, AddressKind};
use crate::config::UdpZeroChecksum;
use crate::csum::{self, Sum};
use crate::frag::{self, Piece};
use crate::icmp::{Answer, LARGEST_ERROR};
use crate::packet::{Checksum, Offload, Outbox, Packet};
use crate::refusal::Refusal;
use crate::verdict::{Reason, Verdict};
use crate::wire::icmp::{v4, Class};
use crate::wire::{
    next_header_of, protocol, source_route, Addresses, Fragment, FragmentKind, Headers4, Ipv4,
    Ipv6, SourceRoute, FRAGMENT_LEN, IPV4_LEN, IPV6_LEN, UDP_CHECKSUM_AT,
};
use std::net::Ipv6Addr;

pub(super) fn translate(
    t: &Translator,
    packet: &mut Packet<'_>,
    out: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let ip = receive(packet)?;
    let hop_limit = hop(t, ip.ttl)?;
    if t.clat && !t.mapper.is_explicit(ip.src) {
        return Err(Reason::SourceUnmapped.into());
    }
    let next_header = next_header_of(ip.protocol)?;
    let carried = carried(t, &ip, packet)?;
    let headers = Headers4 { ip: &ip, hop_limit };
    if carried.kind == PayloadKind::IcmpError {
        return error(t, headers, packet);
    }
    let addresses = map(t, &ip)?;
    let fit = fit(t, &ip, &carried, packet.offload)?;
    if fit == Fit::Segments {
        return segments(&ip, packet, |segment| {
            leave(translate(t, segment, out)?, segment, out)
        });
    }
    let outgoing = Outgoing {
        protocol: next_header,
        carried: &carried,
        fit,
        addresses,
    };
    send(t, packet, out, headers, outgoing)
}

/// Sends a packet that fits as an IPv6 packet.
#[inline(always)]
pub fn send(
    t: &Translator,
    packet: &mut Packet<'_>,
    out: &mut impl Outbox,
    Headers4 { ip, hop_limit }: Headers4<'_>,
    outgoing: Outgoing<'_, Ipv6Addr>,
) -> Result<Verdict, Refusal> {
    let Outgoing {
        protocol: next_header,
        carried,
        fit,
        addresses: Addresses { src, dst },
    } = outgoing;
    let header_len = if fit == Fit::Whole && !ip.is_fragment() {
        IPV6_LEN
    } else {
        IPV6_LEN + FRAGMENT_LEN
    };
    if !packet.has_room(ip.header_len, header_len) {
        return Err(Reason::Headroom.into());
    }
    rewrite_payload(packet, ip, carried.kind, src, dst);
    mss::clamp(t, (next_header, carried.kind), packet, ip.header_len, out);
    let header = Ipv6 {
        traffic_class: t.class_out(ip.tos),
        flow_label: 0,
        payload_len: ip.payload_len(),
        next_header,
        hop_limit,
        src,
        dst,
    };
    match fit {
        Fit::Whole if !ip.is_fragment() => {
            packet.replace_front(ip.header_len, IPV6_LEN);
            header.emit(packet.bytes_mut());
            Ok(Verdict::Forward)
        }
        Fit::Whole | Fit::Segments => {
            let piece = Piece {
                offset: 0,
                len: ip.payload_len(),
                last: true,
            };
            packet.replace_front(ip.header_len, header_len);
            fragment_headers(packet.bytes_mut(), ip, &header, piece);
            Ok(Verdict::Forward)
        }
        Fit::Cut(largest) => {
            let offload = packet.offload;
            payload::complete(
                &mut packet.bytes_mut()[ip.header_len..],
                carried.kind,
                offload,
            );
            frag::cut(
                packet,
                ip.header_len,
                header_len,
                largest - header_len,
                out,
                |bytes, piece| {
                    fragment_headers(bytes, ip, &header, piece);
                },
            );
            Ok(Verdict::Emitted)
        }
    }
}

/// Returns the header if a router may forward the packet; removes link padding.
#[inline]
pub fn receive(packet: &mut Packet<'_>) -> Result<Ipv4, Refusal> {
    let ip = Ipv4::parse_packet(packet.bytes())?;
    packet.truncate(ip.total_len);
    match legal(kind_of_ipv4(ip.src), kind_of_ipv4(ip.dst)) {
        // "When translating ICMPv4 Error Messages into ICMPv6, the "illegal" source address will be
        // translated for the purpose of trouble shooting" (RFC 7915 section 4.1).
        Err(Reason::SourceIllegal) if is_error(&ip, packet) => {
            legal(AddressKind::Unicast, kind_of_ipv4(ip.dst))?
        }
        legal => legal?,
    }
    if ip.header_len > IPV4_LEN {
        // Options "MUST be ignored [...] However, if an unexpired source route option is present,
        // then the packet MUST instead be discarded", and Source Route Failed returned (RFC 7915
        // section 4.1).
        let options = &packet.bytes()[IPV4_LEN..ip.header_len];
        if source_route(options)? == SourceRoute::Unexpired {
            return Err(Reason::SourceRoute.answered(Answer::SourceRouteFailed));
        }
    }
    if ip.is_fragment() {
        place_in_datagram(
            ip.fragment_offset,
            ip.payload_len(),
            ip.more_fragments,
            ip.header_len,
        )?;
    }
    Ok(ip)
}

fn is_error(ip: &Ipv4, packet: &Packet<'_>) -> bool {
    ip.protocol == protocol::ICMPV4
        && !ip.is_fragment()
        && packet
            .bytes()
            .get(ip.header_len)
            .is_some_and(|&icmp_type| v4::class_of(icmp_type) == Class::Error)
}

/// Classifies the payload, or refuses it if it cannot be translated.
#[inline]
pub fn carried(t: &Translator, ip: &Ipv4, packet: &Packet<'_>) -> Result<Payload, Refusal> {
    let part = FragmentKind::of(ip.fragment_offset, ip.more_fragments);
    let bytes = &packet.bytes()[ip.header_len..];
    let mut carried = payload::inspect(Family::V4, ip.protocol, bytes, part, packet.offload)?;
    if carried.kind == PayloadKind::UdpZeroChecksum {
        if t.keeps_zero_checksum(ports_of(bytes)) && packet.offload.gso.is_none() {
            // "Protocols that use UDP as a tunnel encapsulation may enable zero-checksum mode for a specific
            // port" (RFC 8200 section 8.1).
            carried.kind = PayloadKind::Opaque;
            return Ok(carried);
        }
        // RFC 7915 section 4.5.
        match (part, t.udp_zero_checksum) {
            (FragmentKind::Whole, UdpZeroChecksum::Compute) => {}
            (FragmentKind::Whole, UdpZeroChecksum::Drop) => {
                return Err(Reason::UdpZeroChecksum.into())
            }
            _ => return Err(Reason::FragmentUdpZeroChecksum.into()),
        }
    }
    Ok(carried)
}

/// Returns source and destination port of a UDP datagram with a whole header.
fn ports_of(udp: &[u8]) -> [u16; 2] {
    [0, 2].map(|at| u16::from_be_bytes([udp[at], udp[at + 1]]))
}

/// Rewrites an ICMP error.
fn error(
    t: &Translator,
    headers: Headers4<'_>,
    packet: &mut Packet<'_>,
) -> Result<Verdict, Refusal> {
    let mut error = [0; LARGEST_ERROR];
    let checksum = packet.offload.checksum;
    let len = t.icmp.to_ipv6(
        &t.mapper,
        None,
        headers,
        packet.bytes(),
        checksum,
        &mut error,
    )?;
    if !packet.replace_all(&error[..len]) {
        return Err(Reason::Headroom.into());
    }
    packet.offload = packet.offload.of_part();
    Ok(Verdict::Forward)
}

/// Maps both addresses (RFC 7915 section 6).
#[inline]
fn map(t: &Translator, ip: &Ipv4) -> Result<Addresses<Ipv6Addr>, Refusal> {
    let src = t
        .mapper
        .to_ipv6(ip.src)
        .map_err(|why| why.reason(Reason::SourceUnmapped))?
        .0;
    let dst = t
        .mapper
        .to_ipv6(ip.dst)
        .map_err(|why| why.reason(Reason::DestinationUnmapped))?
        .0;
    Ok(Addresses { src, dst })
}

/// Checks the size (RFC 7915 section 4.1). For a super-packet, one segment must fit.
#[inline]
pub fn fit(t: &Translator, ip: &Ipv4, carried: &Payload, offload: Offload) -> Result<Fit, Refusal> {
    let headers = IPV6_LEN + if ip.is_fragment() { FRAGMENT_LEN } else { 0 };
    let largest = headers + carried.largest();
    if ip.dont_fragment {
        if largest > t.mtu6 {
            // "If the DF bit is set and the MTU of the next-hop interface is less than the total length
            // value of the IPv4 packet plus 20": the reported MTU is less by the difference of the headers,
            // which is 28 with a Fragment header.
            return Err(Reason::TooBig.answered(Answer::TooBig(t.mtu6 - (headers - IPV4_LEN))));
        }
        return Ok(Fit::Whole);
    }
    // "If the DF flag is not set and the IPv4 packet will result in an IPv6 packet larger than
    // [lowest-ipv6-mtu], the packet SHOULD be fragmented so that the resulting IPv6 packet [...]
    // will be less than or equal to" it.
    let limit = t.longest_fragment6;
    match offload.gso {
        _ if largest <= limit => Ok(Fit::Whole),
        Some(_) => Ok(Fit::Segments),
        None => Ok(Fit::Cut(limit)),
    }
}

/// Gives the segments of a super-packet to `send` one by one, each with a header derived from that of the
/// packet.
#[cold]
#[inline(never)]
pub fn segments(
    ip: &Ipv4,
    packet: &mut Packet<'_>,
    send: impl FnMut(&mut Packet<'_>) -> Result<(), Refusal>,
) -> Result<Verdict, Refusal> {
    let Some(gso) = packet.offload.gso else {
        return Err(Reason::OffloadMismatch.into());
    };
    let head = |bytes: &mut [u8], number: u16, len: usize| {
        // Identifications count up, as in the segments that a device makes.
        let id = ip.id.wrapping_add(number);
        Ipv4 {
            header_len: IPV4_LEN,
            total_len: IPV4_LEN + len,
            id,
            ..*ip
        }
        .emit(bytes);
        csum::pseudo_ipv4(ip.src, ip.dst, ip.protocol, len)
    };
    frag::segments(packet, ip.header_len, gso, IPV4_LEN, head, send)
        .map_err(|refusal| refusal.reason.answered(Answer::Silence))?;
    Ok(Verdict::Emitted)
}

/// Translates the payload to IPv6: ICMP type and checksum.
#[inline]
fn rewrite_payload(
    packet: &mut Packet<'_>,
    ip: &Ipv4,
    kind: PayloadKind,
    src: Ipv6Addr,
    dst: Ipv6Addr,
) {
    let offload = packet.offload;
    let bytes = &mut packet.bytes_mut()[ip.header_len..];
    match kind {
        PayloadKind::Checksummed { at, never_zero } => {
            // Protocol and length are equal in both pseudo-headers.
            let old = Sum::default().ipv4(ip.src).ipv4(ip.dst);
            let new = Sum::default().ipv6(src).ipv6(dst);
            payload::carry_over(bytes, at.into(), never_zero, offload, old, new);
        }
        PayloadKind::Echo(new_type) => {
            // ICMPv6, unlike ICMPv4, has a pseudo-header (RFC 7915 section 4.2).
            let pseudo = csum::pseudo_ipv6(src, dst, protocol::ICMPV6, bytes.len());
            payload::rewrite_echo(bytes, new_type, offload, Sum::default(), pseudo);
        }
        PayloadKind::UdpZeroChecksum => {
            let len = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            let pseudo = csum::pseudo_ipv6(src, dst, protocol::UDP, len);
            if offload.gso.is_some() {
                // The device computes the checksum of each segment.
                csum::set_field(bytes, UDP_CHECKSUM_AT, pseudo.fold());
                packet.offload.checksum = Checksum::Partial;
            } else {
                let checksum = !csum::sum(&bytes[..len]).plus(pseudo).fold();
                csum::set_field(bytes, UDP_CHECKSUM_AT, csum::never_zero(checksum));
            }
        }
        PayloadKind::IcmpError | PayloadKind::Opaque => {}
    }
}

/// Writes both headers of a fragment (RFC 7915 section 4.1): "the low-order 16 bits of the fragment
/// identification are carried end-to-end".
fn fragment_headers(bytes: &mut [u8], ip: &Ipv4, header: &Ipv6, piece: Piece) {
    let payload_len = FRAGMENT_LEN + piece.len;
    Ipv6 {
        payload_len,
        next_header: protocol::FRAGMENT,
        ..*header
    }
    .emit(bytes);
    let fragment = Fragment {
        next_header: header.next_header,
        offset: ip.fragment_offset + piece.offset,
        more: ip.more_fragments || !piece.last,
        id: u32::from(ip.id),
    };
    fragment.emit(&mut bytes[IPV6_LEN..]);
}
