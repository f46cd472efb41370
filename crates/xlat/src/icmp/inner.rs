// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet that an ICMP error quotes: "translated just like a normal IP packet", except that its
//! TTL or hop limit stays (RFC 7915 sections 4.3 and 5.3).
//!
//! It may be truncated anywhere after its first header. If a transport checksum is present, it is
//! updated; it is not verified, and UDP without a checksum stays without.

use crate::csum::{self, Sum};
use crate::verdict::Reason;
use crate::wire::icmp::{self, Class, ICMP_CHECKSUM_AT};
use crate::wire::{
    next_header_of, protocol, protocol_of, Addresses, Chain, Fragment, FragmentKind, Ipv4, Ipv6,
    Transport, FRAGMENT_LEN, IPV4_LEN, IPV6_LEN, UDP_CHECKSUM_AT,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses the quoted headers of an IPv4 packet.
pub fn parse_ipv4(quote: &[u8]) -> Result<Ipv4, Reason> {
    Ipv4::parse(quote).map_err(|_| Reason::IcmpInnerTruncated)
}

/// Parses the quoted headers of an IPv6 packet.
pub fn parse_ipv6(quote: &[u8]) -> Result<(Ipv6, Chain), Reason> {
    let ip = Ipv6::parse(quote).map_err(|_| Reason::IcmpInnerTruncated)?;
    let chain = Chain::walk(quote, ip.next_header).ok_or(Reason::IcmpInnerTruncated)?;
    if chain.segments_left_at.is_some() {
        return Err(Reason::RoutingSegmentsLeft);
    }
    if chain.extension_after_fragment {
        return Err(Reason::FragmentExtension);
    }
    Ok((ip, chain))
}

/// Writes the quoted IPv4 packet `quote`, whose header is `ip`, to `out` as an IPv6 packet between
/// these addresses. Returns its length, which may exceed the room in `out`; excess bytes are not
/// written.
///
/// # Panics
/// If `out` has no room for the headers.
pub fn to_ipv6(
    ip: &Ipv4,
    quote: &[u8],
    traffic_class: u8,
    Addresses { src, dst }: Addresses<Ipv6Addr>,
    out: &mut [u8],
) -> Result<usize, Reason> {
    let next_header = next_header_of(ip.protocol)?;
    let fragment = ip.is_fragment().then_some(Fragment {
        next_header,
        offset: ip.fragment_offset,
        more: ip.more_fragments,
        id: u32::from(ip.id),
    });
    let extra = if fragment.is_some() { FRAGMENT_LEN } else { 0 };
    let header = Ipv6 {
        traffic_class,
        flow_label: 0,
        payload_len: ip.payload_len() + extra,
        next_header: if fragment.is_some() {
            protocol::FRAGMENT
        } else {
            next_header
        },
        hop_limit: ip.ttl,
        src,
        dst,
    };
    header.emit(out);
    if let Some(fragment) = fragment {
        fragment.emit(&mut out[IPV6_LEN..]);
    }
    let (transport, len) = copy(&quote[ip.header_len..], out, IPV6_LEN + extra);
    let change = QuotedRewrite {
        icmp: protocol::ICMPV4,
        class_of: icmp::v4::class_of,
        part: FragmentKind::of(ip.fragment_offset, ip.more_fragments),
        old: Sum::default().ipv4(ip.src).ipv4(ip.dst),
        new: Sum::default().ipv6(src).ipv6(dst),
        old_icmp: Sum::default(),
        new_icmp: csum::pseudo_ipv6(src, dst, protocol::ICMPV6, ip.payload_len()),
    };
    change.apply(ip.protocol, transport)?;
    Ok(len)
}

/// Writes a quoted IPv6 packet to `out` as an IPv4 packet, like [`to_ipv6`].
pub fn to_ipv4(
    ip: &Ipv6,
    chain: &Chain,
    quote: &[u8],
    tos: u8,
    Addresses { src, dst }: Addresses<Ipv4Addr>,
    out: &mut [u8],
) -> Result<usize, Reason> {
    let ipv4_protocol = protocol_of(chain.protocol)?;
    let payload_len = (IPV6_LEN + ip.payload_len)
        .checked_sub(chain.payload_at)
        .ok_or(Reason::IcmpInnerTruncated)?;
    let total_len = IPV4_LEN + payload_len;
    if total_len > usize::from(u16::MAX) {
        return Err(Reason::TooLong);
    }
    let header = Ipv4 {
        tos,
        header_len: IPV4_LEN,
        total_len,
        // If the packet had an identification in IPv4, it is in the Fragment header.
        id: chain.fragment.map_or(0, |fragment| fragment.id as u16),
        dont_fragment: chain.fragment.is_none() && total_len > super::LARGEST_WITHOUT_DF,
        more_fragments: chain.fragment.is_some_and(|fragment| fragment.more),
        fragment_offset: chain.fragment.map_or(0, |fragment| fragment.offset),
        ttl: ip.hop_limit,
        protocol: ipv4_protocol,
        src,
        dst,
    };
    header.emit(out);
    let (transport, len) = copy(&quote[chain.payload_at..], out, IPV4_LEN);
    let change = QuotedRewrite {
        icmp: protocol::ICMPV6,
        class_of: icmp::v6::class_of,
        part: chain.fragment.map_or(FragmentKind::Whole, |fragment| {
            FragmentKind::of(fragment.offset, fragment.more)
        }),
        old: Sum::default().ipv6(ip.src).ipv6(ip.dst),
        new: Sum::default().ipv4(src).ipv4(dst),
        old_icmp: csum::pseudo_ipv6(ip.src, ip.dst, protocol::ICMPV6, payload_len),
        new_icmp: Sum::default(),
    };
    change.apply(chain.protocol, transport)?;
    Ok(len)
}

/// Copies as much of `payload` as fits behind the first `header_len` bytes of `out`. Returns the
/// copy and the total length.
fn copy<'a>(payload: &[u8], out: &'a mut [u8], header_len: usize) -> (&'a mut [u8], usize) {
    let fits = payload.len().min(out.len() - header_len);
    let copy = &mut out[header_len..header_len + fits];
    copy.copy_from_slice(&payload[..fits]);
    (copy, header_len + payload.len())
}

/// The changes to a quoted transport header.
struct QuotedRewrite {
    icmp: u8,
    class_of: fn(u8) -> Class,
    part: FragmentKind,
    old: Sum,
    new: Sum,
    old_icmp: Sum,
    new_icmp: Sum,
}

impl QuotedRewrite {
    fn apply(self, number: u8, transport: &mut [u8]) -> Result<(), Reason> {
        match Transport::of(number, self.icmp) {
            Transport::Icmp if self.part != FragmentKind::Whole => Err(Reason::FragmentIcmp),
            Transport::Icmp => self.apply_to_icmp(transport),
            _ if self.part == FragmentKind::Later => Ok(()),
            Transport::Udp => {
                if transport.len() >= UDP_CHECKSUM_AT + 2
                    && csum::field(transport, UDP_CHECKSUM_AT) != 0
                {
                    self.carry_over(transport, UDP_CHECKSUM_AT, true);
                }
                Ok(())
            }
            Transport::Checksummed { at, never_zero, .. } => {
                if transport.len() >= at + 2 {
                    self.carry_over(transport, at, never_zero);
                }
                Ok(())
            }
            Transport::Opaque => Ok(()),
        }
    }

    fn carry_over(&self, transport: &mut [u8], at: usize, never_zero: bool) {
        let checksum = csum::update(csum::field(transport, at), self.old, self.new);
        csum::set_field(
            transport,
            at,
            if never_zero {
                csum::never_zero(checksum)
            } else {
                checksum
            },
        );
    }

    fn apply_to_icmp(&self, message: &mut [u8]) -> Result<(), Reason> {
        let Some(&old_type) = message.first() else {
            return Ok(());
        };
        let new_type = match (self.class_of)(old_type) {
            Class::Echo(counterpart) => counterpart,
            // "This process MUST stop at the first embedded header and drop the packet if it
            // contains more embedded headers."
            Class::Error => return Err(Reason::IcmpInnerNested),
            Class::SingleHop => return Err(Reason::IcmpSingleHop),
            Class::Other => return Err(Reason::IcmpType),
        };
        message[0] = new_type;
        if message.len() >= ICMP_CHECKSUM_AT + 2 {
            let old = self.old_icmp.word(u16::from(old_type) << 8);
            let new = self.new_icmp.word(u16::from(new_type) << 8);
            let checksum = csum::update(csum::field(message, ICMP_CHECKSUM_AT), old, new);
            csum::set_field(message, ICMP_CHECKSUM_AT, checksum);
        }
        Ok(())
    }
}
