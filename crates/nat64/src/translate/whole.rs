// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembles packets from fragments (RFC 791 section 3.2, RFC 8200 section 4.5) if the fragments cannot be translated
//! one by one: the checksum of ICMPv6 covers the length of the whole message, and a missing UDP checksum has to be
//! computed over every byte.
//!
//! The result may be fragmented again on the other side, as its fragments could be: it has no DF, or an atomic Fragment
//! header (RFC 6946), with the identification of the fragments.

use diolkos_xlat::packet::Label;
use diolkos_xlat::verdict::Reason;
use diolkos_xlat::wire::{Chain, Fragment, Ipv4, Ipv6, FRAGMENT_LEN, IPV4_LEN, IPV6_LEN};

/// Maximum number of fragments of a packet: 64 KiB in the smallest fragments that an IPv6 path may require are 54.
const MAX_PARTS: usize = 64;

/// A held fragment, or a reassembled packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldPacket {
    /// The whole packet from its IP header on.
    pub bytes: Box<[u8]>,
    /// The metadata with which it arrived.
    pub label: Label,
}

/// The result of reassembly.
#[derive(Debug)]
pub enum Sum {
    /// Fragments are missing.
    Incomplete,
    /// The whole packet. It has the label of the first fragment, as with reassembly in the kernel.
    Whole(HeldPacket),
    /// The fragments contradict each other, or are more than any packet needs.
    Spoilt(Reason),
}

/// A fragment and its position in the packet in bytes.
struct PlacedFragment<'a> {
    packet: &'a [u8],
    label: Label,
    from: usize,
    data: &'a [u8],
    more: bool,
}

impl PlacedFragment<'_> {
    fn to(&self) -> usize {
        self.from + self.data.len()
    }
}

/// Reassembles fragments in any order. Each has passed the checks of a fragment that is translated by itself.
pub fn sum(held: &[HeldPacket]) -> Sum {
    let mut parts: Vec<PlacedFragment<'_>> = held.iter().filter_map(part).collect();
    if parts.len() != held.len() || parts.iter().any(|part| part.data.is_empty()) {
        return Sum::Spoilt(Reason::FragmentMalformed);
    }
    parts.sort_by_key(|part| (part.from, part.to()));
    // Duplicates, which networks create, are no overlap (RFC 8200 section 4.5).
    parts.dedup_by(|b, a| (a.from, a.data, a.more) == (b.from, b.data, b.more));
    if parts.len() > MAX_PARTS {
        return Sum::Spoilt(Reason::FragmentLimit);
    }
    let overlap = parts.windows(2).any(|two| two[0].to() > two[1].from);
    // No data follows the last fragment.
    let beyond = parts.iter().rev().skip(1).any(|part| !part.more);
    if overlap || beyond {
        return Sum::Spoilt(Reason::FragmentOverlap);
    }
    let len: usize = parts.iter().map(|part| part.data.len()).sum();
    match parts.last() {
        Some(last) if !last.more && last.to() == len => join(&parts, len),
        _ => Sum::Incomplete,
    }
}

fn part(held: &HeldPacket) -> Option<PlacedFragment<'_>> {
    let (packet, label) = (&*held.bytes, held.label);
    if packet.first()? >> 4 == 4 {
        let ip = Ipv4::parse(packet).ok()?;
        return Some(PlacedFragment {
            packet,
            label,
            from: usize::from(ip.fragment_offset) * 8,
            data: packet.get(ip.header_len..ip.total_len)?,
            more: ip.more_fragments,
        });
    }
    let (_, chain, fragment) = ipv6(packet)?;
    Some(PlacedFragment {
        packet,
        label,
        from: usize::from(fragment.offset) * 8,
        data: packet.get(chain.payload_at..)?,
        more: fragment.more,
    })
}

fn ipv6(packet: &[u8]) -> Option<(Ipv6, Chain, Fragment)> {
    let ip = Ipv6::parse_packet(packet).ok()?;
    let chain = Chain::walk(packet, ip.next_header)?;
    Some((ip, chain, chain.fragment?))
}

/// Joins the fragments, with the headers of the first one.
fn join(parts: &[PlacedFragment<'_>], len: usize) -> Sum {
    let headers = match parts[0].packet[0] >> 4 {
        4 => headers4(parts, len),
        _ => headers6(parts, len),
    };
    let Some(mut whole) = headers else {
        return Sum::Spoilt(Reason::TooLong);
    };
    parts.iter().for_each(|part| whole.extend(part.data));
    Sum::Whole(HeldPacket {
        bytes: whole.into(),
        label: parts[0].label,
    })
}

/// The IPv4 header without options, which are not translated.
fn headers4(parts: &[PlacedFragment<'_>], len: usize) -> Option<Vec<u8>> {
    let ip = Ipv4::parse(parts[0].packet).ok()?;
    let classes = parts.iter().map(|part| part.packet[1]);
    let header = Ipv4 {
        tos: congestion(ip.tos, classes),
        header_len: IPV4_LEN,
        total_len: IPV4_LEN + len,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ..ip
    };
    if header.total_len > usize::from(u16::MAX) {
        return None;
    }
    let mut whole = vec![0; IPV4_LEN];
    header.emit(&mut whole);
    Some(whole)
}

fn headers6(parts: &[PlacedFragment<'_>], len: usize) -> Option<Vec<u8>> {
    let (ip, chain, fragment) = ipv6(parts[0].packet)?;
    let classes = parts
        .iter()
        .map(|part| part.packet[0] << 4 | part.packet[1] >> 4);
    let header = Ipv6 {
        traffic_class: congestion(ip.traffic_class, classes),
        payload_len: chain.payload_at - IPV6_LEN + len,
        ..ip
    };
    if header.payload_len > usize::from(u16::MAX) {
        return None;
    }
    let mut whole = parts[0].packet[..chain.payload_at].to_vec();
    header.emit(&mut whole);
    let one_piece = Fragment {
        offset: 0,
        more: false,
        ..fragment
    };
    one_piece.emit(&mut whole[chain.payload_at - FRAGMENT_LEN..]);
    Some(whole)
}

/// "If any fragment has the CE codepoint set, the reassembled packet has it" (RFC 3168 section 5.3), unless the first
/// fragment shows that the transport is not ECN-capable.
fn congestion(first: u8, mut all: impl Iterator<Item = u8>) -> u8 {
    const ECN: u8 = 3;
    let met = all.any(|class| class & ECN == ECN);
    match first & ECN {
        0 => first,
        _ if met => first | ECN,
        _ => first,
    }
}

#[cfg(test)]
mod tests;
