// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hairpinning: an IPv6 packet to an IPv4 address that belongs to a node behind this translator
//! (RFC 7757 section 4.2, intrinsic hairpinning).
//!
//! The result equals translation to IPv4 and back, except that the translator counts as one hop,
//! not two. The source is embedded in the prefix that the sender used for its peer, even if the
//! source has its own mapping, so that the answer returns through the translator.

use super::payload::{self, Numbers, Payload, PayloadKind};
use super::{mss, Translator};
use crate::csum::Sum;
use crate::frag;
use crate::icmp::Answer;
use crate::packet::{Outbox, Packet};
use crate::refusal::Refusal;
use crate::verdict::{Reason, Verdict};
use crate::wire::icmp::ICMP_CHECKSUM_AT;
use crate::wire::{protocol, Addresses, Fragment, Headers6, Ipv6, FRAGMENT_LEN, IPV6_LEN};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Sends the packet back to IPv6. `prefix`: the index of the translation prefix in which the source is embedded. The destination
/// is that of a node with a mapping of its own.
pub(super) fn turn(
    t: &Translator,
    headers: Headers6<'_>,
    prefix: u8,
    Addresses { src, dst }: Addresses<Ipv4Addr>,
    carried: &Payload,
    packet: &mut Packet<'_>,
    out: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let src = t
        .mapper
        .embed(prefix, src)
        .map_err(|why| why.reason(Reason::SourceUnmapped))?;
    let dst = t
        .mapper
        .to_ipv6(dst)
        .map_err(|why| why.reason(Reason::DestinationUnmapped))?
        .0;
    send(
        t,
        headers,
        Addresses { src, dst },
        None,
        carried,
        packet,
        out,
    )
}

/// Sends the packet back to IPv6 between these addresses, and with other ports if given.
pub fn send(
    t: &Translator,
    headers: Headers6<'_>,
    Addresses { src, dst }: Addresses<Ipv6Addr>,
    numbers: Option<Numbers>,
    carried: &Payload,
    packet: &mut Packet<'_>,
    out: &mut impl Outbox,
) -> Result<Verdict, Refusal> {
    let Headers6 {
        ip,
        hop_limit,
        chain,
    } = headers;
    // An atomic fragment is not a fragment in IPv4, so it returns without a Fragment header.
    let fragment = chain.fragment.filter(|fragment| !fragment.is_atomic());
    let header_len = IPV6_LEN + if fragment.is_some() { FRAGMENT_LEN } else { 0 };
    let is_too_big = header_len + carried.largest() > t.mtu6;
    // In IPv4, an atomic fragment may be fragmented.
    let one_piece = chain.fragment.filter(|fragment| fragment.is_atomic());
    let pieces_of = one_piece.filter(|_| is_too_big && packet.offload.gso.is_none());
    if is_too_big && pieces_of.is_none() {
        return Err(Reason::TooBig.answered(Answer::TooBig(t.mtu6)));
    }

    let offload = packet.offload;
    let bytes = &mut packet.bytes_mut()[chain.payload_at..];
    if let Some(numbers) = numbers {
        payload::renumber(bytes, carried.kind, offload, numbers);
    }
    let old = Sum::default().ipv6(ip.src).ipv6(ip.dst);
    let new = Sum::default().ipv6(src).ipv6(dst);
    match carried.kind {
        PayloadKind::Checksummed { at, never_zero } => {
            payload::carry_over(bytes, at.into(), never_zero, offload, old, new)
        }
        PayloadKind::Echo(_) => {
            payload::carry_over(bytes, ICMP_CHECKSUM_AT, false, offload, old, new)
        }
        PayloadKind::UdpZeroChecksum | PayloadKind::IcmpError | PayloadKind::Opaque => {}
    }
    let what = (chain.protocol, carried.kind);
    mss::clamp(t, what, packet, chain.payload_at, out);
    if let Some(fragment) = pieces_of {
        let bytes = &mut packet.bytes_mut()[chain.payload_at..];
        payload::complete(bytes, carried.kind, offload);
        let limit = t.longest_fragment6 - IPV6_LEN - FRAGMENT_LEN;
        let header_len = IPV6_LEN + FRAGMENT_LEN;
        frag::cut(
            packet,
            chain.payload_at,
            header_len,
            limit,
            out,
            |bytes, piece| {
                let header = Ipv6 {
                    traffic_class: t.class_out(ip.traffic_class),
                    flow_label: 0,
                    payload_len: FRAGMENT_LEN + piece.len,
                    next_header: protocol::FRAGMENT,
                    hop_limit,
                    src,
                    dst,
                };
                header.emit(bytes);
                let fragment = Fragment {
                    next_header: chain.protocol,
                    offset: piece.offset,
                    more: !piece.last,
                    id: fragment.id & 0xffff,
                };
                fragment.emit(&mut bytes[IPV6_LEN..]);
            },
        );
        return Ok(Verdict::Emitted);
    }
    packet.replace_front(chain.payload_at, header_len);
    let bytes = packet.bytes_mut();
    let header = Ipv6 {
        traffic_class: t.class_out(ip.traffic_class),
        flow_label: 0,
        payload_len: bytes.len() - IPV6_LEN,
        next_header: if fragment.is_some() {
            protocol::FRAGMENT
        } else {
            chain.protocol
        },
        hop_limit,
        src,
        dst,
    };
    header.emit(bytes);
    if let Some(fragment) = fragment {
        // IPv4 holds only 16 bits of the identification.
        Fragment {
            id: fragment.id & 0xffff,
            ..fragment
        }
        .emit(&mut bytes[IPV6_LEN..]);
    }
    Ok(Verdict::Forward)
}
