// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations from outside the packet path: static bindings, output, stored state, and sessions that the fast path has
//! opened.

use super::bib::Origin;
use super::bib::Whose;
use super::clock::Millis;
use super::event::{BindingView, Event, SessionView, Watcher};
use super::table::{self, KnownPeer};
use super::tcp::{Segment, SessionState, Side};
use super::State;
use crate::config::{Binding, Endpoint4, Endpoint6, Protocol, LEVELS};
use diolkos_xlat::verdict::Reason;
use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Why a binding cannot be created or removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BindError {
    /// It contradicts itself or the configuration; the text is the rest of a sentence.
    Contradiction(String),
    /// Its IPv4 transport address is bound to another node.
    Taken(Endpoint6),
    /// The node's port is already bound, to this address and port.
    Bound(Endpoint4),
    /// The port is leased to the fast path.
    Leased,
    /// The port rests for another subscriber that used it recently.
    Resting,
    /// This gateway does not serve yet, so another one may use the port for another subscriber.
    Starting,
    /// The limit on bindings is reached.
    Limit,
    /// There is no such binding.
    NotFound,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Contradiction(why) => f.write_str(why),
            BindError::Taken(v6) => write!(f, "the IPv4 address and port are bound to {v6}"),
            BindError::Bound(v4) => write!(f, "the IPv6 address and port are bound to {v4}"),
            BindError::Leased => f.write_str("the port is reserved for the fast path"),
            BindError::Resting => f.write_str(
                "the port was another subscriber's until a moment ago; try again in some seconds",
            ),
            BindError::Starting => f.write_str(
                "this gateway opens no bindings yet, since others may use the port: try again when `diolkos cluster status` shows that it serves",
            ),
            BindError::Limit => f.write_str("there are as many bindings as there may be"),
            BindError::NotFound => f.write_str("there is no such binding"),
        }
    }
}

impl std::error::Error for BindError {}

/// Number of entries that count against limits; see [`crate::config::Limits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Sessions.
    pub sessions: u32,
    /// Bindings.
    pub bindings: u32,
    /// Sessions and bindings of the prefixes that contain the node, in the order of [`crate::config::Limits::levels`].
    pub of_level: [(u32, u32); LEVELS],
}

impl State {
    /// Creates a static binding. If a packet has opened a binding with the same endpoints, that becomes static.
    pub fn bind(&mut self, binding: Binding, watcher: &mut impl Watcher) -> Result<(), BindError> {
        if let Some(why) = binding.contradiction(&self.config.translator) {
            return Err(BindError::Contradiction(why));
        }
        let owners = self.config.owners.as_ref();
        if let Some(why) = owners.and_then(|owners| owners.refuses(binding.v4.addr)) {
            return Err(BindError::Contradiction(why));
        }
        let pools = self.pool.pools();
        if let Some(why) = pools.refuses(binding.v4.addr, binding.v6.addr) {
            return Err(BindError::Contradiction(why));
        }
        let is_there = self.bib.find_v4(binding.protocol, binding.v4).is_some();
        if !is_there && !self.serves() {
            return Err(BindError::Starting);
        }
        self.replace_copy(&binding, watcher);
        if let Some(at) = self.find_both(binding)? {
            let entry = &mut self.bib[at];
            if !entry.origin.is_static() {
                entry.origin = Origin::Operator;
            }
            return Ok(());
        }
        if self.bindings_of(Whose::Own) >= self.config.limits.bindings {
            return Err(BindError::Limit);
        }
        if self.insert_binding(binding, Origin::Operator, watcher) {
            return Ok(());
        }
        match self.pool.rests_for(binding.protocol, binding.v4) {
            Some(_) => Err(BindError::Resting),
            None => Err(BindError::Leased),
        }
    }

    /// Removes a binding of any origin, and its sessions. A binding of the configuration returns with the next start or
    /// reload.
    pub fn unbind(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        watcher: &mut impl Watcher,
    ) -> Result<Binding, BindError> {
        let at = self.bib.find_v4(protocol, v4).ok_or(BindError::NotFound)?;
        let binding = self.bib[at].binding();
        self.close_binding(at, watcher);
        Ok(binding)
    }

    /// Ends the session of a node's port with a peer (port 0 for ICMP), as if it had expired: a dynamic binding ends
    /// with its last session. `v4`: the expected binding of the node, if known; another binding is not changed.
    pub fn end_session(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        v4: Option<Endpoint4>,
        peer: Endpoint4,
        watcher: &mut impl Watcher,
    ) -> Option<SessionView> {
        let bib = self.bib.find_v6(protocol, v6)?;
        if v4.is_some_and(|v4| v4 != self.bib[bib].v4) {
            return None;
        }
        let at = self.sessions.find(bib, peer)?;
        let view = self.session_view(at);
        self.close_session(at, watcher);
        self.close_binding_if_idle(bib, watcher);
        Some(view)
    }

    /// Finds the entry with exactly this binding. Returns an error if one of its endpoints has another binding.
    pub(super) fn find_both(&self, binding: Binding) -> Result<Option<u32>, BindError> {
        let Binding { protocol, v4, v6 } = binding;
        let by_v4 = self.bib.find_v4(protocol, v4);
        if let Some(at) = by_v4.filter(|&at| self.bib[at].v6 != v6) {
            return Err(BindError::Taken(self.bib[at].v6));
        }
        match self.bib.find_v6(protocol, v6) {
            Some(at) if self.bib[at].v4 != v4 => Err(BindError::Bound(self.bib[at].v4)),
            _ => Ok(by_v4),
        }
    }

    /// All bindings, in no order.
    pub fn bindings(&self) -> impl Iterator<Item = BindingView> + '_ {
        self.bib.iter().map(|(at, _)| self.binding_view(at))
    }

    /// Returns bindings in parts, like [`State::sessions_from`] for sessions.
    pub fn bindings_from(&self, first: u32, places: usize) -> (Vec<BindingView>, Option<u32>) {
        let mut views = Vec::new();
        let mut next = None;
        for (at, entry) in self.bib.iter_from(first).take(places) {
            views.extend(entry.map(|_| self.binding_view(at)));
            next = Some(at + 1);
        }
        let end = self.bib.iter_from(next.unwrap_or(0)).next().is_none();
        (views, next.filter(|_| !end))
    }

    /// All sessions, in no order.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.sessions.iter().map(|(at, _)| self.session_view(at))
    }

    /// Returns sessions in parts, so that packets can be handled in between: visits `places` places of the table from
    /// `first` on; start with 0. Returns the sessions there, and the next `first`, or None at the end. A session that
    /// exists throughout is returned once.
    pub fn sessions_from(&self, first: u32, places: usize) -> (Vec<SessionView>, Option<u32>) {
        let mut views = Vec::new();
        let mut next = None;
        for (at, session) in self.sessions.iter_from(first).take(places) {
            views.extend(session.map(|_| self.session_view(at)));
            next = Some(at + 1);
        }
        let end = self.sessions.iter_from(next.unwrap_or(0)).next().is_none();
        (views, next.filter(|_| !end))
    }

    /// Restores a binding from [`State::bindings`] of this run or an earlier one. Dynamic bindings are restored with
    /// their sessions.
    pub fn restore_binding(
        &mut self,
        view: &BindingView,
        watcher: &mut impl Watcher,
    ) -> Result<(), BindError> {
        match view.origin {
            Origin::Operator => self.bind(view.binding, watcher),
            Origin::Configured | Origin::Dynamic | Origin::Inherited | Origin::Pcp => Ok(()),
        }
    }

    /// Restores a session from [`State::sessions`] of this run or an earlier one, with its binding. It has `remaining`
    /// left at `now`.
    ///
    /// A session that the configuration no longer allows is not restored: its port is not in the pool of its node, its
    /// prefix is gone, or a limit would be exceeded. Shares are not applied, because they depend on the order of sessions. An
    /// existing session in the same state gets the age of the restored one. The fast path knows when it last translated
    /// a packet of a session, and is asked before the session ends.
    pub fn restore_session(
        &mut self,
        view: &SessionView,
        now: Duration,
        watcher: &mut impl Watcher,
    ) -> Result<(), Reason> {
        self.clock.advance(now);
        let bib = self.find_both(view.binding).ok().flatten();
        let there = bib.and_then(|bib| self.sessions.find(bib, view.peer));
        let is_same = |at: &u32| {
            let session = &self.sessions[*at];
            (session.state, session.prefix) == (view.state, view.prefix)
        };
        let Some(at) = there.filter(is_same) else {
            return self.bring_in(view, Coming::Back, watcher);
        };
        self.sessions[at].last = self.last_of(view);
        self.hasten(at);
        Ok(())
    }

    /// The time of last use, derived from the remaining lifetime.
    fn last_of(&self, view: &SessionView) -> Millis {
        let timeout = table::millis_of(view.state.lifetime(), &self.config.timeouts);
        let remaining = (view.remaining.as_millis() as Millis).min(timeout);
        (self.clock.now() + remaining).saturating_sub(timeout)
    }

    /// Number of entries for the prefixes of a node and in total.
    pub fn usage(&self, node: Ipv6Addr) -> Usage {
        let of_node = self.sources.of_node(node);
        Usage {
            sessions: self.sessions_of(Whose::Own),
            bindings: self.bindings_of(Whose::Own),
            of_level: of_node.map(|has| (has.sessions, has.all_bindings())),
        }
    }

    /// Adds a session that the fast path has opened, with a leased port if the node had no binding. After an error the
    /// session must not be used, and a leased port is free again.
    pub fn adopt(
        &mut self,
        view: &SessionView,
        now: Duration,
        watcher: &mut impl Watcher,
    ) -> Result<(), Reason> {
        self.clock.advance(now);
        self.bring_in(view, Coming::Leased, watcher)
    }

    /// Handles a segment that the fast path has translated and that may change the state of its session. `is_of` is the
    /// session as the fast path knew it; if it has ended, nothing changes.
    pub fn moved(
        &mut self,
        now: Duration,
        is_of: (Binding, Endpoint4),
        by: (Side, Segment),
        watcher: &mut impl Watcher,
    ) {
        self.clock.advance(now);
        let (binding, peer) = is_of;
        let Ok(Some(bib)) = self.find_both(binding) else {
            return;
        };
        if let Some(at) = self.sessions.find(bib, peer) {
            self.pass(at, by.0, by.1, None, watcher);
        }
    }

    fn bring_in(
        &mut self,
        view: &SessionView,
        coming: Coming,
        watcher: &mut impl Watcher,
    ) -> Result<(), Reason> {
        let binding = view.binding;
        let Binding { protocol, v4, v6 } = binding;
        // From here on the port belongs to a binding or is free.
        let leased = coming == Coming::Leased && self.pool.take_leased(protocol, v4.addr, v4.port);
        if leased {
            self.replace_copy(&binding, watcher);
        }
        let found = match self.find_both(binding) {
            Ok(found) => found,
            Err(_) => {
                if leased {
                    self.refuse_leased(binding, watcher);
                }
                return Err(Reason::NoBinding);
            }
        };
        let at = match found {
            Some(at) if !self.may_pass_by(at, watcher) => return Err(Reason::OwnerUnreachable),
            Some(at) => at,
            None => match self.room_for(binding, view, coming) {
                Ok(()) if leased => self.add_binding(binding, Origin::Dynamic, true, watcher),
                Ok(()) => self.claim_binding(binding, watcher)?,
                Err(reason) => {
                    if leased {
                        self.refuse_leased(binding, watcher);
                    }
                    return Err(reason);
                }
            },
        };
        debug_assert_eq!(self.bib[at].v6, v6);
        if usize::from(view.prefix) >= self.config.translator.pref64.len() {
            self.close_binding_if_unused(at, watcher);
            return Err(Reason::DestinationUnmapped);
        }
        if let Some(there) = self.sessions.find(at, view.peer) {
            if coming == Coming::Leased && protocol == Protocol::Tcp {
                self.begin_again(there, view.prefix, watcher);
            }
            return Ok(());
        }
        let last = self.last_of(view);
        let peer = KnownPeer {
            v4: view.peer,
            prefix: view.prefix,
        };
        let whose = self.bib[at].whose();
        let node = self.sources_of(whose).upwards(self.bib[at].source);
        let admitted = match coming {
            Coming::Back => self.admit_within_limits(Side::V6, whose, &node),
            Coming::Leased => self.admit_session(Side::V6, whose, &node),
        };
        match admitted {
            Ok(()) => {
                let is_awaited = view.state == SessionState::V6Init
                    && coming == Coming::Leased
                    && self.syns.holds((v4, view.peer));
                // Simultaneous open (RFC 6146 section 3.5.2.2).
                let state = match is_awaited {
                    true => SessionState::Established,
                    false => view.state,
                };
                if coming == Coming::Leased {
                    self.note_rate(at);
                }
                self.add_session(at, peer, state, last, Side::V6, watcher);
                if is_awaited {
                    self.syns.remove((v4, view.peer));
                }
                Ok(())
            }
            Err(reason) => {
                self.close_binding_if_unused(at, watcher);
                Err(reason)
            }
        }
    }

    /// Handles a TCP session that the fast path lost and opened again with a SYN of the node. The tables treat this as
    /// a SYN, but the change is always reported, because the entry of the fast path is that of a new session.
    fn begin_again(&mut self, at: u32, prefix: u8, watcher: &mut impl Watcher) {
        let before = (self.sessions[at].state, self.sessions[at].prefix);
        self.pass(at, Side::V6, Segment::Syn, Some(prefix), &mut ());
        watcher.event(Event::SessionChanged(self.session_view(at), before));
    }

    /// Opens a dynamic binding with a free port of the pool.
    fn claim_binding(
        &mut self,
        binding: Binding,
        watcher: &mut impl Watcher,
    ) -> Result<u32, Reason> {
        match self
            .pool
            .claim(binding.protocol, binding.v4, binding.v6.addr)
        {
            crate::pool::Claim::Taken => {
                self.adopt_block(&binding, watcher);
                Ok(self.add_binding(binding, Origin::Dynamic, true, watcher))
            }
            _ => Err(Reason::PoolExhausted),
        }
    }

    fn room_for(&self, binding: Binding, view: &SessionView, coming: Coming) -> Result<(), Reason> {
        if binding.misplaced(&self.config.translator).is_some() {
            return Err(Reason::SourceIllegal);
        }
        let (addr, node) = (binding.v4.addr, binding.v6.addr);
        if !self.pool.pools().allows(addr, node) {
            return Err(Reason::SourceUnmapped);
        }
        let is_tcp = binding.protocol == Protocol::Tcp;
        let of_protocol = match view.state {
            SessionState::Udp => binding.protocol == Protocol::Udp,
            SessionState::Icmp => binding.protocol == Protocol::Icmp,
            _ => is_tcp,
        };
        if !of_protocol {
            return Err(Reason::TransportUnknown);
        }
        let node = self.sources.of_node(binding.v6.addr);
        match coming {
            Coming::Back => self.admit_binding_within_limits(&node),
            // The port was free when it was leased.
            Coming::Leased if self.blocks.is_some() => self.admit_binding_in_block(&node),
            Coming::Leased => {
                let free = self.free_ports(binding.protocol, binding.v6.addr) + 1;
                self.admit_binding(binding.protocol, free, &node)
            }
        }
    }
}

/// The origin of a session that no packet has opened here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coming {
    /// Restored from stored state.
    Back,
    /// Opened by the fast path.
    Leased,
}
