// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a NAT64 (RFC 6146): bindings, sessions, and their changes by packets.
//!
//! Stages of a packet, in [`State::outbound`] from the IPv6 side and [`State::inbound`] from the IPv4 side:
//!
//! 1. `bib`: finds the binding of the node. From the IPv6 side, a new one is opened if necessary.
//! 2. `filter`: checks whether the peer may send to it.
//! 3. `table`: finds the session with the peer, or opens one if `admit` allows it (`limit`). An unsolicited SYN is held
//!    in `syn`.
//! 4. `tcp`: computes the state after the packet.
//! 5. `timer`: sets the remaining lifetime of the session.
//! 6. `event`: reports changes to the watchers that copy the tables.
//!
//! If several gateways serve the same nodes, each with its own addresses (`shared`), `copies` has bindings of the
//! others, `inherit` has those of this gateway that only others still had, and `rests` has ports that others may still
//! use.
//!
//! Time and randomness are arguments. Everything is bounded, no operation takes longer with larger tables, and
//! [`State::expire`] can be stopped after any number of sessions.
//!
//! Entries are numbered and stored in `slab`s; [`crate::key`] has the hash tables of these numbers.

mod admit;
mod bib;
mod block_list;
mod blocks;
mod change;
pub(crate) mod clock;
mod copies;
mod entry;
mod event;
mod expire;
mod filter;
mod grant;
mod holding;
mod inherit;
mod lending;
mod limit;
mod look;
mod moved;
mod operate;
mod rate;
mod reload;
mod rests;
mod shared;
pub mod slab;
mod syn;
mod table;
mod tcp;
pub(crate) mod timer;
mod trace;
mod waiting;

pub use bib::Origin;
pub use event::{BindingView, BlockView, Event, Missing, SessionView, Watcher, Way};
pub use expire::Due;
pub use grant::{GrantError, Granted, Wish};
pub use holding::{Holding, QuotaUse};
pub use look::Recipient;
pub use moved::Ended;
pub use operate::{BindError, Usage};
pub use tcp::{Lifetime, Segment, SessionState, Side};
pub(crate) use trace::come_back;
pub use trace::TableStep;

use crate::config::{Binding, Endpoint4, Endpoint6, Filtering, Mappings, Nat64Config, Protocol};
use crate::key::Keys;
use crate::pool::Pool;
use bib::{Bib, Whose};
use block_list::Blocks;
use clock::Clock;
use diolkos_xlat::verdict::Reason;
use filter::Permissions;
use limit::Sources;
use shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use syn::Syns;
use table::{KnownPeer, Sessions};
use waiting::Waiting;

/// A packet from the IPv6 side.
#[derive(Clone, Copy, Debug)]
pub struct Outbound {
    /// The protocol.
    pub protocol: Protocol,
    /// The transport address of the node.
    pub v6: Endpoint6,
    /// The peer's IPv4 transport address; port 0 for ICMP.
    pub peer: Endpoint4,
    /// Index of the translation prefix in which the node sees the peer.
    pub prefix: u8,
    /// The effect on the state of a TCP session.
    pub segment: Segment,
}

/// A packet from the IPv4 side.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// The protocol.
    pub protocol: Protocol,
    /// Its destination, as an IPv4 transport address.
    pub v4: Endpoint4,
    /// The peer; port 0 for ICMP.
    pub peer: Endpoint4,
    /// The effect on the state of a TCP session.
    pub segment: Segment,
    /// The whole packet as it was received, because a SYN may have to be held.
    pub bytes: &'a [u8],
}

/// The destination of a packet from the IPv4 side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inward {
    /// This node, and the prefix in which it sees the peer.
    Node(Endpoint6, u8),
    /// None yet: the packet is held.
    Held,
}

/// Number of entries of each kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Bindings.
    pub bindings: u32,
    /// Sessions.
    pub sessions: u32,
    /// Bindings of each protocol, by [`Protocol::index`].
    pub bindings_of: [u32; 3],
    /// Sessions of each protocol.
    pub sessions_of: [u32; 3],
    /// Number of IPv6 prefixes with state.
    pub sources: u32,
    /// Number of held SYNs from the IPv4 side.
    pub held_syns: usize,
    /// Number of pairs of binding and peer address, if filtering depends on addresses.
    pub permissions: u32,
}

/// Bindings, sessions and the pool.
#[derive(Debug)]
pub struct State {
    config: Nat64Config,
    pool: Pool,
    blocks: Option<Blocks>,
    bib: Bib,
    sessions: Sessions,
    sources: Sources,
    permissions: Option<Permissions>,
    syns: Syns,
    /// Set if several gateways serve the same nodes, each with its own addresses.
    shared: Option<Shared>,
    /// Static bindings of the configuration whose ports still rest for another subscriber.
    awaited: Vec<Binding>,
    /// Inherited bindings without sessions.
    waiting: Waiting,
    clock: Clock,
    keys: Keys,
}

impl State {
    /// Creates the state with the bindings of the configuration, which must have been checked. These bindings are not
    /// reported as events; [`State::bindings`] has them. If several gateways serve the same nodes, they are created by
    /// [`State::serve`] instead. `secret` must be random and secret: pool addresses and hashes in the tables depend on it.
    pub fn new(config: &Nat64Config, secret: [u64; 4]) -> State {
        let [pool0, pool1, key0, key1] = secret;
        let keys = Keys([key0, key1]);
        let dependent = config.filtering == Filtering::AddressDependent;
        let pool = pool(config, [pool0, pool1]);
        let pools = pool.pools().clone();
        let mut state = State {
            config: config.clone(),
            pool,
            blocks: Blocks::of(config, keys),
            bib: Bib::new(keys),
            sessions: Sessions::new(keys),
            sources: Sources::new(keys, config, &pools),
            permissions: dependent.then(|| Permissions::new(keys)),
            syns: Syns::new(keys, config.limits.held_syns),
            shared: Shared::of(config, keys, &pools),
            awaited: Vec::new(),
            waiting: Waiting::new(keys),
            clock: Clock::new(),
            keys,
        };
        if state.serves() {
            state.bind_configured(&mut ());
        }
        state
    }

    /// Handles a packet from the IPv6 side at the time `now`. Returns its IPv4 source (RFC 6146 sections 3.5.1 to
    /// 3.5.3).
    pub fn outbound(
        &mut self,
        now: Duration,
        packet: &Outbound,
        random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Result<Endpoint4, Reason> {
        let now = self.clock.advance(now);
        let opens = packet.protocol != Protocol::Tcp || packet.segment == Segment::Syn;
        let bib = match self.bib.find_v6(packet.protocol, packet.v6) {
            Some(bib) if !self.is_copy(bib) => bib,
            found => match self.way_of(
                Missing::V6(packet.protocol, packet.v6),
                found,
                true,
                watcher,
            )? {
                Some(bib) => bib,
                // RFC 6146 section 3.5.2.2, state CLOSED: any other packet is discarded.
                None if !opens => return Err(Reason::NoConnection),
                None => self.open_binding(packet, random, watcher)?,
            },
        };
        let v4 = self.bib[bib].v4;
        let peer = KnownPeer {
            v4: packet.peer,
            prefix: packet.prefix,
        };
        if let Some(at) = self.sessions.find(bib, packet.peer) {
            self.pass(at, Side::V6, packet.segment, Some(packet.prefix), watcher);
        } else if opens {
            let is_awaited = self.syns.holds((v4, packet.peer));
            let state = SessionState::first(packet.protocol, is_awaited);
            let opened = self.open_session(bib, peer, state, now, Side::V6, watcher);
            if let Err(reason) = opened {
                self.close_binding_if_unused(bib, watcher);
                return Err(reason);
            }
            if state == SessionState::Established {
                self.syns.remove((v4, packet.peer));
            }
        } else {
            let by = (Side::V6, packet.segment);
            self.open_in_the_middle(bib, peer, by, now, watcher);
        }
        Ok(v4)
    }

    /// Handles a packet from the IPv4 side at the time `now`. Returns its destination.
    pub fn inbound(
        &mut self,
        now: Duration,
        packet: &Inbound<'_>,
        watcher: &mut impl Watcher,
    ) -> Result<Inward, Reason> {
        let now = self.clock.advance(now);
        let is_syn = packet.protocol == Protocol::Tcp && packet.segment == Segment::Syn;
        let found = match self.bib.find_v4(packet.protocol, packet.v4) {
            Some(bib) if !self.is_copy(bib) => Some(bib),
            found => self.way_of(
                Missing::V4(packet.protocol, packet.v4),
                found,
                true,
                watcher,
            )?,
        };
        let Some(bib) = found else {
            return if is_syn && self.pool.covers(packet.protocol, packet.v4) {
                self.keep_syn(packet, now)
            } else {
                Err(Reason::NoBinding)
            };
        };
        let v6 = self.bib[bib].v6;
        if let Some(at) = self.sessions.find(bib, packet.peer) {
            self.pass(at, Side::V4, packet.segment, None, watcher);
            return Ok(Inward::Node(v6, self.sessions[at].prefix));
        }
        if !self.permits(bib, packet.peer) {
            return if is_syn {
                self.keep_syn(packet, now)
            } else {
                Err(Reason::Filtered)
            };
        }
        let peer = KnownPeer {
            v4: packet.peer,
            prefix: 0,
        };
        let state = match packet.protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp if is_syn => SessionState::V4Init,
            // RFC 6146 section 3.5.2.2, state CLOSED: with a binding, any other packet is let through. No session
            // begins, unless another gateway may have seen the connection begin.
            Protocol::Tcp => {
                let by = (Side::V4, packet.segment);
                self.open_in_the_middle(bib, peer, by, now, watcher);
                return Ok(Inward::Node(v6, 0));
            }
        };
        self.open_session(bib, peer, state, now, Side::V4, watcher)?;
        Ok(Inward::Node(v6, 0))
    }

    /// Returns true if an IPv4 transport address belongs to a node, or can: it is in the pool, or in a static binding.
    /// For ICMP, only the address counts.
    pub fn is_ours(&self, protocol: Protocol, v4: Endpoint4) -> bool {
        match protocol {
            Protocol::Icmp if self.pool.contains(v4.addr) => true,
            _ => {
                let is_own = |bib: u32| !self.is_copy(bib);
                self.pool.covers(protocol, v4) || self.bib.find_v4(protocol, v4).is_some_and(is_own)
            }
        }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The pool, for lending ports.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Number of entries of each kind, without copies of other gateways' bindings ([`State::copies`]).
    pub fn counts(&self) -> Counts {
        Counts {
            bindings: self.bindings_of(Whose::Own),
            sessions: self.sessions_of(Whose::Own),
            bindings_of: self.own_of(self.bib.of_protocol(), |shared| &shared.bindings_of),
            sessions_of: self.own_of(self.sessions.of_protocol(), |shared| &shared.sessions_of),
            sources: self.sources.len(),
            held_syns: self.syns.len(),
            permissions: self.permissions.as_ref().map_or(0, Permissions::len),
        }
    }

    /// Heap size in bytes of bindings, sessions and their indexes, without the pool.
    pub fn memory(&self) -> usize {
        self.bib.memory()
            + self.sessions.memory()
            + self.sources.memory()
            + self.permissions.as_ref().map_or(0, Permissions::memory)
            + self.waiting.memory()
            + self
                .shared
                .as_ref()
                .map_or(0, |shared| shared.sources.memory())
    }

    fn permits(&self, bib: u32, peer: Endpoint4) -> bool {
        match &self.permissions {
            // Whoever asks for a binding lets everybody in (RFC 6887 section 11).
            _ if self.bib[bib].origin == Origin::Pcp => true,
            None => true,
            Some(permissions) => permissions.permits(bib, peer.addr),
        }
    }

    /// Holds the SYN, in case of a simultaneous open (RFC 6146 section 3.5.2.2).
    fn keep_syn(&mut self, packet: &Inbound<'_>, now: clock::Millis) -> Result<Inward, Reason> {
        let deadline = now + self.config.timeouts.tcp_incoming_syn.as_millis() as clock::Millis;
        let key = (packet.v4, packet.peer);
        if !self.syns.keep(key, packet.bytes, deadline) {
            return Err(Reason::SynLimit);
        }
        Ok(Inward::Held)
    }
}

/// Creates the pool of a configuration, with all ports free.
fn pool(config: &Nat64Config, key: [u64; 2]) -> Pool {
    let mut pool = Pool::new(&config.pool4, config.port_preservation, key);
    // The configuration has been checked, so there is no error.
    let mappings = Mappings::of(config, pool.pools()).ok().flatten();
    if config.blocks.is_some() || mappings.is_some() {
        let size = config.blocks.map_or(0, |blocks| blocks.ports);
        pool.divide(size, mappings.map(Arc::new));
    }
    if config.owners.is_some() {
        pool.let_rest(config.limits.source_prefix_len);
    }
    pool
}
