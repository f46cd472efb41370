// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates from IPv6 to IPv4 (RFC 7915 section 5).

use super::payload::{self, Family, Payload, PayloadKind};
use super::{hairpin, hop, leave, legal, mss, place_in_datagram, Fit, Outgoing, Translator};
use crate::addr::special::{kind_of_ipv4, kind_of_ipv6};
use crate::csum::{self, Sum};
use crate::frag::{self, Piece};
use crate::icmp::{Answer, LARGEST_ERROR, LARGEST_WITHOUT_DF};
use crate::map::Via;
use crate::packet::{Env, Offload, Outbox, Packet};
use crate::refusal::Refusal;
use crate::verdict::{Reason, Verdict};
use crate::wire::{
    protocol, protocol_of, Addresses, Chain, FragmentKind, Headers4, Headers6, Ipv4, Ipv6,
    IPV4_LEN, IPV6_LEN,
};
use std::net::Ipv4Addr;

/// The smallest MTU of IPv6 (RFC 8200 section 5).
const MIN_MTU_6: usize = 1280;

pub(super) fn translate(
    t: &Translator,
    packet: &mut Packet<'_>,
    env: &mut impl Env,
    out: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let ip = receive(packet)?;
    let hop_limit = hop(t, ip.hop_limit)?;
    if t.clat && !matches!(t.mapper.to_ipv4(ip.dst), Ok((_, Via::Eam))) {
        return Err(Reason::DestinationUnmapped.into());
    }
    // Most packets have no extension headers and take a specialised path.
    match Chain::empty(ip.next_header) {
        Some(chain) => {
            let headers = Headers6 {
                ip: &ip,
                hop_limit,
                chain: &chain,
            };
            carry(t, packet, env, out, headers)
        }
        None => follow_and_carry(t, packet, env, out, &ip, hop_limit),
    }
}

#[cold]
#[inline(never)]
fn follow_and_carry(
    t: &Translator,
    packet: &mut Packet<'_>,
    env: &mut impl Env,
    out: &mut impl Outbox,
    ip: &Ipv6,
    hop_limit: u8,
) -> Result<Verdict, Refusal> {
    let headers = Headers6 {
        ip,
        hop_limit,
        chain: &follow(packet, ip)?,
    };
    carry(t, packet, env, out, headers)
}

#[inline(always)]
fn carry(
    t: &Translator,
    packet: &mut Packet<'_>,
    env: &mut impl Env,
    out: &mut impl Outbox,
    headers: Headers6<'_>,
) -> Result<Verdict, Refusal> {
    let Headers6 { ip, chain, .. } = headers;
    let ipv4_protocol = protocol_of(chain.protocol)?;
    let carried = carried(chain, packet)?;
    if carried.kind == PayloadKind::IcmpError {
        return error(t, headers, packet, env);
    }
    let (addresses, via) = map(t, ip)?;
    if let Via::Pref64(prefix) = via {
        if t.mapper.is_explicit(addresses.dst) {
            return hairpin::turn(t, headers, prefix, addresses, &carried, packet, out);
        }
    }
    let fit = fit(t, packet, chain, &carried)?;
    if fit == Fit::Segments {
        return segments(ip, chain, packet, |segment| {
            leave(translate(t, segment, env, out)?, segment, out)
        });
    }
    let outgoing = Outgoing {
        protocol: ipv4_protocol,
        carried: &carried,
        fit,
        addresses,
    };
    Ok(send(t, packet, env, out, headers, outgoing))
}

/// Sends a packet that fits as an IPv4 packet.
#[inline(always)]
pub fn send(
    t: &Translator,
    packet: &mut Packet<'_>,
    env: &mut impl Env,
    out: &mut impl Outbox,
    headers: Headers6<'_>,
    outgoing: Outgoing<'_, Ipv4Addr>,
) -> Verdict {
    let Headers6 { ip, chain, .. } = headers;
    let Outgoing {
        protocol,
        carried,
        fit,
        addresses: Addresses { src, dst },
    } = outgoing;
    rewrite_payload(packet, ip, chain, carried.kind, src, dst);
    let what = (protocol, carried.kind);
    mss::clamp(t, what, packet, chain.payload_at, out);
    let may_fragment =
        chain.fragment.is_some() || IPV4_LEN + carried.largest() <= LARGEST_WITHOUT_DF;
    let header = Ipv4 {
        tos: t.class_out(ip.traffic_class),
        header_len: IPV4_LEN,
        total_len: IPV4_LEN + packet.bytes().len() - chain.payload_at,
        id: match chain.fragment {
            // "Copied from the low-order 16 bits in the Identification field" (RFC 7915 section
            // 5.1.1).
            Some(fragment) => fragment.id as u16,
            // An identification has meaning only if the packet may be fragmented (RFC 6864 section
            // 4.1).
            None if may_fragment => {
                let payload_len = packet.bytes().len() - chain.payload_at;
                env.ipv4_ids(carried.segments(payload_len, packet.offload))
            }
            None => 0,
        },
        dont_fragment: !may_fragment,
        more_fragments: chain.fragment.is_some_and(|fragment| fragment.more),
        fragment_offset: chain.fragment.map_or(0, |fragment| fragment.offset),
        ttl: headers.hop_limit,
        protocol,
        src,
        dst,
    };
    match fit {
        Fit::Whole | Fit::Segments => {
            packet.replace_front(chain.payload_at, IPV4_LEN);
            header.emit(packet.bytes_mut());
            Verdict::Forward
        }
        Fit::Cut(largest) => {
            let offload = packet.offload;
            payload::complete(
                &mut packet.bytes_mut()[chain.payload_at..],
                carried.kind,
                offload,
            );
            frag::cut(
                packet,
                chain.payload_at,
                IPV4_LEN,
                largest - IPV4_LEN,
                out,
                |bytes, piece| {
                    fragment_header(bytes, &header, piece);
                },
            );
            Verdict::Emitted
        }
    }
}

/// Returns the header if a router may forward the packet; removes link padding.
#[inline]
pub fn receive(packet: &mut Packet<'_>) -> Result<Ipv6, Refusal> {
    let ip = Ipv6::parse_packet(packet.bytes())?;
    packet.truncate(IPV6_LEN + ip.payload_len);
    legal(kind_of_ipv6(ip.src), kind_of_ipv6(ip.dst))?;
    Ok(ip)
}

/// Walks the extension headers. They are ignored, except the Fragment header and a routing header
/// that is not at its end (RFC 7915 section 5.1).
#[inline]
pub fn follow(packet: &Packet<'_>, ip: &Ipv6) -> Result<Chain, Refusal> {
    let chain = Chain::walk(packet.bytes(), ip.next_header).ok_or(Reason::ExtensionChain)?;
    if let Some(at) = chain.segments_left_at {
        return Err(Reason::RoutingSegmentsLeft.answered(Answer::ErroneousField(at)));
    }
    if let Some(fragment) = chain.fragment {
        if chain.extension_after_fragment {
            // "The packet SHOULD be dropped and logged" (RFC 7915 section 5.1.1).
            return Err(Reason::FragmentExtension.into());
        }
        let len = packet.bytes().len() - chain.payload_at;
        place_in_datagram(fragment.offset, len, fragment.more, 0)?;
        if usize::from(fragment.offset) * 8 + len > usize::from(u16::MAX) - IPV4_LEN {
            return Err(Reason::TooLong.into());
        }
    }
    Ok(chain)
}

/// Classifies the payload, or refuses it if it cannot be translated.
#[inline]
pub fn carried(chain: &Chain, packet: &Packet<'_>) -> Result<Payload, Refusal> {
    let part = chain.fragment.map_or(FragmentKind::Whole, |fragment| {
        FragmentKind::of(fragment.offset, fragment.more)
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

/// Rewrites an ICMP error. An error about a packet that was hairpinned is rewritten twice.
fn error(
    t: &Translator,
    headers: Headers6<'_>,
    packet: &mut Packet<'_>,
    env: &mut impl Env,
) -> Result<Verdict, Refusal> {
    let mut error = [0; LARGEST_ERROR];
    let checksum = packet.offload.checksum;
    // The identification of an atomic fragment is kept for the error (RFC 7915 section 5.1.1).
    let id = match headers.chain.fragment {
        Some(fragment) => fragment.id as u16,
        None => env.ipv4_id(),
    };
    let translated =
        t.icmp
            .to_ipv4(&t.mapper, headers, id, packet.bytes(), checksum, &mut error)?;
    let mut len = translated.len;
    packet.offload = Offload::default();
    if translated.hairpin.is_some() {
        let there = error;
        let between = Ipv4::parse_packet(&there[..len])?;
        let back = Headers4 {
            ip: &between,
            hop_limit: headers.hop_limit,
        };
        len = t.icmp.to_ipv6(
            &t.mapper,
            translated.hairpin,
            back,
            &there[..len],
            Default::default(),
            &mut error,
        )?;
    }
    if !packet.replace_all(&error[..len]) {
        return Err(Reason::Headroom.into());
    }
    Ok(Verdict::Forward)
}

/// Maps both addresses (RFC 7915 section 6) and returns how the destination was mapped.
#[inline]
fn map(t: &Translator, ip: &Ipv6) -> Result<(Addresses<Ipv4Addr>, Via), Refusal> {
    let (src, _) = t
        .mapper
        .to_ipv4(ip.src)
        .map_err(|why| why.reason(Reason::SourceUnmapped))?;
    let (dst, via) = t
        .mapper
        .to_ipv4(ip.dst)
        .map_err(|why| why.reason(Reason::DestinationUnmapped))?;
    // An IPv6 address may embed an IPv4 address that no node can have.
    legal(kind_of_ipv4(src), kind_of_ipv4(dst))?;
    Ok((Addresses { src, dst }, via))
}

/// Checks the size (RFC 7915 sections 1.4 and 5). For a super-packet, one segment must fit.
#[inline]
pub fn fit(
    t: &Translator,
    packet: &Packet<'_>,
    chain: &Chain,
    carried: &Payload,
) -> Result<Fit, Refusal> {
    let largest = IPV4_LEN + carried.largest();
    if largest > t.mtu4 {
        if largest > LARGEST_WITHOUT_DF && chain.fragment.is_none() {
            // No IPv6 node has to go below 1280. Packets that it then sends have no DF in IPv4, and
            // are fragmented here.
            let mtu = (t.mtu4 + IPV6_LEN - IPV4_LEN).max(MIN_MTU_6);
            return Err(Reason::TooBig.answered(Answer::TooBig(mtu)));
        }
        return Ok(if packet.offload.gso.is_some() {
            Fit::Segments
        } else {
            Fit::Cut(t.mtu4)
        });
    }
    if IPV4_LEN + packet.bytes().len() - chain.payload_at > usize::from(u16::MAX) {
        // Only a super-packet can be too long for the length field while its segments fit.
        return Ok(Fit::Segments);
    }
    Ok(Fit::Whole)
}

/// Gives the segments of a super-packet to `send` one by one, each with a header derived from that
/// of the packet.
#[cold]
#[inline(never)]
pub fn segments(
    ip: &Ipv6,
    chain: &Chain,
    packet: &mut Packet<'_>,
    send: impl FnMut(&mut Packet<'_>) -> Result<(), Refusal>,
) -> Result<Verdict, Refusal> {
    let Some(gso) = packet.offload.gso else {
        return Err(Reason::TooLong.into());
    };
    let head = |bytes: &mut [u8], _number: u16, len: usize| {
        Ipv6 {
            payload_len: len,
            next_header: chain.protocol,
            ..*ip
        }
        .emit(bytes);
        csum::pseudo_ipv6(ip.src, ip.dst, chain.protocol, len)
    };
    frag::segments(packet, chain.payload_at, gso, IPV6_LEN, head, send)
        .map_err(|refusal| refusal.reason.answered(Answer::Silence))?;
    Ok(Verdict::Emitted)
}

/// Translates the payload to IPv4: ICMP type and checksum.
#[inline]
fn rewrite_payload(
    packet: &mut Packet<'_>,
    ip: &Ipv6,
    chain: &Chain,
    kind: PayloadKind,
    src: Ipv4Addr,
    dst: Ipv4Addr,
) {
    let offload = packet.offload;
    let bytes = &mut packet.bytes_mut()[chain.payload_at..];
    match kind {
        PayloadKind::Checksummed { at, never_zero } => {
            // Protocol and length are equal in both pseudo-headers.
            let old = Sum::default().ipv6(ip.src).ipv6(ip.dst);
            let new = Sum::default().ipv4(src).ipv4(dst);
            payload::carry_over(bytes, at.into(), never_zero, offload, old, new);
        }
        PayloadKind::Echo(new_type) => {
            let pseudo = csum::pseudo_ipv6(ip.src, ip.dst, protocol::ICMPV6, bytes.len());
            payload::rewrite_echo(bytes, new_type, offload, pseudo, Sum::default());
        }
        // IPv4 allows UDP without checksum. IPv6 allows it for tunnels (RFC 6935), and the datagram
        // may belong to one.
        PayloadKind::UdpZeroChecksum | PayloadKind::IcmpError | PayloadKind::Opaque => {}
    }
}

/// Writes the IPv4 header of a fragment (RFC 791 section 2.3).
pub fn fragment_header(bytes: &mut [u8], header: &Ipv4, piece: Piece) {
    let fragment = Ipv4 {
        total_len: IPV4_LEN + piece.len,
        more_fragments: header.more_fragments || !piece.last,
        fragment_offset: header.fragment_offset + piece.offset,
        ..*header
    };
    fragment.emit(bytes);
}
