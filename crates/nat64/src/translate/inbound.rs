// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates packets from the IPv4 side.

use super::fragment::{Key, Later};
use super::{note_lost, refusal, tuple, Fragmented, Nat64, Random};
use crate::config::{Endpoint4, Protocol};
use crate::session::{Inbound, Inward, Recipient, Watcher};
use diolkos_xlat::packet::{Outbox, Packet};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::translate::payload::{self, Numbers, Payload, PayloadKind};
use diolkos_xlat::translate::{hop, leave, v4to6, Fit, Outgoing};
use diolkos_xlat::verdict::{Reason, Verdict};
use diolkos_xlat::wire::{
    next_header_of, protocol, Addresses, FragmentKind, Headers4, Ipv4, UDP_CHECKSUM_AT,
};

/// A packet that has passed the stateless stages.
pub(super) struct Received<'a> {
    pub headers: Headers4<'a>,
    pub carried: &'a Payload,
    pub protocol: Protocol,
    /// The IPv6 next header.
    pub next_header: u8,
}

impl Nat64 {
    pub(super) fn inbound(
        &mut self,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
        first: &mut Option<Fragmented>,
    ) -> Result<Verdict, Refusal> {
        let ip = v4to6::receive(packet)?;
        let hop_limit = hop(&self.translator, ip.ttl)?;
        let next_header = next_header_of(ip.protocol)?;
        let protocol = tuple::protocol_of(ip.protocol, protocol::ICMPV4).map_err(refusal)?;
        if ip.is_fragment() && self.only_whole(protocol, &ip, packet) {
            return self.gather(Key::v4(&ip), packet, env.now(), watcher, first);
        }
        let headers = Headers4 { ip: &ip, hop_limit };
        let carried = v4to6::carried(&self.translator, &ip, packet)?;
        if carried.kind == PayloadKind::IcmpError {
            return self.error_from_ipv4(headers, packet, watcher);
        }
        // The source must be representable in IPv6, regardless of the tables.
        self.mapper()
            .embed(0, ip.src)
            .map_err(|why| why.reason(Reason::SourceUnmapped))?;

        let now = env.now();
        let part = FragmentKind::of(ip.fragment_offset, ip.more_fragments);
        let bytes = &packet.bytes()[ip.header_len..];
        let numbers = match tuple::numbers_of(carried.kind, bytes, part)? {
            Some(numbers) => {
                *first =
                    (part == FragmentKind::First).then(|| Fragmented::First(Key::v4(&ip), numbers));
                numbers
            }
            None => match self.fragments.later(Key::v4(&ip), packet, now)? {
                Later::Of(numbers) => numbers,
                Later::Held(lost) => {
                    note_lost(lost, watcher);
                    return Ok(Verdict::Held);
                }
            },
        };
        let received = Received {
            headers,
            carried: &carried,
            protocol,
            next_header,
        };
        let (arriving, fit) = self.asked_by_ipv4(&received, numbers, packet)?;
        let inward = self
            .state
            .inbound(now, &arriving, watcher)
            .map_err(|reason| silent_for_tcp(protocol, reason))?;
        match inward {
            Inward::Node(node, prefix) => {
                let src = numbers.src;
                self.send_to_ipv6(&received, src, Recipient { node, prefix }, fit, packet, out)
            }
            Inward::Held => Ok(Verdict::Held),
        }
    }

    /// Builds the query to the tables for a packet with these ports, and its fit. Fails if it does not fit.
    #[inline]
    pub(super) fn asked_by_ipv4<'p>(
        &self,
        received: &Received<'_>,
        numbers: Numbers,
        packet: &'p Packet<'_>,
    ) -> Result<(Inbound<'p>, Fit), Refusal> {
        let &Received {
            headers: Headers4 { ip, .. },
            carried,
            protocol,
            ..
        } = received;
        // Packets between nodes are hairpinned before they reach the IPv4 side (RFC 6146 section 3.8). So a packet from
        // there with the source of a node is spoofed, and filtering would trust it. A packet to an address of another
        // gateway does cross the IPv4 side, and may come back here if that gateway is down.
        let source = Endpoint4 {
            addr: ip.src,
            port: numbers.src,
        };
        if self.state.is_ours(protocol, source) && !self.state.is_of_other(ip.dst) {
            return Err(Reason::SourceInPool.into());
        }
        let fit = v4to6::fit(&self.translator, ip, carried, packet.offload)?;
        let part = FragmentKind::of(ip.fragment_offset, ip.more_fragments);
        let arriving = Inbound {
            protocol,
            v4: Endpoint4 {
                addr: ip.dst,
                port: numbers.dst,
            },
            peer: Endpoint4 {
                addr: ip.src,
                port: tuple::peer_port(protocol, numbers.src),
            },
            segment: tuple::segment_of(protocol, &packet.bytes()[ip.header_len..], part),
            bytes: packet.bytes(),
        };
        Ok((arriving, fit))
    }

    /// Sends the packet as IPv6 to this node. `src`: the port of the sender.
    #[inline]
    pub(super) fn send_to_ipv6(
        &self,
        received: &Received<'_>,
        src: u16,
        Recipient { node, prefix }: Recipient,
        fit: Fit,
        packet: &mut Packet<'_>,
        out: &mut impl Outbox,
    ) -> Result<Verdict, Refusal> {
        let &Received {
            headers,
            carried,
            protocol,
            next_header,
        } = received;
        let Headers4 { ip, hop_limit } = headers;
        let numbers = Numbers {
            src: match protocol {
                Protocol::Icmp => node.port,
                Protocol::Tcp | Protocol::Udp => src,
            },
            dst: node.port,
        };
        let src = self
            .mapper()
            .embed(prefix, ip.src)
            .map_err(|why| why.reason(Reason::SourceUnmapped))?;
        let offload = packet.offload;
        payload::renumber(
            &mut packet.bytes_mut()[ip.header_len..],
            carried.kind,
            offload,
            numbers,
        );
        let t = &self.translator;
        let addresses = Addresses {
            src,
            dst: node.addr,
        };
        if fit == Fit::Segments {
            return v4to6::segments(ip, packet, |segment| {
                let ip = v4to6::receive(segment)?;
                let carried = v4to6::carried(t, &ip, segment)?;
                let fit = v4to6::fit(t, &ip, &carried, segment.offload)?;
                let headers = Headers4 { ip: &ip, hop_limit };
                let outgoing = Outgoing {
                    protocol: next_header,
                    carried: &carried,
                    fit,
                    addresses,
                };
                let verdict = v4to6::send(t, segment, out, headers, outgoing)?;
                leave(verdict, segment, out)
            });
        }
        let outgoing = Outgoing {
            protocol: next_header,
            carried,
            fit,
            addresses,
        };
        v4to6::send(t, packet, out, headers, outgoing)
    }

    /// Returns true if a fragment can only be translated with its whole packet: ICMP, and UDP without checksum as its
    /// first fragment shows.
    #[cold]
    fn only_whole(&self, protocol: Protocol, ip: &Ipv4, packet: &Packet<'_>) -> bool {
        let udp = &packet.bytes()[ip.header_len..];
        match protocol {
            Protocol::Icmp => true,
            Protocol::Tcp => false,
            Protocol::Udp if ip.fragment_offset > 0 => self.fragments.gathers(&Key::v4(ip)),
            Protocol::Udp => {
                self.translator.computes_checksums()
                    && udp.get(UDP_CHECKSUM_AT..UDP_CHECKSUM_AT + 2) == Some(&[0, 0])
            }
        }
    }

    /// Returns true if a packet of the IPv4 side, as received, has the source of a node. For packets without ports, the
    /// address decides.
    #[cold]
    pub(super) fn claims_to_be_ours(&self, packet: &[u8]) -> bool {
        let Ok(ip) = Ipv4::parse(packet) else {
            return false;
        };
        let protocol = tuple::protocol_of(ip.protocol, protocol::ICMPV4).unwrap_or(Protocol::Icmp);
        let at = ip.header_len + if protocol == Protocol::Icmp { 4 } else { 0 };
        let source = |port| Endpoint4 { addr: ip.src, port };
        match packet.get(at..) {
            Some(&[high, low, ..]) => {
                let port = u16::from_be_bytes([high, low]);
                self.state.is_ours(protocol, source(port))
            }
            _ => self.state.is_ours(Protocol::Icmp, source(0)),
        }
    }
}

/// TCP packets without a binding are discarded silently (RFC 6146 section 3.5.2.2).
pub(super) fn silent_for_tcp(protocol: Protocol, reason: Reason) -> Refusal {
    match (protocol, reason) {
        (Protocol::Tcp, Reason::NoBinding) => reason.into(),
        _ => refusal(reason),
    }
}
