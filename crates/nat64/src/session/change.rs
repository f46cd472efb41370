// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All changes of the tables. Only this code creates, changes and removes entries, so that counts, limits,
//! permissions, pool and watchers always agree.

use super::bib::Origin;
use super::bib::Whose;
use super::clock::Millis;
use super::entry::Session;
use super::event::{BindingView, Event, SessionView, Watcher};
use super::table::{KnownPeer, NewSession};
use super::tcp::{Segment, SessionState, Side};
use super::{table, Outbound, State};
use crate::config::Binding;
use crate::pool::{Applicant, Claim};
use diolkos_xlat::verdict::Reason;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The whole table of sessions is walked if at least one session in so many is to end.
const WORTH_A_WALK: usize = 8;
/// Number of sessions whose places are fetched together.
const FETCHED: usize = 32;

impl State {
    /// Opens a binding for a node that has none, with a port of the pool.
    pub(super) fn open_binding(
        &mut self,
        packet: &Outbound,
        random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Result<u32, Reason> {
        self.may_open_binding(packet)?;
        let applicant = self.applicant(packet);
        let v4 = match self.blocks.is_some() {
            true => self.allocate_in_blocks(applicant, random, watcher)?,
            false => {
                let allocated = self.pool.allocate(applicant, random);
                allocated.ok_or(Reason::PoolExhausted)?
            }
        };
        let binding = Binding {
            protocol: packet.protocol,
            v4,
            v6: packet.v6,
        };
        Ok(self.add_binding(binding, Origin::Dynamic, true, watcher))
    }

    /// Checks whether a node without a binding may get a binding and a session.
    pub(super) fn may_open_binding(&self, packet: &Outbound) -> Result<(), Reason> {
        if !self.serves() {
            return Err(Reason::NotServing);
        }
        let node = self.sources.of_node(packet.v6.addr);
        self.admit_session(Side::V6, Whose::Own, &node)?;
        self.admit_rate(packet.v6.addr)?;
        if self.has_no_pool(packet.v6.addr) {
            return Err(Reason::SourceUnmapped);
        }
        match self.blocks.is_some() {
            true => self.admit_binding_in_block(&node),
            false => {
                let free = self.free_ports(packet.protocol, packet.v6.addr);
                self.admit_binding(packet.protocol, free, &node)
            }
        }
    }

    pub(super) fn applicant(&self, packet: &Outbound) -> Applicant {
        use crate::config::Protocol;
        let v6 = packet.v6;
        // RTP has an even port, and RTCP the next one (RFC 3550 section 11).
        let neighbour = (packet.protocol == Protocol::Udp && v6.port % 2 == 1)
            .then(|| crate::config::Endpoint6 {
                port: v6.port - 1,
                ..v6
            })
            .and_then(|rtp| self.v4_of(Protocol::Udp, rtp))
            .filter(|rtp| rtp.port % 2 == 0);
        Applicant {
            protocol: packet.protocol,
            source: v6.addr,
            port: v6.port,
            neighbour,
        }
    }

    /// Inserts a given binding. Both endpoints must be unbound. Returns false if the pool has already allocated
    /// or lent the port.
    pub(super) fn insert_binding(
        &mut self,
        binding: Binding,
        origin: Origin,
        watcher: &mut impl Watcher,
    ) -> bool {
        let pooled = match self
            .pool
            .claim(binding.protocol, binding.v4, binding.v6.addr)
        {
            Claim::Taken => true,
            Claim::Elsewhere => false,
            Claim::Occupied => return false,
        };
        self.add_binding(binding, origin, pooled, watcher);
        true
    }

    pub(super) fn add_binding(
        &mut self,
        binding: Binding,
        origin: Origin,
        pooled: bool,
        watcher: &mut impl Watcher,
    ) -> u32 {
        let source = self.sources.bind(binding.v6.addr, binding.protocol);
        let at = self.bib.insert(binding, origin, pooled, source);
        watcher.event(Event::BindingOpened(binding));
        at
    }

    /// Closes a binding after closing all its sessions.
    pub(super) fn close_binding(&mut self, at: u32, watcher: &mut impl Watcher) {
        while self.bib[at].sessions > 0 {
            self.close_session(self.bib[at].first, watcher);
        }
        self.waiting.remove(at);
        let entry = self.bib.remove(at);
        if entry.whose() == Whose::Copied {
            return self.note_copy_ended(&entry, watcher);
        }
        self.leave_port(&entry);
        self.sources.unbind(entry.source, entry.protocol);
        watcher.event(Event::BindingClosed(entry.binding()));
    }

    /// Closes many bindings after closing all their sessions. The sessions are closed in the order in which they lie in
    /// memory, since those of one binding lie far apart; and the search for them is begun for several at a time.
    pub(super) fn close_bindings(&mut self, lost: &[u32], watcher: &mut impl Watcher) {
        let sessions_of = |at: &u32| self.bib[*at].sessions as usize;
        let sessions: usize = lost.iter().map(sessions_of).sum();
        if sessions >= self.sessions.len() as usize / WORTH_A_WALK && sessions > 0 {
            let most = lost.iter().max().map_or(0, |at| *at as usize + 1);
            let mut is_lost = vec![false; most];
            lost.iter().for_each(|at| is_lost[*at as usize] = true);
            let of_lost = |bib: u32| is_lost.get(bib as usize).is_some_and(|is_lost| *is_lost);
            let all = self.sessions.iter();
            let all = all.filter_map(|(at, session)| of_lost(session.bib).then_some(at));
            for some in all.collect::<Vec<_>>().chunks(FETCHED) {
                self.sessions.fetch(some);
                some.iter().for_each(|at| self.close_session(*at, watcher));
            }
        }
        lost.iter().for_each(|at| self.close_binding(*at, watcher));
    }

    /// Closes a binding and its sessions within the budget. Returns false if some remain.
    pub(super) fn close_within(
        &mut self,
        at: u32,
        budget: &mut usize,
        watcher: &mut impl Watcher,
    ) -> bool {
        while self.bib[at].sessions > 0 {
            if !spend(budget) {
                return false;
            }
            self.close_session(self.bib[at].first, watcher);
        }
        let is_left = spend(budget);
        if is_left {
            self.close_binding(at, watcher);
        }
        is_left
    }

    /// Closes a binding that a packet created, if it has no session left (RFC 6146 section 3.1).
    pub(super) fn close_binding_if_idle(&mut self, at: u32, watcher: &mut impl Watcher) {
        let entry = &self.bib[at];
        if entry.sessions == 0 && entry.origin.is_of_packets() {
            self.close_binding(at, watcher);
        }
    }

    /// Closes a binding whose session was refused, if it has no other session and does not wait for one.
    pub(super) fn close_binding_if_unused(&mut self, at: u32, watcher: &mut impl Watcher) {
        if self.bib[at].origin != Origin::Inherited {
            self.close_binding_if_idle(at, watcher);
        }
    }

    /// Closes a session; its binding stays.
    pub(super) fn close_session(&mut self, at: u32, watcher: &mut impl Watcher) {
        let view = self.session_view(at);
        let ended = self.sessions.remove(&mut self.bib, at);
        self.note_closed(&ended, view, watcher);
    }

    /// Opens a session of a binding with a peer, if limits and shares allow it.
    pub(super) fn open_session(
        &mut self,
        bib: u32,
        peer: KnownPeer,
        state: SessionState,
        last: Millis,
        side: Side,
        watcher: &mut impl Watcher,
    ) -> Result<u32, Reason> {
        self.may_open_session(bib, peer.v4.addr, side)?;
        if side == Side::V6 {
            self.note_rate(bib);
        }
        Ok(self.add_session(bib, peer, state, last, side, watcher))
    }

    /// Checks whether this side may open a session of a binding with this peer.
    pub(super) fn may_open_session(
        &self,
        bib: u32,
        peer: Ipv4Addr,
        side: Side,
    ) -> Result<(), Reason> {
        let binding = &self.bib[bib];
        let whose = binding.whose();
        let node = self.sources_of(whose).upwards(binding.source);
        self.admit_session(side, whose, &node)?;
        match side {
            Side::V4 => self.admit_from_outside(&node, whose, binding.outside, peer),
            // A flow that another gateway has served; there is one at most for each binding that came back.
            Side::V6 if binding.origin == Origin::Inherited && binding.sessions == 0 => Ok(()),
            Side::V6 => self.admit_rate_of(whose, binding.source),
        }
    }

    /// Counts a session that the node of a binding opens now.
    pub(super) fn note_rate(&mut self, bib: u32) {
        let (source, whose) = (self.bib[bib].source, self.bib[bib].whose());
        let now = self.clock.now();
        self.sources_mut_of(whose).spend(source, now);
    }

    pub(super) fn add_session(
        &mut self,
        bib: u32,
        peer: KnownPeer,
        state: SessionState,
        last: Millis,
        side: Side,
        watcher: &mut impl Watcher,
    ) -> u32 {
        let (source, whose) = (self.bib[bib].source, self.bib[bib].whose());
        let outside = side == Side::V4;
        let by = outside.then_some(peer.v4.addr);
        self.sources_mut_of(whose).open(source, by);
        self.count_session(bib, |sessions| *sessions += 1);
        if let Some(permissions) = &mut self.permissions {
            permissions.add(bib, peer.v4.addr);
        }
        let deadline = last + table::millis_of(state.lifetime(), &self.config.timeouts);
        let session = NewSession {
            bib,
            peer,
            outside,
            state,
            last,
            deadline,
        };
        let at = self.sessions.insert(&mut self.bib, session);
        watcher.event(Event::SessionOpened(self.session_view(at)));
        at
    }

    /// Updates counts and watchers after a session has been removed from its table.
    pub(super) fn note_closed(
        &mut self,
        ended: &Session,
        view: SessionView,
        watcher: &mut impl Watcher,
    ) {
        let (source, whose) = (self.bib[ended.bib].source, self.bib[ended.bib].whose());
        let peer = ended.peer.addr;
        let by = ended.outside.then_some(peer);
        self.sources_mut_of(whose).close(source, by);
        self.count_session(ended.bib, |sessions| *sessions -= 1);
        if let Some(permissions) = &mut self.permissions {
            permissions.remove(ended.bib, peer);
        }
        watcher.event(Event::SessionClosed(view));
    }

    /// Handles a packet of an existing session.
    pub(super) fn pass(
        &mut self,
        at: u32,
        side: Side,
        segment: Segment,
        prefix: Option<u8>,
        watcher: &mut impl Watcher,
    ) {
        let now = self.clock.now();
        let session = &mut self.sessions[at];
        let (state, renewed) = session.after(side, segment);
        let before = (session.state, session.prefix);
        session.state = state;
        session.one_sided &= state == SessionState::Trans;
        session.prefix = prefix.unwrap_or(session.prefix);
        let changed = before != (session.state, session.prefix);
        if renewed {
            session.last = now;
        } else if before.1 != session.prefix {
            // The fast path's copy, with the last use that it has seen, is about to be replaced.
            self.catch_up_with(at, before.0, watcher);
        }
        if before.0.lifetime() != state.lifetime() {
            self.hasten(at);
        }
        if changed {
            watcher.event(Event::SessionChanged(self.session_view(at), before));
        }
    }

    /// Moves a session forward on the timer wheel, because its deadline may be earlier than before.
    pub(super) fn hasten(&mut self, at: u32) {
        let deadline = self.deadline(at);
        self.sessions.hasten(at, deadline);
    }

    pub(super) fn deadline(&self, at: u32) -> Millis {
        let session = &self.sessions[at];
        session.last + table::millis_of(session.state.lifetime(), &self.config.timeouts)
    }

    pub(super) fn session_view(&self, at: u32) -> SessionView {
        let session = &self.sessions[at];
        let remaining = self.deadline(at).saturating_sub(self.clock.now());
        SessionView {
            binding: self.bib[session.bib].binding(),
            peer: session.peer,
            prefix: session.prefix,
            state: session.state,
            remaining: Duration::from_millis(remaining),
        }
    }

    pub(super) fn binding_view(&self, at: u32) -> BindingView {
        let entry = &self.bib[at];
        BindingView {
            binding: entry.binding(),
            origin: entry.origin,
            sessions: entry.sessions,
        }
    }
}

/// Takes one unit from the budget. Returns false if it is used up.
pub(super) fn spend(budget: &mut usize) -> bool {
    let is_left = *budget > 0;
    *budget = budget.saturating_sub(1);
    is_left
}
