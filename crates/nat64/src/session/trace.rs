// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicts the effect of a packet on the tables. Nothing changes, because `self` is a shared reference.
//!
//! If several gateways serve the same nodes, watchers decide about packets that meet a copy or no binding
//! ([`super::Way`]). A trace does not ask them: it uses an existing copy, and requests no binding from elsewhere.

use super::bib::Origin;
use super::event::{BindingView, SessionView};
use super::tcp::{Segment, SessionState, Side};
use super::{Inbound, Inward, Outbound, State};
use crate::config::{Endpoint4, Endpoint6, Protocol};
use diolkos_xlat::verdict::Reason;
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A table entry that a packet meets or would change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableStep {
    /// The binding of the packet.
    Binding(BindingView),
    /// The session of the packet.
    Session(SessionView),
    /// The state of the session would change.
    Moves {
        /// The state now.
        from: SessionState,
        /// The state after the packet.
        to: SessionState,
    },
    /// There is no session, and the packet opens none: a TCP packet other than SYN.
    NoSession,
    /// The packet comes from the IPv4 side and has no session.
    Filtering {
        /// True if filtering depends on addresses (RFC 4787 section 5).
        by_address: bool,
        /// True if the packet is accepted.
        permits: bool,
    },
    /// The sender's source would get a port block.
    GivesBlock {
        /// The prefix of the source.
        source: Ipv6Addr,
        /// Prefix length of the source.
        source_prefix_len: u8,
        /// The address with the ports of the block.
        addr: Ipv4Addr,
    },
    /// A binding would be opened.
    Binds {
        /// The binding table.
        protocol: Protocol,
        /// The node's transport address.
        v6: Endpoint6,
        /// The IPv4 address of the new binding.
        addr: Ipv4Addr,
        /// The port; None if it would be random.
        port: Option<u16>,
        /// The prefix by which the node has this pool, if it is one by source.
        pool: Option<Ipv6Net>,
    },
    /// A session would be opened.
    Opens {
        /// The peer.
        peer: Endpoint4,
        /// The initial state.
        state: SessionState,
    },
    /// An unsolicited SYN would be held (RFC 6146 section 3.5.2.2).
    KeepsSyn,
}

/// The IPv4 source that a packet of the IPv6 side would get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    pub addr: Ipv4Addr,
    /// None if a new binding would get a random port.
    pub port: Option<u16>,
}

impl State {
    /// Traces a packet through [`State::outbound`].
    pub(crate) fn trace_outbound(
        &self,
        packet: &Outbound,
        steps: &mut Vec<TableStep>,
    ) -> Result<Sender, Reason> {
        let opens = packet.protocol != Protocol::Tcp || packet.segment == Segment::Syn;
        let Some(bib) = self.bib.find_v6(packet.protocol, packet.v6) else {
            return match opens {
                true => self.trace_new(packet, steps),
                false => Err(Reason::NoConnection),
            };
        };
        steps.push(TableStep::Binding(self.binding_view(bib)));
        let v4 = self.bib[bib].v4;
        let by = (Side::V6, packet.segment);
        if !self.trace_session(bib, packet.peer, by, steps) {
            if opens {
                self.may_open_session(bib, packet.peer.addr, Side::V6)?;
                let is_awaited = self.syns.holds((v4, packet.peer));
                steps.push(TableStep::Opens {
                    peer: packet.peer,
                    state: SessionState::first(packet.protocol, is_awaited),
                });
            } else {
                self.trace_middle(bib, packet.peer, by, steps);
            }
        }
        Ok(Sender {
            addr: v4.addr,
            port: Some(v4.port),
        })
    }

    /// Traces a packet through [`State::inbound`]. `is_new`: the peer is a node whose port is not allocated yet.
    pub(crate) fn trace_inbound(
        &self,
        packet: &Inbound<'_>,
        is_new: bool,
        steps: &mut Vec<TableStep>,
    ) -> Result<Inward, Reason> {
        let is_syn = packet.protocol == Protocol::Tcp && packet.segment == Segment::Syn;
        let Some(bib) = self.bib.find_v4(packet.protocol, packet.v4) else {
            let is_of_other = self.is_of_other(packet.v4.addr);
            let keeps = is_syn && !is_of_other && self.pool.covers(packet.protocol, packet.v4);
            return match keeps {
                true => self.trace_syn(packet, steps),
                false => Err(Reason::NoBinding),
            };
        };
        let v6 = self.bib[bib].v6;
        steps.push(TableStep::Binding(self.binding_view(bib)));
        let by = (Side::V4, packet.segment);
        if !is_new && self.trace_session(bib, packet.peer, by, steps) {
            let at = self.sessions.find(bib, packet.peer);
            return Ok(Inward::Node(
                v6,
                at.map_or(0, |at| self.sessions[at].prefix),
            ));
        }
        let permits = self.permits(bib, packet.peer);
        steps.push(TableStep::Filtering {
            by_address: self.permissions.is_some() && self.bib[bib].origin != Origin::Pcp,
            permits,
        });
        match (permits, is_syn) {
            (false, true) => return self.trace_syn(packet, steps),
            (false, false) => return Err(Reason::Filtered),
            (true, _) => {}
        }
        if packet.protocol == Protocol::Tcp && !is_syn {
            self.trace_middle(bib, packet.peer, by, steps);
            return Ok(Inward::Node(v6, 0));
        }
        self.may_open_session(bib, packet.peer.addr, Side::V4)?;
        let state = match packet.protocol {
            Protocol::Tcp => SessionState::V4Init,
            protocol => SessionState::first(protocol, false),
        };
        steps.push(TableStep::Opens {
            peer: packet.peer,
            state,
        });
        Ok(Inward::Node(v6, 0))
    }

    /// Traces a packet of a node's unbound port: a new binding and a new session.
    fn trace_new(&self, packet: &Outbound, steps: &mut Vec<TableStep>) -> Result<Sender, Reason> {
        self.may_open_binding(packet)?;
        let applicant = self.applicant(packet);
        let (addr, port) = match &self.blocks {
            None => self
                .pool
                .would_allocate(&applicant)
                .ok_or(Reason::PoolExhausted)?,
            Some(blocks) => {
                let protocol = packet.protocol;
                let begin = self.may_take_port(protocol, packet.v6.addr)?;
                let source = self.source_of(packet.v6.addr);
                let has_free = |place: &_| self.pool.free_in(protocol, *place) > 0;
                let addr = match self.places_of(source).find(has_free) {
                    Some(place) => place.addr,
                    None => {
                        self.may_open_block(packet.v6.addr)?;
                        let addr = self.pool.would_take_block(begin);
                        let addr = addr.ok_or(Reason::PoolExhausted)?;
                        steps.push(TableStep::GivesBlock {
                            source: Ipv6Addr::from_bits(source),
                            source_prefix_len: blocks.rules.source_prefix_len,
                            addr,
                        });
                        addr
                    }
                };
                (addr, None)
            }
        };
        steps.push(TableStep::Binds {
            protocol: packet.protocol,
            v6: packet.v6,
            addr,
            port,
            pool: self.pool.pools().source_of(packet.v6.addr),
        });
        let v4 = port.map(|port| Endpoint4 { addr, port });
        let is_awaited = v4.is_some_and(|v4| self.syns.holds((v4, packet.peer)));
        steps.push(TableStep::Opens {
            peer: packet.peer,
            state: SessionState::first(packet.protocol, is_awaited),
        });
        Ok(Sender { addr, port })
    }

    /// Traces the session of a packet. Returns true if there is one.
    fn trace_session(
        &self,
        bib: u32,
        peer: Endpoint4,
        (side, segment): (Side, Segment),
        steps: &mut Vec<TableStep>,
    ) -> bool {
        let Some(at) = self.sessions.find(bib, peer) else {
            return false;
        };
        steps.push(TableStep::Session(self.session_view(at)));
        let session = &self.sessions[at];
        let (to, _) = session.after(side, segment);
        if to != session.state {
            let from = session.state;
            steps.push(TableStep::Moves { from, to });
        }
        true
    }

    /// Traces a TCP packet other than SYN without a session ([`State::open_in_the_middle`]).
    fn trace_middle(
        &self,
        bib: u32,
        peer: Endpoint4,
        (side, segment): (Side, Segment),
        steps: &mut Vec<TableStep>,
    ) {
        let opens =
            self.goes_on(bib, segment) && self.may_open_session(bib, peer.addr, side).is_ok();
        steps.push(match opens {
            true => TableStep::Opens {
                peer,
                state: SessionState::Trans,
            },
            false => TableStep::NoSession,
        });
    }

    fn trace_syn(
        &self,
        packet: &Inbound<'_>,
        steps: &mut Vec<TableStep>,
    ) -> Result<Inward, Reason> {
        if !self.syns.has_room((packet.v4, packet.peer)) {
            return Err(Reason::SynLimit);
        }
        steps.push(TableStep::KeepsSyn);
        Ok(Inward::Held)
    }
}

/// Traces a segment that is hairpinned to its own sender: the session in the last step changes its state once more.
pub(crate) fn come_back(segment: Segment, steps: &mut Vec<TableStep>) {
    let state = steps.iter().rev().find_map(|step| match step {
        TableStep::Moves { to, .. } => Some(*to),
        TableStep::Opens { state, .. } => Some(*state),
        TableStep::Session(view) => Some(view.state),
        _ => None,
    });
    let Some(from) = state else { return };
    let (to, _) = from.after(Side::V4, segment);
    if to != from {
        steps.push(TableStep::Moves { from, to });
    }
}
