// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates packets from the IPv6 side to IPv4, or hairpins them.

use super::fragment::{Key, Later};
use super::{note_lost, refusal, tuple, Fragmented, Nat64, Random};
use crate::config::{Endpoint4, Endpoint6, Protocol};
use crate::session::{Inbound, Inward, Outbound, Recipient, Segment, Watcher};
use diolkos_xlat::addr::special::{kind_of_ipv4, AddressKind};
use diolkos_xlat::map::Via;
use diolkos_xlat::packet::{Env, Outbox, Packet};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::translate::payload::{self, Numbers, Payload, PayloadKind};
use diolkos_xlat::translate::{hairpin, hop, leave, legal, v6to4, Fit, Outgoing};
use diolkos_xlat::verdict::{Reason, Verdict};
use diolkos_xlat::wire::{protocol, protocol_of, Addresses, Chain, FragmentKind, Headers6, Ipv6};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The headers of a packet that may be translated.
pub(super) struct Accepted {
    pub ip: Ipv6,
    /// The hop limit with which the packet leaves.
    pub hop_limit: u8,
    pub chain: Chain,
}

/// The destination of a packet.
pub(super) struct Destination {
    pub addr: Ipv4Addr,
    /// Index of its translation prefix.
    pub prefix: u8,
}

/// A packet that has passed the stateless stages.
pub(super) struct Received<'a> {
    pub headers: Headers6<'a>,
    pub carried: &'a Payload,
    pub part: FragmentKind,
    pub protocol: Protocol,
    /// The IPv4 protocol.
    pub ipv4_protocol: u8,
    pub dst: Destination,
}

/// The query to the tables for a packet, and properties that the tables do not decide.
pub(super) struct Asked {
    pub passing: Outbound,
    pub to: Endpoint4,
    /// True if the destination is also a node behind this gateway.
    pub turns: bool,
    pub fit: Fit,
}

impl Nat64 {
    pub(super) fn outbound(
        &mut self,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
        first: &mut Option<Fragmented>,
    ) -> Result<Verdict, Refusal> {
        let Accepted {
            ip,
            hop_limit,
            chain,
        } = self.receive_ipv6(packet)?;
        let headers = Headers6 {
            ip: &ip,
            hop_limit,
            chain: &chain,
        };
        let ipv4_protocol = protocol_of(chain.protocol)?;
        let protocol = tuple::protocol_of(chain.protocol, protocol::ICMPV6).map_err(refusal)?;
        if protocol == Protocol::Icmp {
            if let Some(fragment) = chain.fragment.filter(|f| !f.is_atomic()) {
                let key = Key::v6(&ip, fragment.id, chain.protocol);
                return self.gather(key, packet, env.now(), watcher, first);
            }
        }
        let carried = v6to4::carried(&chain, packet)?;
        if carried.kind == PayloadKind::IcmpError {
            return self.error_from_ipv6(headers, packet, env, watcher);
        }
        let received = Received {
            dst: self.destination(&ip)?,
            headers,
            carried: &carried,
            part: chain.fragment.map_or(FragmentKind::Whole, |fragment| {
                FragmentKind::of(fragment.offset, fragment.more)
            }),
            protocol,
            ipv4_protocol,
        };

        let now = env.now();
        let numbers = match self.numbers_of_ipv6(&received, packet, now, first)? {
            Later::Of(numbers) => numbers,
            Later::Held(lost) => {
                note_lost(lost, watcher);
                return Ok(Verdict::Held);
            }
        };
        let asked = self.asked_by_ipv6(&received, numbers, packet)?;
        let from = self
            .state
            .outbound(now, &asked.passing, || env.random(), watcher)
            .map_err(refusal)?;
        watcher.sends(protocol, asked.passing.v6);
        if !asked.turns {
            return self.send_to_ipv4(&received, from, &asked, packet, env, out);
        }
        let arriving = received.turned(from, asked.to, packet);
        let inward = self
            .state
            .inbound(now, &arriving, watcher)
            .map_err(refusal)?;
        match inward {
            Inward::Node(node, prefix) => {
                self.turn(&received, from, Recipient { node, prefix }, packet, out)
            }
            Inward::Held => Ok(Verdict::Held),
        }
    }

    /// Returns the headers of a packet that may be translated.
    #[inline]
    pub(super) fn receive_ipv6(&self, packet: &mut Packet<'_>) -> Result<Accepted, Refusal> {
        let ip = v6to4::receive(packet)?;
        // "The NAT64 MUST silently discard all incoming IPv6 packets containing a source address that contains the
        // Pref64::/n" (RFC 6146 section 3.5); they could loop.
        if self.mapper().holds(ip.src) {
            return Err(Reason::SourceInPrefix.into());
        }
        let hop_limit = hop(&self.translator, ip.hop_limit)?;
        let chain = match Chain::empty(ip.next_header) {
            Some(chain) => chain,
            None => v6to4::follow(packet, &ip)?,
        };
        Ok(Accepted {
            ip,
            hop_limit,
            chain,
        })
    }

    /// Builds the query to the tables for a packet with these ports. Fails if it does not fit.
    #[inline]
    pub(super) fn asked_by_ipv6(
        &self,
        received: &Received<'_>,
        numbers: Numbers,
        packet: &Packet<'_>,
    ) -> Result<Asked, Refusal> {
        let &Received {
            headers: Headers6 { ip, chain, .. },
            carried,
            protocol,
            ref dst,
            ..
        } = received;
        let to = Endpoint4 {
            addr: dst.addr,
            port: numbers.dst,
        };
        let turns = self.state.is_ours(protocol, to);
        let fit = match turns {
            true => Fit::Whole, // Another size limit applies to hairpinned packets.
            false => v6to4::fit(&self.translator, packet, chain, carried)?,
        };
        let passing = Outbound {
            protocol,
            v6: Endpoint6 {
                addr: ip.src,
                port: numbers.src,
            },
            peer: Endpoint4 {
                port: tuple::peer_port(protocol, to.port),
                ..to
            },
            prefix: dst.prefix,
            segment: received.segment(packet),
        };
        Ok(Asked {
            passing,
            to,
            turns,
            fit,
        })
    }

    /// Sends the packet as IPv4 from this address and port.
    #[inline]
    pub(super) fn send_to_ipv4(
        &self,
        received: &Received<'_>,
        from: Endpoint4,
        &Asked { to, fit, .. }: &Asked,
        packet: &mut Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
    ) -> Result<Verdict, Refusal> {
        let &Received {
            headers,
            carried,
            ipv4_protocol,
            ..
        } = received;
        let Headers6 {
            ip,
            hop_limit,
            chain,
        } = headers;
        let offload = packet.offload;
        let numbers = Numbers {
            src: from.port,
            dst: to.port,
        };
        payload::renumber(
            &mut packet.bytes_mut()[chain.payload_at..],
            carried.kind,
            offload,
            numbers,
        );
        let t = &self.translator;
        let addresses = Addresses {
            src: from.addr,
            dst: to.addr,
        };
        if fit == Fit::Segments {
            return v6to4::segments(ip, chain, packet, |segment| {
                let ip = v6to4::receive(segment)?;
                let chain = Chain::empty(ip.next_header).ok_or(Reason::ExtensionChain)?;
                let carried = v6to4::carried(&chain, segment)?;
                let fit = v6to4::fit(t, segment, &chain, &carried)?;
                let headers = Headers6 {
                    ip: &ip,
                    hop_limit,
                    chain: &chain,
                };
                let outgoing = Outgoing {
                    protocol: ipv4_protocol,
                    carried: &carried,
                    fit,
                    addresses,
                };
                let verdict = v6to4::send(t, segment, env, out, headers, outgoing);
                leave(verdict, segment, out)
            });
        }
        let outgoing = Outgoing {
            protocol: ipv4_protocol,
            carried,
            fit,
            addresses,
        };
        Ok(v6to4::send(t, packet, env, out, headers, outgoing))
    }

    /// The ports of a packet, or of its first fragment. Sets `first` if the packet is the first fragment.
    fn numbers_of_ipv6(
        &mut self,
        received: &Received<'_>,
        packet: &Packet<'_>,
        now: Duration,
        first: &mut Option<Fragmented>,
    ) -> Result<Later, Reason> {
        let Headers6 { ip, chain, .. } = received.headers;
        let bytes = &packet.bytes()[chain.payload_at..];
        let numbers = tuple::numbers_of(received.carried.kind, bytes, received.part)?;
        let fragment = chain.fragment.filter(|f| !f.is_atomic());
        let key = fragment.map(|f| Key::v6(ip, f.id, chain.protocol));
        match (numbers, key) {
            (Some(numbers), key) => {
                *first = key.map(|key| Fragmented::First(key, numbers));
                Ok(Later::Of(numbers))
            }
            (None, Some(key)) => self.fragments.later(key, packet, now),
            // A packet with an offset has a Fragment header that is not atomic.
            (None, None) => Err(Reason::FragmentMalformed),
        }
    }

    /// The destination of a packet in IPv4.
    pub(super) fn destination(&self, ip: &Ipv6) -> Result<Destination, Refusal> {
        let (addr, via) = self
            .mapper()
            .to_ipv4(ip.dst)
            .map_err(|why| why.reason(Reason::DestinationUnmapped))?;
        // An IPv6 address may embed an IPv4 address that no node can have.
        legal(AddressKind::Unicast, kind_of_ipv4(addr))?;
        match via {
            Via::Pref64(prefix) => Ok(Destination { addr, prefix }),
            Via::Eam => Err(Reason::DestinationUnmapped.into()),
        }
    }

    /// Hairpins a packet to a node behind this gateway (RFC 6146 section 3.8).
    /// `from`: the IPv4 transport address of the sender.
    pub(super) fn turn(
        &self,
        received: &Received<'_>,
        from: Endpoint4,
        Recipient { node, prefix }: Recipient,
        packet: &mut Packet<'_>,
        out: &mut impl Outbox,
    ) -> Result<Verdict, Refusal> {
        // The node may see its peer in another prefix than the sender sees the node.
        let src = self
            .mapper()
            .embed(prefix, from.addr)
            .or_else(|_| self.mapper().embed(received.dst.prefix, from.addr))
            .map_err(|why| why.reason(Reason::SourceUnmapped))?;
        let is_query = received.protocol == Protocol::Icmp;
        let numbers = Numbers {
            src: if is_query { node.port } else { from.port },
            dst: node.port,
        };
        hairpin::send(
            &self.translator,
            received.headers,
            Addresses {
                src,
                dst: node.addr,
            },
            Some(numbers),
            received.carried,
            packet,
            out,
        )
    }
}

impl Received<'_> {
    /// The packet as it would arrive from the IPv4 side (RFC 6146 section 3.8), from `from` to `to`.
    pub(super) fn turned<'p>(
        &self,
        from: Endpoint4,
        to: Endpoint4,
        packet: &'p Packet<'_>,
    ) -> Inbound<'p> {
        let is_query = self.protocol == Protocol::Icmp;
        Inbound {
            protocol: self.protocol,
            v4: Endpoint4 {
                // An ICMP query keeps its identifier.
                port: if is_query { from.port } else { to.port },
                ..to
            },
            peer: Endpoint4 {
                port: tuple::peer_port(self.protocol, from.port),
                ..from
            },
            segment: self.segment(packet),
            bytes: packet.bytes(),
        }
    }

    fn segment(&self, packet: &Packet<'_>) -> Segment {
        let bytes = &packet.bytes()[self.headers.chain.payload_at..];
        tuple::segment_of(self.protocol, bytes, self.part)
    }
}
