// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP errors (RFC 6146 sections 3.4 and 3.6, RFC 5508 section 4). The quoted packet is one that was
//! translated here, and its binding gives the receiver of the error. An error opens no session and
//! refreshes none.
//!
//! Stages: check the checksum of the message; find the quoted packet, its ports and its binding;
//! restore the ports that it had before translation; then translate type, code and headers as in the
//! stateless translator.

use super::{tuple, Nat64, Random};
use crate::config::{Endpoint4, Endpoint6, Protocol};
use crate::session::{Missing, Recipient, Watcher};
use diolkos_xlat::addr::special::{kind_of_ipv4, AddressKind};
use diolkos_xlat::csum;
use diolkos_xlat::icmp::{parse_quoted_ipv4, parse_quoted_ipv6, Ends, LARGEST_ERROR};
use diolkos_xlat::packet::{Checksum, Packet};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::translate::legal;
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::verdict::{Reason, Verdict};
use diolkos_xlat::wire::icmp::{v4, v6, Class, ICMP_CHECKSUM_AT, ICMP_LEN};
use diolkos_xlat::wire::{
    protocol, Addresses, FragmentKind, Headers4, Headers6, Ipv4, UDP_CHECKSUM_AT,
};
use std::net::Ipv4Addr;

const TCP_CHECKSUM_AT: usize = 16;

impl Nat64 {
    /// Translates an error from the IPv4 side, about a packet from the IPv6 side.
    pub(super) fn error_from_ipv4(
        &mut self,
        headers: Headers4<'_>,
        packet: &mut Packet<'_>,
        watcher: &mut impl Watcher,
    ) -> Result<Verdict, Refusal> {
        let message = &packet.bytes()[headers.ip.header_len..];
        verify(message, csum::Sum::default(), packet.offload.checksum)?;
        let mut error = [0; LARGEST_ERROR];
        let len =
            self.error_to_ipv6(headers, packet.bytes_mut(), Side::Ipv4, &mut error, watcher)?;
        leave(packet, &error[..len])
    }

    /// Translates an error from the IPv6 side, about a packet from the IPv4 side or from another node
    /// of the IPv6 side.
    pub(super) fn error_from_ipv6(
        &mut self,
        headers: Headers6<'_>,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        watcher: &mut impl Watcher,
    ) -> Result<Verdict, Refusal> {
        let Headers6 { ip, chain, .. } = headers;
        let at = chain.payload_at;
        let message = &packet.bytes()[at..];
        let pseudo = csum::pseudo_ipv6(ip.src, ip.dst, protocol::ICMPV6, message.len());
        verify(message, pseudo, packet.offload.checksum)?;
        let dst = self.destination(ip)?.addr;

        let quote = message.get(ICMP_LEN..).ok_or(Reason::TransportTruncated)?;
        let (quoted, inner_chain) = parse_quoted_ipv6(quote)?;
        let (inner_src, _) = self
            .mapper()
            .to_ipv4(quoted.src)
            .map_err(|_| Reason::IcmpInnerUnmapped)?;
        let part = inner_chain
            .fragment
            .map_or(FragmentKind::Whole, |fragment| {
                FragmentKind::of(fragment.offset, fragment.more)
            });
        let inner = Inner::read(
            &quote[inner_chain.payload_at..],
            tuple::protocol_of(inner_chain.protocol, protocol::ICMPV6),
            part,
            v6::class_of,
        )?;
        let node = Endpoint6 {
            addr: quoted.dst,
            port: inner.numbers.dst,
        };
        let missing = Missing::V6(inner.protocol, node);
        self.state.look_for(missing, watcher)?;
        let bound = self
            .state
            .v4_of(inner.protocol, node)
            .ok_or(Reason::IcmpInnerUnmapped)?;
        if inner_src != dst {
            return Err(Reason::IcmpInnerUnmapped.into());
        }
        let peer = Endpoint4 {
            addr: inner_src,
            port: inner.numbers.src,
        };
        inner.renumber(
            &mut packet.bytes_mut()[at + ICMP_LEN + inner_chain.payload_at..],
            Numbers {
                src: inner.numbers.src,
                dst: bound.port,
            },
            bound.port,
        );

        // The quoted packet was hairpinned here (section 3.8), and so is the error.
        let turns = self.state.is_ours(inner.protocol, peer);
        // A router has no IPv4 address. The error gets an address of this gateway with which the peer
        // has seen the node.
        let configured = !self.config.translator.icmp.source_pool4.is_empty();
        let stands_in = configured && ip.src != quoted.dst;
        let ends = Ends {
            src: match stands_in {
                true => self.translator.icmp().stand_in_ipv4(ip.src),
                false => bound.addr,
            },
            dst,
            inner: Addresses {
                src: inner_src,
                dst: bound.addr,
            },
            stands_in: stands_in && !turns,
        };
        let id = chain
            .fragment
            .map_or_else(|| env.ipv4_id(), |fragment| fragment.id as u16);
        let mut error = [0; LARGEST_ERROR];
        let mut len = self.translator.icmp().to_ipv4_between(
            headers,
            id,
            packet.bytes(),
            Checksum::Partial,
            |_| Ok(ends),
            &mut error,
        )?;
        if turns {
            // Both passes together count as one hop.
            let mut there = error;
            let between = Ipv4::parse_packet(&there[..len])?;
            let back = Headers4 {
                ip: &between,
                hop_limit: headers.hop_limit,
            };
            len = self.error_to_ipv6(back, &mut there[..len], Side::Ipv6, &mut error, watcher)?;
        }
        leave(packet, &error[..len])
    }

    /// Writes the ICMPv4 error in `packet`, with header `ip` and a checksum that has been checked, to
    /// `out` as an IPv6 packet.
    fn error_to_ipv6(
        &mut self,
        headers: Headers4<'_>,
        packet: &mut [u8],
        from: Side,
        out: &mut [u8; LARGEST_ERROR],
        watcher: &mut impl Watcher,
    ) -> Result<usize, Refusal> {
        let ip = headers.ip;
        let quote_at = ip.header_len + ICMP_LEN;
        let quote = packet.get(quote_at..).ok_or(Reason::TransportTruncated)?;
        let quoted = parse_quoted_ipv4(quote)?;
        let inner = Inner::read(
            &quote[quoted.header_len..],
            tuple::protocol_of(quoted.protocol, protocol::ICMPV4),
            FragmentKind::of(quoted.fragment_offset, quoted.more_fragments),
            v4::class_of,
        )?;
        let bound = Endpoint4 {
            addr: quoted.src,
            port: inner.numbers.src,
        };
        let peer = Endpoint4 {
            addr: quoted.dst,
            port: tuple::peer_port(inner.protocol, inner.numbers.dst),
        };
        // Packets of nodes are hairpinned before they reach the IPv4 side. So a packet from there
        // with such a source is spoofed, unless a host with the same address received the quoted
        // packet on a port of its own.
        let is_ours = match ip.src == peer.addr {
            true => self.state.is_ours(inner.protocol, peer),
            false => self.state.pool().contains(ip.src),
        };
        if from == Side::Ipv4 && is_ours && !self.state.is_of_other(bound.addr) {
            return Err(Reason::SourceInPool.into());
        }
        // Look up only packets that may belong to this gateway and may have been answered.
        let missing = Missing::V4(inner.protocol, bound);
        self.state.look_for(missing, watcher)?;
        let Recipient { node, prefix } = self
            .state
            .v6_of(inner.protocol, bound, peer)
            .map_err(|_| Reason::IcmpInnerUnmapped)?;
        if ip.dst != quoted.src {
            return Err(Reason::IcmpInnerUnmapped.into());
        }
        inner.renumber(
            &mut packet[quote_at + quoted.header_len..],
            Numbers {
                src: node.port,
                dst: inner.numbers.dst,
            },
            node.port,
        );
        let mapper = self.mapper();
        let inner_dst = mapper
            .embed(prefix, quoted.dst)
            .map_err(|_| Reason::IcmpInnerUnmapped)?;
        let embedded = Some(ip.src)
            .filter(|&src| is_node(src))
            .and_then(|src| mapper.embed(prefix, src).ok());
        let src = embedded
            .or_else(|| self.translator.icmp().stand_in_ipv6(ip.src))
            .ok_or(Reason::SourceUnmapped)?;
        let ends = Ends {
            src,
            dst: node.addr,
            inner: Addresses {
                src: node.addr,
                dst: inner_dst,
            },
            stands_in: embedded.is_none(),
        };
        let icmp = self.translator.icmp();
        Ok(icmp.to_ipv6_between(headers, packet, Checksum::Partial, |_| Ok(ends), out)?)
    }
}

/// The side from which an error originally came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Ipv4,
    /// The IPv6 side; the error is hairpinned.
    Ipv6,
}

fn is_node(addr: Ipv4Addr) -> bool {
    legal(AddressKind::Unicast, kind_of_ipv4(addr)).is_ok()
}

/// Verifies the checksum, because the new checksum would make a corrupt message look valid.
fn verify(message: &[u8], pseudo: csum::Sum, checksum: Checksum) -> Result<(), Reason> {
    if checksum == Checksum::Complete && csum::sum(message).plus(pseudo).fold() != 0xffff {
        return Err(Reason::IcmpChecksum);
    }
    Ok(())
}

fn leave(packet: &mut Packet<'_>, error: &[u8]) -> Result<Verdict, Refusal> {
    if !packet.replace_all(error) {
        return Err(Reason::Headroom.into());
    }
    packet.offload = packet.offload.of_part();
    Ok(Verdict::Forward)
}

/// The transport header of a quoted packet, as far as it is present.
struct Inner {
    protocol: Protocol,
    numbers: Numbers,
}

impl Inner {
    fn read(
        transport: &[u8],
        protocol: Result<Protocol, Reason>,
        part: FragmentKind,
        class_of: fn(u8) -> Class,
    ) -> Result<Inner, Reason> {
        let protocol = protocol.map_err(|_| Reason::IcmpInnerUnmapped)?;
        if part == FragmentKind::Later {
            // Only the first fragment has ports.
            return Err(Reason::IcmpInnerUnmapped);
        }
        let &[a, b, c, d, e, f, ..] = transport else {
            return Err(Reason::IcmpInnerTruncated);
        };
        let numbers = match protocol {
            Protocol::Icmp => match class_of(a) {
                Class::Echo(_) => Numbers {
                    src: u16::from_be_bytes([e, f]),
                    dst: u16::from_be_bytes([e, f]),
                },
                Class::Error => return Err(Reason::IcmpInnerNested),
                Class::SingleHop => return Err(Reason::IcmpSingleHop),
                Class::Other => return Err(Reason::IcmpType),
            },
            Protocol::Tcp | Protocol::Udp => Numbers {
                src: u16::from_be_bytes([a, b]),
                dst: u16::from_be_bytes([c, d]),
            },
        };
        Ok(Inner { protocol, numbers })
    }

    /// Writes other ports, or for ICMP this identifier. The checksum is updated if present; it is not
    /// verified.
    fn renumber(&self, transport: &mut [u8], numbers: Numbers, id: u16) {
        let (src, dst) = (numbers.src.to_be_bytes(), numbers.dst.to_be_bytes());
        let (at, new, checksum_at) = match self.protocol {
            Protocol::Icmp => (4, &id.to_be_bytes()[..], ICMP_CHECKSUM_AT),
            Protocol::Udp => (0, &[src[0], src[1], dst[0], dst[1]][..], UDP_CHECKSUM_AT),
            Protocol::Tcp => (0, &[src[0], src[1], dst[0], dst[1]][..], TCP_CHECKSUM_AT),
        };
        let field = &mut transport[at..at + new.len()];
        if *field == *new {
            return;
        }
        let old_sum = csum::sum(field);
        field.copy_from_slice(new);
        let udp = self.protocol == Protocol::Udp;
        if transport.len() < checksum_at + 2 || udp && csum::field(transport, checksum_at) == 0 {
            return;
        }
        let before = csum::field(transport, checksum_at);
        let checksum = csum::update(before, old_sum, csum::sum(new));
        let checksum = if udp {
            csum::never_zero(checksum)
        } else {
            checksum
        };
        csum::set_field(transport, checksum_at, checksum);
    }
}
