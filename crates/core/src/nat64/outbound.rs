// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the IPv6 side, to IPv4 or back.

use super::fragment::{Held, Key, Later};
use super::{refusal, tuple, Nat64, Random};
use crate::addr::special::{kind_of_ipv4, Kind as AddressKind};
use crate::addr::Via;
use crate::config::nat64::{Endpoint4, Endpoint6, Protocol};
use crate::packet::{Outbox, Packet};
use crate::session::{Inbound, Inward, Outbound, Watcher};
use crate::verdict::{Reason, Verdict};
use crate::wire::{protocol, protocol_of, Chain, Ipv6, Part};
use crate::xlat::payload::{Kind, Numbers, Payload};
use crate::xlat::{hairpin, hop, legal, v6to4, Refusal};
use std::net::Ipv4Addr;

/// A packet of which the stateless stages have nothing against.
struct Received<'a> {
    ip: &'a Ipv6,
    ttl: u8,
    chain: &'a Chain,
    carried: &'a Payload,
    prefix: u8,
}

impl Nat64 {
    pub(super) fn outbound(
        &mut self,
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
        held: &mut Vec<Held>,
    ) -> Result<Verdict, Refusal> {
        let ip = v6to4::receive(packet)?;
        let ttl = hop(ip.hop_limit)?;
        // "The NAT64 MUST silently discard all incoming IPv6 packets containing a source address that
        // contains the Pref64::/n" (RFC 6146 section 3.5), or they could go round in circles.
        if self.mapper().holds(ip.src) {
            return Err(Reason::SourceInPrefix.into());
        }
        let chain = match Chain::empty(ip.next_header) {
            Some(chain) => chain,
            None => v6to4::follow(packet, &ip)?,
        };
        let ipv4_protocol = protocol_of(chain.protocol)?;
        let protocol = tuple::protocol_of(chain.protocol, protocol::ICMPV6).map_err(refusal)?;
        let carried = v6to4::carried(&chain, packet)?;
        if carried.kind == Kind::IcmpError {
            return self.error_from_ipv6((&ip, ttl, &chain), packet, env);
        }
        let (dst, prefix) = self.destination(&ip)?;
        let received = Received {
            ip: &ip,
            ttl,
            chain: &chain,
            carried: &carried,
            prefix,
        };

        let part = chain.fragment.map_or(Part::Whole, |fragment| {
            Part::of(fragment.offset, fragment.more)
        });
        let bytes = &packet.bytes()[chain.payload_at..];
        let numbers = match (
            tuple::numbers_of(carried.kind, bytes, part)?,
            chain.fragment,
        ) {
            (Some(numbers), Some(fragment)) if part == Part::First => {
                let key = Key::v6(&ip, fragment.id, chain.protocol);
                *held = self.fragments.first(key, numbers, env.now());
                numbers
            }
            (Some(numbers), _) => numbers,
            (None, fragment) => {
                let id = fragment.map_or(0, |fragment| fragment.id);
                let key = Key::v6(&ip, id, chain.protocol);
                match self.fragments.later(key, packet.bytes(), env.now())? {
                    Later::Known(numbers) => numbers,
                    Later::Held => return Ok(Verdict::Held),
                }
            }
        };
        let peer = Endpoint4 {
            addr: dst,
            port: tuple::peer_port(protocol, numbers.dst),
        };
        let ours = Endpoint4 {
            port: numbers.dst,
            ..peer
        };
        let turns = self.state.is_ours(protocol, ours);
        if !turns {
            v6to4::fit(&self.translator, packet, &chain, &carried)?;
        }
        let passing = Outbound {
            protocol,
            v6: Endpoint6 {
                addr: ip.src,
                port: numbers.src,
            },
            peer,
            prefix,
            segment: tuple::segment_of(protocol, &packet.bytes()[chain.payload_at..], part),
        };
        let now = env.now();
        let v4 = self
            .state
            .outbound(now, &passing, || env.random(), watcher)
            .map_err(refusal)?;
        if turns {
            let to = Endpoint4 {
                // An ICMP query takes its identifier along.
                port: match protocol {
                    Protocol::Icmp => v4.port,
                    Protocol::Tcp | Protocol::Udp => numbers.dst,
                },
                ..ours
            };
            return self.turn(received, protocol, (v4, to), packet, env, watcher);
        }
        let numbers = Numbers {
            src: v4.port,
            dst: numbers.dst,
        };
        v6to4::send(
            &self.translator,
            packet,
            env,
            out,
            (&ip, ttl, &chain),
            (ipv4_protocol, &carried),
            (v4.addr, dst, Some(numbers)),
        )
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
        received: Received<'_>,
        protocol: Protocol,
        (from, to): (Endpoint4, Endpoint4),
        packet: &mut Packet<'_>,
        env: &mut impl Random,
        watcher: &mut impl Watcher,
    ) -> Result<Verdict, Refusal> {
        let Received {
            ip,
            ttl,
            chain,
            carried,
            prefix,
        } = received;
        let part = chain.fragment.map_or(Part::Whole, |fragment| {
            Part::of(fragment.offset, fragment.more)
        });
        let segment = tuple::segment_of(protocol, &packet.bytes()[chain.payload_at..], part);
        let arriving = Inbound {
            protocol,
            v4: to,
            peer: Endpoint4 {
                port: tuple::peer_port(protocol, from.port),
                ..from
            },
            segment,
            bytes: packet.bytes(),
        };
        let inward = self
            .state
            .inbound(env.now(), &arriving, watcher)
            .map_err(refusal)?;
        let Inward::Node(node, known_by) = inward else {
            return Ok(Verdict::Held);
        };
        // The node may know its peer by another prefix than the sender knows the node.
        let src = self
            .mapper()
            .embed(known_by, from.addr)
            .or_else(|_| self.mapper().embed(prefix, from.addr))
            .map_err(|why| why.reason(Reason::SourceUnmapped))?;
        let numbers = match protocol {
            Protocol::Icmp => Numbers {
                src: node.port,
                dst: node.port,
            },
            Protocol::Tcp | Protocol::Udp => Numbers {
                src: from.port,
                dst: node.port,
            },
        };
        let addresses = (src, node.addr, Some(numbers));
        hairpin::send(
            &self.translator,
            (ip, ttl, chain),
            addresses,
            carried,
            packet,
        )
    }
}
