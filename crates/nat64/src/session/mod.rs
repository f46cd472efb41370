// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a NAT64 (RFC 6146): bindings, sessions, and what a packet does to them.
//!
//! Stages of a packet, [`State::outbound`] from the IPv6 side and [`State::inbound`] from the other:
//!
//! 1. `bib`: the binding of the node. From the IPv6 side, a new one if it has none.
//! 2. `filter`: may the peer send to it?
//! 3. `table`: the session with the peer, or a new one if it is `admit`ted (`limit`). A SYN that
//!    nobody asked for is kept in `syn`.
//! 4. `tcp`: the state after the packet.
//! 5. `timer`: how long the session lives from now on.
//! 6. `event`: who keeps a copy of the tables is told.
//!
//! Where several gateways serve the same hosts, each with addresses of its own (`shared`), `copies` has bindings of the others, `inherit` those
//! of this gateway that only others still knew, and `rests` ports that others may still use.
//!
//! Time and randomness are arguments. Nothing here grows without a limit, nothing takes longer
//! because much is there, and [`State::expire`] can be stopped after any number of sessions.
//!
//! Entries are numbered and stand in `slab`s; `key` has the hash tables of the numbers.

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
mod holding;
mod inherit;
pub mod key;
mod lending;
mod limit;
mod look;
mod operate;
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
pub use holding::{Held, Holding};
pub use operate::{BindError, Usage};
pub use tcp::{Lifetime, Segment, SessionState, Side};
pub(crate) use trace::come_back;
pub use trace::TableStep;

use crate::config::{Binding, Endpoint4, Endpoint6, Filtering, Mapping, Nat64Config, Protocol};
use crate::pool::Pool;
use bib::Bib;
use block_list::Blocks;
use clock::Clock;
use diolkos_xlat::verdict::Reason;
use filter::Permissions;
use key::Keys;
use limit::Sources;
use shared::{Shared, Whose};
use std::time::Duration;
use syn::Syns;
use table::Sessions;
use waiting::Waiting;

/// A packet from the IPv6 side.
#[derive(Clone, Copy, Debug)]
pub struct Outbound {
    /// Its protocol.
    pub protocol: Protocol,
    /// The node.
    pub v6: Endpoint6,
    /// The peer, as the IPv4 side knows it; with ICMP, port 0.
    pub peer: Endpoint4,
    /// By which prefix the node knows the peer.
    pub prefix: u8,
    /// What it means to a TCP session.
    pub segment: Segment,
}

/// A packet from the IPv4 side.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where it goes, as the IPv4 side knows it.
    pub v4: Endpoint4,
    /// The peer; with ICMP, port 0.
    pub peer: Endpoint4,
    /// What it means to a TCP session.
    pub segment: Segment,
    /// All of it, as it was received: a SYN may have to be kept.
    pub bytes: &'a [u8],
}

/// Where a packet from the IPv4 side goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inward {
    /// To this node, which knows the peer by this prefix.
    Node(Endpoint6, u8),
    /// Nowhere yet: it is kept.
    Held,
}

/// How many entries there are of each kind.
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
    /// IPv6 prefixes that have any of these.
    pub sources: u32,
    /// SYNs from the IPv4 side that are kept.
    pub held_syns: usize,
    /// Peers' addresses by binding, if filtering depends on them.
    pub permissions: u32,
}

/// Bindings, sessions, and the pool.
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
    /// If several gateways serve the same hosts, each with addresses of its own.
    shared: Option<Shared>,
    /// Bindings of the configuration whose ports rest for others.
    awaited: Vec<Binding>,
    /// Inherited bindings without sessions.
    waiting: Waiting,
    clock: Clock,
    keys: Keys,
}

impl State {
    /// With the bindings of the configuration, which must have been checked; nobody is told of these,
    /// [`State::bindings`] has them. Where several gateways serve the same hosts, they come when this one serves ([`State::serve`]). `secret` is random, and
    /// nobody's to know: addresses of the pool and places in the tables depend on it.
    pub fn new(config: &Nat64Config, secret: [u64; 4]) -> State {
        let [pool0, pool1, key0, key1] = secret;
        let keys = Keys([key0, key1]);
        let dependent = config.filtering == Filtering::AddressDependent;
        let mut state = State {
            config: config.clone(),
            pool: pool(config, [pool0, pool1]),
            blocks: Blocks::of(config, keys),
            bib: Bib::new(keys),
            sessions: Sessions::new(keys),
            sources: Sources::new(keys, &config.limits),
            permissions: dependent.then(|| Permissions::new(keys)),
            syns: Syns::new(keys, config.limits.held_syns),
            shared: Shared::of(config, keys),
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

    /// A packet from the IPv6 side at the time `now`. Returns where it comes from, as the IPv4 side
    /// sees it (RFC 6146 sections 3.5.1 to 3.5.3).
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
        if let Some(at) = self.sessions.find(bib, packet.peer) {
            self.pass(at, Side::V6, packet.segment, Some(packet.prefix), watcher);
        } else if opens {
            let is_awaited = self.syns.holds((v4, packet.peer));
            let state = SessionState::first(packet.protocol, is_awaited);
            let peer = (packet.peer, packet.prefix);
            let opened = self.open_session(bib, peer, state, now, Side::V6, watcher);
            if let Err(reason) = opened {
                self.close_binding_if_unused(bib, watcher);
                return Err(reason);
            }
            if state == SessionState::Established {
                self.syns.remove((v4, packet.peer));
            }
        } else {
            let (peer, by) = ((packet.peer, packet.prefix), (Side::V6, packet.segment));
            self.open_in_the_middle(bib, peer, by, now, watcher);
        }
        Ok(v4)
    }

    /// A packet from the IPv4 side at the time `now`. Returns where it goes.
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
        let state = match packet.protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp if is_syn => SessionState::V4Init,
            // RFC 6146 section 3.5.2.2, state CLOSED: with a binding, any other packet is let
            // through; no session begins, unless another gateway has seen the connection begin.
            Protocol::Tcp => {
                let by = (Side::V4, packet.segment);
                self.open_in_the_middle(bib, (packet.peer, 0), by, now, watcher);
                return Ok(Inward::Node(v6, 0));
            }
        };
        self.open_session(bib, (packet.peer, 0), state, now, Side::V4, watcher)?;
        Ok(Inward::Node(v6, 0))
    }

    /// Is it an address and port of a node behind us, or may it become one: of the pool, or of a
    /// binding of the operator? With ICMP the address alone decides.
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

    /// The pool, to lend ports of it.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// How many entries there are, without copies of other gateways' bindings ([`State::copies`]).
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

    /// Bytes on the heap of bindings, sessions and what finds them, without the pool.
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
            None => true,
            Some(permissions) => permissions.permits(bib, peer.addr),
        }
    }

    /// The packet is stored, in case of a simultaneous open (RFC 6146 section 3.5.2.2).
    fn keep_syn(&mut self, packet: &Inbound<'_>, now: clock::Millis) -> Result<Inward, Reason> {
        let deadline = now + self.config.timeouts.tcp_incoming_syn.as_millis() as clock::Millis;
        let key = (packet.v4, packet.peer);
        if !self.syns.keep(key, packet.bytes, deadline) {
            return Err(Reason::SynLimit);
        }
        Ok(Inward::Held)
    }
}

/// That of a configuration, with nothing but free ports.
fn pool(config: &Nat64Config, key: [u64; 2]) -> Pool {
    let mut pool = Pool::new(&config.pool4, config.port_preservation, key);
    // The configuration has been checked: there is no error.
    let mapping = Mapping::of(config).ok().flatten();
    if config.blocks.is_some() || mapping.is_some() {
        pool.divide(config.blocks.map_or(0, |blocks| blocks.ports), mapping);
    }
    if config.owners.is_some() {
        pool.let_rest(config.limits.source_prefix_len);
    }
    pool
}
