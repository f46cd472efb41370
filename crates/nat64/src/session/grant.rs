// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings that nodes ask for (PCP, RFC 6887). Such a binding lets every peer in, whatever the filtering is, and lasts until it
//! is withdrawn: the asker keeps the time.

use super::bib::{Origin, OWN};
use super::event::Watcher;
use super::tcp::Segment;
use super::{Outbound, State};
use crate::config::{Binding, Endpoint4, Endpoint6, Protocol};
use crate::pool::Claim;
use diolkos_xlat::verdict::Reason;
use std::net::Ipv4Addr;

/// The external address and port that a node would like.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wish {
    /// None: any address.
    pub addr: Option<Ipv4Addr>,
    /// None: any port.
    pub port: Option<u16>,
    /// Nothing else will do.
    pub is_strict: bool,
}

impl Wish {
    /// Fails if the node wants nothing else, and this is something else.
    pub fn is_met_by(&self, v4: Endpoint4) -> Result<(), GrantError> {
        let is_other = self.addr.is_some_and(|addr| addr != v4.addr)
            || self.port.is_some_and(|port| port != v4.port);
        match self.is_strict && is_other {
            true => Err(GrantError::NotThisPort),
            false => Ok(()),
        }
    }
}

/// The binding of a node's port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its external address and port.
    pub v4: Endpoint4,
    /// The operator has made it, and it does not end.
    pub is_static: bool,
}

/// Why a node does not get a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantError {
    /// Only another address or port is possible, and the node does not want that.
    NotThisPort,
    /// As for a packet that would open one.
    Refused(Reason),
}

impl State {
    /// Gives a node's port a binding that lasts until [`State::withdraw`]. A binding that a packet has opened becomes one, with
    /// its address and port; a static one stays what it is. The port comes from the pool of the node, within the limits and shares
    /// of bindings.
    pub fn grant(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
        random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Result<Granted, GrantError> {
        if let Some(at) = self.bib.find_v6(protocol, v6) {
            let entry = &mut self.bib[at];
            if entry.owner != OWN {
                return Err(GrantError::Refused(Reason::NotServing));
            }
            wish.is_met_by(entry.v4)?;
            let is_static = entry.origin.is_static();
            if !is_static {
                entry.origin = Origin::Pcp;
            }
            return Ok(Granted {
                v4: entry.v4,
                is_static,
            });
        }
        let binding = self.new_for(protocol, v6, wish, random, watcher)?;
        self.add_binding(binding, Origin::Pcp, true, watcher);
        Ok(Granted {
            v4: binding.v4,
            is_static: false,
        })
    }

    /// Returns true if this binding is there because of a grant.
    pub fn is_granted(&self, binding: &Binding) -> bool {
        let found = self.find_both(*binding).ok().flatten();
        found.is_some_and(|at| self.bib[at].origin == Origin::Pcp)
    }

    /// Ends a grant. Sessions that the IPv4 side has opened end with it. Those of the node itself go on, and with them the binding
    /// until the last one ends, as if a packet had opened it. Another binding is not changed.
    ///
    /// Closes at most `budget` sessions. Returns true if the grant has ended; until then it lasts, and new sessions from outside
    /// end with it. Callers let packets pass in between.
    pub fn withdraw(
        &mut self,
        binding: &Binding,
        budget: usize,
        watcher: &mut impl Watcher,
    ) -> bool {
        let found = self.find_both(*binding).ok().flatten();
        let Some(at) = found.filter(|&at| self.bib[at].origin == Origin::Pcp) else {
            return true;
        };
        let mut next = self.bib[at].first;
        let mut left = budget;
        for _ in 0..self.bib[at].sessions {
            let session = &self.sessions[next];
            let (this, is_outside) = (next, session.outside);
            next = session.siblings.next;
            if is_outside {
                if left == 0 {
                    return false;
                }
                left -= 1;
                self.close_session(this, watcher);
            }
        }
        self.bib[at].origin = Origin::Dynamic;
        self.close_binding_if_idle(at, watcher);
        true
    }

    /// Takes a port for a new binding: the wanted one if the node may have it, or any.
    fn new_for(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
        random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Result<Binding, GrantError> {
        let own = self.address_of(v6.addr);
        let Some(own) = own.filter(|_| self.serves() && !self.has_no_pool(v6.addr)) else {
            return Err(GrantError::Refused(Reason::SourceUnmapped));
        };
        let with = |v4| Binding { protocol, v4, v6 };
        let wanted = Endpoint4 {
            addr: own,
            port: wish.port.unwrap_or(0),
        };
        if with(wanted).misplaced(&self.config.translator).is_some() {
            return Err(GrantError::Refused(Reason::SourceIllegal));
        }
        let node = self.sources.of_node(v6.addr);
        let admitted = match self.blocks.is_some() {
            // Named ports too are a part of those of the source, of which a host leaves some to others.
            true => self
                .admit_binding_in_block(&node)
                .and_then(|()| self.may_take_port(protocol, v6.addr).map(|_| ())),
            false => self.admit_binding(protocol, self.free_ports(protocol, v6.addr), &node),
        };
        admitted.map_err(GrantError::Refused)?;
        // Peers should see a node as one address (RFC 4787 REQ-2): no other one is given.
        let is_possible = wish.port.is_some()
            && wish.addr.is_none_or(|addr| addr == own)
            && self.pool.covers(protocol, wanted)
            && (self.blocks.is_none() || self.is_in_block(&with(wanted)));
        if is_possible && self.pool.claim(protocol, wanted, v6.addr) == Claim::Taken {
            if let Some(place) = self.pool.place_of(wanted) {
                self.note_used(place);
            }
            return Ok(with(wanted));
        }
        if wish.is_strict && (wish.port.is_some() || wish.addr.is_some_and(|addr| addr != own)) {
            return Err(GrantError::NotThisPort);
        }
        let applicant = self.applicant(&Outbound {
            protocol,
            v6,
            peer: Endpoint4 {
                addr: Ipv4Addr::UNSPECIFIED,
                port: 0,
            },
            prefix: 0,
            segment: Segment::Syn,
        });
        let v4 = match self.blocks.is_some() {
            true => self.allocate_in_blocks(applicant, random, watcher),
            false => {
                let v4 = self.pool.allocate(applicant, random);
                v4.ok_or(Reason::PoolExhausted)
            }
        };
        let v4 = v4.map_err(GrantError::Refused)?;
        if let Err(error) = wish.is_met_by(v4) {
            // The address that the node wants has no port left, and another one has.
            self.pool.release(protocol, v4);
            return Err(error);
        }
        Ok(with(v4))
    }
}
