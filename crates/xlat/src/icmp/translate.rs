// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates an ICMP error (RFC 7915 sections 4.2, 4.3, 5.2 and 5.3): the message is rewritten
//! from its outer header to its extensions.

use super::interface::Named;
use super::table::{self, Head, Mtus};
use super::{inner, quote, IcmpErrors, LARGEST_ERROR, LARGEST_WITHOUT_DF};
use crate::addr::special::{kind_of_ipv4, AddressKind};
use crate::csum;
use crate::map::{Mapper, Via};
use crate::packet::Checksum;
use crate::verdict::Reason;
use crate::wire::icmp::{ICMP_CHECKSUM_AT, ICMP_LEN};
use crate::wire::{protocol, Addresses, Headers4, Headers6, Ipv4, Ipv6, IPV4_LEN, IPV6_LEN};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Marks an error about a packet that was hairpinned from IPv6 to IPv6. Holds the configuration
/// index of the translation prefix that the packet used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hairpin(pub u8);

/// Addresses of an error and of the packet that it quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends<A> {
    /// The source of the error.
    pub src: A,
    /// Its destination.
    pub dst: A,
    /// The addresses of the quoted packet.
    pub inner: Addresses<A>,
    /// True if the source represents a router without an address; the translated error has this
    /// source.
    pub stands_in: bool,
}

/// An ICMPv6 error that was translated.
pub(crate) struct TranslatedError {
    /// Length of the IPv4 packet, bytes.
    pub len: usize,
    /// Set if the packet that it quotes was hairpinned to IPv6.
    pub hairpin: Option<Hairpin>,
}

/// The parts of an error before translation.
struct Error<'a> {
    head: Head,
    quote: &'a [u8],
    extensions: &'a [u8],
}

impl<'a> Error<'a> {
    /// Reads a message. Its checksum must be right, unless the device is to complete it: the new
    /// checksum would make a corrupt message look valid.
    fn read(
        message: &'a [u8],
        pseudo: csum::Sum,
        checksum: Checksum,
        field: fn(u8) -> Option<quote::LengthField>,
    ) -> Result<Error<'a>, Reason> {
        if checksum == Checksum::Complete && csum::sum(message).plus(pseudo).fold() != 0xffff {
            return Err(Reason::IcmpChecksum);
        }
        let (&[icmp_type, code, _, _, a, b, c, d], body) = message
            .split_first_chunk::<ICMP_LEN>()
            .ok_or(Reason::TransportTruncated)?;
        let body = quote::split(message, body, field(icmp_type))?;
        Ok(Error {
            head: Head {
                icmp_type,
                code,
                rest: [a, b, c, d],
            },
            quote: body.quote,
            extensions: body.extensions,
        })
    }
}

impl IcmpErrors {
    fn mtus(&self) -> Mtus {
        Mtus {
            mtu4: self.mtu4,
            mtu6: self.mtu6,
        }
    }

    fn class_out(&self, class: u8) -> u8 {
        if self.zero_traffic_class {
            0
        } else {
            class
        }
    }

    /// Writes the ICMPv4 error in `packet` to `out` as an IPv6 packet. `hairpin`: the error is about a packet that was hairpinned.
    /// Returns its length in bytes.
    pub(crate) fn to_ipv6(
        &self,
        mapper: &Mapper,
        hairpin: Option<Hairpin>,
        headers: Headers4<'_>,
        packet: &[u8],
        checksum: Checksum,
        out: &mut [u8; LARGEST_ERROR],
    ) -> Result<usize, Reason> {
        let ip = headers.ip;
        let addresses = |quoted: &Ipv4| {
            let map = |addr| mapper.to_ipv6(addr).map(|(addr, _)| addr);
            let inner_src = map(quoted.src).map_err(|_| Reason::IcmpInnerUnmapped)?;
            let inner_dst = match hairpin {
                // The sender reached its peer through the prefix (RFC 7757 section 4.2).
                Some(Hairpin(prefix)) => mapper.embed(prefix, quoted.dst),
                None => map(quoted.dst),
            }
            .map_err(|_| Reason::IcmpInnerUnmapped)?;
            let dst = map(ip.dst).map_err(|why| why.reason(Reason::DestinationUnmapped))?;
            let src = match hairpin {
                Some(Hairpin(prefix)) if ip.src == quoted.dst => mapper.embed(prefix, ip.src),
                _ => map(ip.src),
            };
            let stands_in = src.is_err();
            let src = src
                .ok()
                .or_else(|| self.pool6.stand_in(ip.src))
                .ok_or(Reason::SourceUnmapped)?;
            Ok(Ends {
                src,
                dst,
                inner: Addresses {
                    src: inner_src,
                    dst: inner_dst,
                },
                stands_in,
            })
        };
        self.to_ipv6_between(headers, packet, checksum, addresses, out)
    }

    /// Like `to_ipv6`, but `addresses` chooses the addresses from the quoted header.
    pub fn to_ipv6_between(
        &self,
        headers: Headers4<'_>,
        packet: &[u8],
        checksum: Checksum,
        addresses: impl FnOnce(&Ipv4) -> Result<Ends<Ipv6Addr>, Reason>,
        out: &mut [u8; LARGEST_ERROR],
    ) -> Result<usize, Reason> {
        let Headers4 { ip, hop_limit } = headers;
        let message = &packet[ip.header_len..];
        let error = Error::read(
            message,
            csum::Sum::default(),
            checksum,
            quote::length_field_of_icmpv4,
        )?;
        let quoted = inner::parse_ipv4(error.quote)?;
        let head = table::to_icmpv6(error.head, quoted.total_len, self.mtus())?;

        let Ends {
            src, dst, inner, ..
        } = addresses(&quoted)?;
        let class = self.class_out(quoted.tos);
        let body_at = IPV6_LEN + ICMP_LEN;
        let full = inner::to_ipv6(&quoted, error.quote, class, inner, &mut out[body_at..])?;
        let field = quote::length_field_of_icmpv6(head.icmp_type);
        let len = body_at
            + finish(
                head,
                field,
                full,
                error.extensions,
                LARGEST_ERROR - body_at,
                &mut out[IPV6_LEN..],
            );

        let header = Ipv6 {
            traffic_class: self.class_out(ip.tos),
            flow_label: 0,
            payload_len: len - IPV6_LEN,
            next_header: protocol::ICMPV6,
            hop_limit,
            src,
            dst,
        };
        header.emit(out);
        let pseudo = csum::pseudo_ipv6(src, dst, protocol::ICMPV6, len - IPV6_LEN);
        csum::fill_in(&mut out[IPV6_LEN..len], ICMP_CHECKSUM_AT, pseudo);
        Ok(len)
    }

    /// Writes the ICMPv6 error in `packet` to `out` as an IPv4 packet with the identification `id`.
    pub(crate) fn to_ipv4(
        &self,
        mapper: &Mapper,
        headers: Headers6<'_>,
        id: u16,
        packet: &[u8],
        checksum: Checksum,
        out: &mut [u8; LARGEST_ERROR],
    ) -> Result<TranslatedError, Reason> {
        let ip = headers.ip;
        let mut hairpin = None;
        let addresses = |quoted: &Ipv6| {
            let map = |addr| mapper.to_ipv4(addr);
            let (inner_src, via) = map(quoted.src).map_err(|_| Reason::IcmpInnerUnmapped)?;
            let (inner_dst, _) = map(quoted.dst).map_err(|_| Reason::IcmpInnerUnmapped)?;
            let (dst, _) = map(ip.dst).map_err(|why| why.reason(Reason::DestinationUnmapped))?;
            let dst = legal_destination(dst)?;
            let src = map(ip.src).ok().map(|(addr, _)| addr);
            let src = src.filter(|&src| kind_of_ipv4(src) == AddressKind::Unicast);
            hairpin = match via {
                Via::Pref64(prefix) if mapper.is_explicit(inner_src) => Some(Hairpin(prefix)),
                _ => None,
            };
            let by = src.unwrap_or_else(|| self.pool4.stand_in(ip.src));
            Ok(Ends {
                src: by,
                dst,
                inner: Addresses {
                    src: inner_src,
                    dst: inner_dst,
                },
                stands_in: src.is_none() && hairpin.is_none(),
            })
        };
        let len = self.to_ipv4_between(headers, id, packet, checksum, addresses, out)?;
        Ok(TranslatedError { len, hairpin })
    }

    /// Like `to_ipv4`, but `addresses` chooses the addresses from the quoted header.
    pub fn to_ipv4_between(
        &self,
        headers: Headers6<'_>,
        id: u16,
        packet: &[u8],
        checksum: Checksum,
        addresses: impl FnOnce(&Ipv6) -> Result<Ends<Ipv4Addr>, Reason>,
        out: &mut [u8; LARGEST_ERROR],
    ) -> Result<usize, Reason> {
        let ip = headers.ip;
        let message = &packet[headers.chain.payload_at..];
        let pseudo = csum::pseudo_ipv6(ip.src, ip.dst, protocol::ICMPV6, message.len());
        let error = Error::read(message, pseudo, checksum, quote::length_field_of_icmpv6)?;
        let (quoted, chain) = inner::parse_ipv6(error.quote)?;
        let head = table::to_icmpv4(error.head, chain.fragment.is_some(), self.mtus())?;

        let Ends {
            src,
            dst,
            inner,
            stands_in,
        } = addresses(&quoted)?;
        let tos = self.class_out(quoted.traffic_class);
        let body_at = IPV4_LEN + ICMP_LEN;
        let room = LARGEST_WITHOUT_DF.min(self.mtu4) - body_at;
        let full = inner::to_ipv4(
            &quoted,
            &chain,
            error.quote,
            tos,
            inner,
            &mut out[body_at..],
        )?;
        let field = quote::length_field_of_icmpv4(head.icmp_type);
        // The IPv4 receiver of the error learns the router's address from it.
        let named = match field {
            Some(field) if stands_in && self.name_routers => {
                Named::new(ip.src, error.extensions, room.min(field.room))
            }
            _ => None,
        };
        let len = body_at
            + finish(
                head,
                field,
                full,
                named.as_ref().map_or(error.extensions, Named::bytes),
                room,
                &mut out[IPV4_LEN..],
            );

        let header = Ipv4 {
            tos: self.class_out(ip.traffic_class),
            header_len: IPV4_LEN,
            total_len: len,
            id,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: headers.hop_limit,
            protocol: protocol::ICMPV4,
            src,
            dst,
        };
        header.emit(out);
        csum::fill_in(
            &mut out[IPV4_LEN..len],
            ICMP_CHECKSUM_AT,
            csum::Sum::default(),
        );
        Ok(len)
    }
}

fn legal_destination(addr: Ipv4Addr) -> Result<Ipv4Addr, Reason> {
    match kind_of_ipv4(addr) {
        AddressKind::Unicast => Ok(addr),
        AddressKind::Multicast => Err(Reason::Multicast),
        AddressKind::Unroutable => Err(Reason::DestinationIllegal),
    }
}

/// Writes the ICMP header in front of a quote of `full` bytes, and the extensions behind it, in at
/// most `room` bytes. The part of the quote that fits is already in `message`. Returns the number
/// of bytes after the header.
fn finish(
    mut head: Head,
    field: Option<quote::LengthField>,
    full: usize,
    extensions: &[u8],
    room: usize,
    message: &mut [u8],
) -> usize {
    let plan = quote::plan(full, extensions.len(), room, field);
    if let Some(field) = field {
        head.rest[field.at - 4] = plan.length;
    }
    message[0] = head.icmp_type;
    message[1] = head.code;
    message[4..ICMP_LEN].copy_from_slice(&head.rest);
    let (padding, behind) = message[ICMP_LEN + plan.quote..].split_at_mut(plan.padding);
    padding.fill(0);
    behind[..plan.extensions].copy_from_slice(&extensions[..plan.extensions]);
    plan.quote + plan.padding + plan.extensions
}
