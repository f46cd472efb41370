// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces a packet through a NAT64: the stages of `outbound` and `inbound`, with lookups instead of table changes.

use super::{inbound, outbound, refusal, tuple, Nat64};
use crate::config::{Endpoint4, Protocol};
use crate::session::{come_back, Inward, Recipient, TableStep};
use diolkos_xlat::map::Via;
use diolkos_xlat::packet::{Env, Outbox, Packet};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::trace::{End, Mapping, Trace};
use diolkos_xlat::translate::payload::PayloadKind;
use diolkos_xlat::translate::{hop, v4to6, v6to4};
use diolkos_xlat::verdict::{Reason, Verdict};
use diolkos_xlat::wire::{next_header_of, protocol, protocol_of, FragmentKind, Headers4, Headers6};

/// The predicted result for a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nat64Trace {
    /// The part that does not depend on state.
    pub packet: Trace,
    /// The table entries that it would meet or change, in order.
    pub tables: Vec<TableStep>,
    /// True if the source port or query identifier of the sent packet would be random. [`Trace::sent`] then has that of
    /// the node instead.
    pub is_port_random: bool,
}

impl From<Trace> for Nat64Trace {
    /// Creates a trace without table steps.
    fn from(packet: Trace) -> Nat64Trace {
        Nat64Trace {
            packet,
            tables: Vec::new(),
            is_port_random: false,
        }
    }
}

/// The results of the lookups.
#[derive(Default)]
struct Lookups {
    mappings: Vec<Mapping>,
    tables: Vec<TableStep>,
    is_port_random: bool,
    /// True for a fragment or an ICMP error.
    is_of_others: bool,
}

impl Nat64 {
    /// Traces a packet as if it arrived now. None for a fragment or an ICMP error, whose treatment depends on other
    /// packets.
    pub fn trace(&self, packet: &[u8], env: &mut impl Env) -> Option<Nat64Trace> {
        let mut found = Lookups::default();
        let trace = Trace::of(
            packet,
            self.translator.icmp(),
            env,
            |packet, env, out| match packet.bytes().first().map(|byte| byte >> 4) {
                Some(4) => self.trace_inbound(packet, out, &mut found),
                Some(6) => self.trace_outbound(packet, env, out, &mut found),
                Some(_) => Err(Reason::NotIp.into()),
                None => Err(Reason::Truncated.into()),
            },
            |refusal, packet| self.answer(refusal, packet),
        );
        (!found.is_of_others).then_some(Nat64Trace {
            packet: Trace {
                mappings: found.mappings,
                ..trace
            },
            tables: found.tables,
            is_port_random: found.is_port_random,
        })
    }

    fn trace_outbound(
        &self,
        packet: &mut Packet<'_>,
        env: &mut impl Env,
        out: &mut impl Outbox,
        found: &mut Lookups,
    ) -> Result<Verdict, Refusal> {
        let outbound::Accepted {
            ip,
            hop_limit,
            chain,
        } = self.receive_ipv6(packet)?;
        let ipv4_protocol = protocol_of(chain.protocol)?;
        let protocol = tuple::protocol_of(chain.protocol, protocol::ICMPV6).map_err(refusal)?;
        found.is_of_others = chain.fragment.is_some_and(|f| !f.is_atomic());
        let carried = v6to4::carried(&chain, packet)?;
        found.is_of_others |= carried.kind == PayloadKind::IcmpError;
        if found.is_of_others {
            return Ok(Verdict::Held);
        }
        let dst = self.destination(&ip)?;
        let prefix = dst.prefix;
        found.mappings.push(Mapping::Mapped {
            end: End::Destination,
            v6: ip.dst,
            v4: dst.addr,
            via: Via::Pref64(prefix),
        });
        let received = outbound::Received {
            headers: Headers6 {
                ip: &ip,
                hop_limit,
                chain: &chain,
            },
            carried: &carried,
            part: FragmentKind::Whole,
            protocol,
            ipv4_protocol,
            dst,
        };
        let bytes = &packet.bytes()[chain.payload_at..];
        let numbers = tuple::numbers_of(carried.kind, bytes, FragmentKind::Whole)?;
        let numbers = numbers.ok_or(Reason::FragmentMalformed)?;
        let asked = self.asked_by_ipv6(&received, numbers, packet)?;
        let sender = self
            .state
            .trace_outbound(&asked.passing, &mut found.tables)
            .map_err(refusal)?;
        let is_new = sender.port.is_none();
        found.is_port_random = is_new;
        let from = Endpoint4 {
            addr: sender.addr,
            port: sender.port.unwrap_or(numbers.src),
        };
        if !asked.turns {
            return self.send_to_ipv4(&received, from, &asked, packet, env, out);
        }
        let arriving = received.turned(from, asked.to, packet);
        let is_query = protocol == Protocol::Icmp;
        let passing = &asked.passing;
        let is_session =
            |step: &TableStep| matches!(step, TableStep::Session(_) | TableStep::Opens { .. });
        let has_session = found.tables.iter().any(is_session);
        let inward = if arriving.v4 == from && (is_query || !is_new) && has_session {
            // The packet is sent to its own sender, by a session that exists or would just have been opened. In both
            // cases the session takes the prefix of this packet.
            come_back(arriving.segment, &mut found.tables);
            Inward::Node(passing.v6, prefix)
        } else if is_query && is_new {
            // It keeps its random identifier, for which the other address most likely has no binding.
            return Err(refusal(Reason::NoBinding));
        } else {
            let tables = &mut found.tables;
            let inward = self.state.trace_inbound(&arriving, is_new, tables);
            inward.map_err(refusal)?
        };
        match inward {
            Inward::Node(node, prefix) => {
                self.turn(&received, from, Recipient { node, prefix }, packet, out)
            }
            Inward::Held => Ok(Verdict::Held),
        }
    }

    fn trace_inbound(
        &self,
        packet: &mut Packet<'_>,
        out: &mut impl Outbox,
        found: &mut Lookups,
    ) -> Result<Verdict, Refusal> {
        let ip = v4to6::receive(packet)?;
        let hop_limit = hop(&self.translator, ip.ttl)?;
        let next_header = next_header_of(ip.protocol)?;
        let protocol = tuple::protocol_of(ip.protocol, protocol::ICMPV4).map_err(refusal)?;
        found.is_of_others = ip.is_fragment();
        let carried = v4to6::carried(&self.translator, &ip, packet)?;
        found.is_of_others |= carried.kind == PayloadKind::IcmpError;
        if found.is_of_others {
            return Ok(Verdict::Held);
        }
        // The source must be representable in IPv6, regardless of the tables.
        self.mapper()
            .embed(0, ip.src)
            .map_err(|why| why.reason(Reason::SourceUnmapped))?;
        let received = inbound::Received {
            headers: Headers4 { ip: &ip, hop_limit },
            carried: &carried,
            protocol,
            next_header,
        };
        let bytes = &packet.bytes()[ip.header_len..];
        let numbers = tuple::numbers_of(carried.kind, bytes, FragmentKind::Whole)?;
        let numbers = numbers.ok_or(Reason::FragmentMalformed)?;
        let (arriving, fit) = self.asked_by_ipv4(&received, numbers, packet)?;
        let inward = self
            .state
            .trace_inbound(&arriving, false, &mut found.tables)
            .map_err(|reason| inbound::silent_for_tcp(protocol, reason))?;
        let Inward::Node(node, prefix) = inward else {
            return Ok(Verdict::Held);
        };
        found.mappings.extend(
            self.mapper()
                .embed(prefix, ip.src)
                .map(|v6| Mapping::Mapped {
                    end: End::Source,
                    v6,
                    v4: ip.src,
                    via: Via::Pref64(prefix),
                }),
        );
        self.send_to_ipv6(
            &received,
            numbers.src,
            Recipient { node, prefix },
            fit,
            packet,
            out,
        )
    }
}
