// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the IPv6 side, to IPv4 or back.

use super::fragment::{Key, Later};
use super::{note_lost, refusal, tuple, Fragmented, Nat64, Random};
use crate::config::{Endpoint4, Endpoint6, Protocol};
use crate::session::{Inbound, Inward, Outbound, Segment, Watcher};
use crate::step::Nat64Step;
use diolkos_xlat::addr::special::{kind_of_ipv4, Kind as AddressKind};
use diolkos_xlat::addr::Via;
use diolkos_xlat::packet::{Outbox, Packet};
use diolkos_xlat::step::{End, Step};
use diolkos_xlat::translate::payload::{self, Kind, Numbers, Payload};
use diolkos_xlat::translate::{hairpin, hop, leave, legal, v6to4, Fit, Refusal};
use diolkos_xlat::verdict::{Reason, Verdict};
use diolkos_xlat::wire::{protocol, protocol_of, Chain, Ipv6, Part};
use std::net::Ipv4Addr;
use std::time::Duration;

/// A packet against which the stateless stages have nothing.
struct Received<'a> {
    ip: &'a Ipv6,
    ttl: u8,
    chain: &'a Chain,
    carried: &'a Payload,
    part: Part,
    protocol: Protocol,
    /// The prefix of its destination.
    prefix: u8,
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
        let ip = v6to4::receive(packet)?;
        // "The NAT64 MUST silently discard all incoming IPv6 packets containing a source address that
        // contains the Pref64::/n" (RFC 6146 section 3.5), or they could go round in circles.
        if self.mapper().holds(ip.src) {
            return Err(Reason::SourceInPrefix.into());
        }
        let ttl = hop(&self.translator, ip.hop_limit)?;
        let chain = match Chain::empty(ip.next_header) {
            Some(chain) => chain,
            None => v6to4::follow(packet, &ip)?,
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
        if carried.kind == Kind::IcmpError {
            return self.error_from_ipv6((&ip, ttl, &chain), packet, env, watcher);
        }
        let (dst, prefix) = self.destination(&ip)?;
        out.step(|| Step::Mapped {
            end: End::Destination,
            v6: ip.dst,
            v4: dst,
            via: Via::Pref64(prefix),
        });
        let received = Received {
            ip: &ip,
            ttl,
            chain: &chain,
            carried: &carried,
            part: chain.fragment.map_or(Part::Whole, |fragment| {
                Part::of(fragment.offset, fragment.more)
            }),
            protocol,
            prefix,
        };

        let now = env.now();
        let numbers = match self.numbers_of_ipv6(&received, packet, now, first)? {
            Later::Of(numbers) => {
                if received.part == Part::Later {
                    watcher.step(|| Nat64Step::of_later_fragment(numbers));
                }
                numbers
            }
            Later::Held(lost) => {
                watcher.step(|| Nat64Step::HeldFragment);
                note_lost(lost, watcher);
                return Ok(Verdict::Held);
            }
        };
        let to = Endpoint4 {
            addr: dst,
            port: numbers.dst,
        };
        let turns = self.state.is_ours(protocol, to);
        let fit = match turns {
            true => Fit::Whole, // The other way has another size.
            false => v6to4::fit(&self.translator, packet, &chain, &carried)?,
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
            prefix,
            segment: received.segment(packet),
        };
        let from = self
            .state
            .outbound(now, &passing, || env.random(), watcher)
            .map_err(refusal)?;
        watcher.sends(protocol, passing.v6);
        if turns {
            watcher.step(|| Step::Turns);
            return self.turn(&received, (from, to), packet, now, out, watcher);
        }
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
        let addresses = (from.addr, to.addr);
        if fit == Fit::Segments {
            return v6to4::segments(&ip, &chain, packet, |segment| {
                let ip = v6to4::receive(segment)?;
                let chain = Chain::empty(ip.next_header).ok_or(Reason::ExtensionChain)?;
                let carried = v6to4::carried(&chain, segment)?;
                let fit = v6to4::fit(t, segment, &chain, &carried)?;
                let received = (&ip, ttl, &chain);
                let what = (ipv4_protocol, &carried, fit);
                let verdict = v6to4::send(t, segment, env, out, received, what, addresses);
                leave(verdict, segment, out)
            });
        }
        let received = (&ip, ttl, &chain);
        let what = (ipv4_protocol, &carried, fit);
        Ok(v6to4::send(t, packet, env, out, received, what, addresses))
    }

    /// The ports of a packet, or of the first fragment of it. If this is the first, it comes into `first`.
    fn numbers_of_ipv6(
        &mut self,
        received: &Received<'_>,
        packet: &Packet<'_>,
        now: Duration,
        first: &mut Option<Fragmented>,
    ) -> Result<Later, Reason> {
        let bytes = &packet.bytes()[received.chain.payload_at..];
        let numbers = tuple::numbers_of(received.carried.kind, bytes, received.part)?;
        let fragment = received.chain.fragment.filter(|f| !f.is_atomic());
        let key = fragment.map(|f| Key::v6(received.ip, f.id, received.chain.protocol));
        match (numbers, key) {
            (Some(numbers), key) => {
                *first = key.map(|key| Fragmented::First(key, numbers));
                Ok(Later::Of(numbers))
            }
            (None, Some(key)) => self.fragments.later(key, packet, now),
            // What has an offset has a Fragment header that is not atomic.
            (None, None) => Err(Reason::FragmentMalformed),
        }
    }

    /// The IPv4 address of the destination, and the prefix that it stands in.
    pub(super) fn destination(&self, ip: &Ipv6) -> Result<(Ipv4Addr, u8), Refusal> {
        let (dst, via) = self
            .mapper()
            .to_ipv4(ip.dst)
            .map_err(|why| why.reason(Reason::DestinationUnmapped))?;
        // An IPv6 address may carry an IPv4 address that is none of a node.
        legal(AddressKind::Unicast, kind_of_ipv4(dst))?;
        match via {
            Via::Pref64(prefix) => Ok((dst, prefix)),
            Via::Eam => Err(Reason::DestinationUnmapped.into()),
        }
    }

    /// To a node behind us (RFC 6146 section 3.8): `from` sends to `to`, both as the IPv4 side sees
    /// them.
    fn turn(
        &mut self,
        received: &Received<'_>,
        (from, to): (Endpoint4, Endpoint4),
        packet: &mut Packet<'_>,
        now: Duration,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
    ) -> Result<Verdict, Refusal> {
        let is_query = received.protocol == Protocol::Icmp;
        let arriving = Inbound {
            protocol: received.protocol,
            v4: Endpoint4 {
                // An ICMP query takes its identifier along.
                port: if is_query { from.port } else { to.port },
                ..to
            },
            peer: Endpoint4 {
                port: tuple::peer_port(received.protocol, from.port),
                ..from
            },
            segment: received.segment(packet),
            bytes: packet.bytes(),
        };
        let inward = self
            .state
            .inbound(now, &arriving, watcher)
            .map_err(refusal)?;
        let Inward::Node(node, known_by) = inward else {
            return Ok(Verdict::Held);
        };
        // The node may know its peer by another prefix than the sender knows the node.
        let src = self
            .mapper()
            .embed(known_by, from.addr)
            .or_else(|_| self.mapper().embed(received.prefix, from.addr))
            .map_err(|why| why.reason(Reason::SourceUnmapped))?;
        let numbers = Numbers {
            src: if is_query { node.port } else { from.port },
            dst: node.port,
        };
        hairpin::send(
            &self.translator,
            (received.ip, received.ttl, received.chain),
            (src, node.addr, Some(numbers)),
            received.carried,
            packet,
            out,
        )
    }
}

impl Received<'_> {
    fn segment(&self, packet: &Packet<'_>) -> Segment {
        let bytes = &packet.bytes()[self.chain.payload_at..];
        tuple::segment_of(self.protocol, bytes, self.part)
    }
}
