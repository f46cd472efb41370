// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions that the fast path may open by itself: UDP and TCP sessions of nodes that have opened some, on ports that are lent to them.
//!
//! A node that has opened a session gets a small lease, while there is plenty ([`early`]). With a few sessions it is warm
//! and gets a lease whatever others have: a number of sessions, and ports of its own address. The faster
//! it uses them up, the more it gets, up to a wide lease with more room for ports. Its address allows it a few places; where
//! others have all of them, it takes that of an early lease, or of the node that has opened nothing for longest. The programs report what they have opened, and [`Leases::settle`] brings it into
//! the tables before the tables see any packet that may follow from it. So the tables stay the only truth: a session
//! that they refuse is removed from the maps again.
//!
//! The limits hold although the programs do not know them. What is lent counts as if it were used, and nothing is lent
//! near any limit; if others come nearer, leases end in time. Shares depend on the use by all nodes, so only as much is
//! lent as each prefix may have whatever others do ([`Terms::lendable`]).
//!
//! opened by packets → [`Leases::consider`] → programs → [`Leases::settle`] → refilled; idle → [`Leases::sweep`]

mod early;
mod filling;
mod margins;
mod warm;

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{LeaseSize, Opening, Report, WIDE_PORTS};
use diolkos_nat64::config::{Nat64Config, PoolId, Pools, Protocol};
use diolkos_nat64::session::{Segment, Side, State};

use super::conversion::{opened, protocol_of, session_of};
use super::fastpath::FastPath;
use super::mirror::Mirror;
use super::terms::{at_of, Lent, PoolPrefix, Terms, LENT};
use early::Early;
use margins::MARGIN;
use warm::{Warm, WARM};

/// Half the number of ports in each queue of the first filling, which counts as used up. Most nodes open little, and
/// no other node can use what is lent to them.
const FIRST: u32 = 4;
/// The same, of a lease with room for many.
const FIRST_WIDE: u32 = 8;
/// Number of sweeps in which every lease is checked once, and in which one is used that goes on: 8 seconds, at 250 ms
/// each.
const SWEEPS: u32 = 32;
/// The same for a lease of at most [`KEPT_SESSIONS`] while less than three quarters of each limit are used or lent: 64 seconds.
/// People read what they have opened before they open more.
const KEPT_SWEEPS: u32 = 8 * SWEEPS;
/// Number of sessions in the largest filling that is kept so long.
const KEPT_SESSIONS: u32 = 256;

/// All leases. Without a fast path there are none.
#[derive(Debug)]
pub struct Leases {
    fast: Option<Arc<dyn FastPath>>,
    /// The leases, by slot.
    held: Vec<Option<Box<GrantedLease>>>,
    warm: Warm,
    early: Early,
    lent: Lent,
    /// What is lent in each pool.
    lent_in: HashMap<PoolId, Lent>,
    /// What is lent to the nodes of a prefix.
    lent_to: HashMap<PoolPrefix, Lent>,
    terms: Terms,
    next_sweep: usize,
    /// The number of sweeps, which is the clock of leases.
    sweeps: u32,
}

/// A lease.
#[derive(Clone, Debug)]
struct GrantedLease {
    node: Ipv6Addr,
    /// The pool of its node.
    pool: PoolId,
    /// The term by which reports name the lease.
    term: u32,
    /// The external address of new bindings.
    address: Ipv4Addr,
    /// What is lent and not used up.
    lent: Lent,
    /// Ports of each queue of a protocol in a filling, in the order of [`LENT`]; 0 for a protocol that has not been
    /// requested.
    filling: [u32; 2],
    /// Number of sessions in a filling.
    sessions: u32,
    /// The sweep in which something was last opened.
    last_used: u32,
    /// True if it is wide, or would be if there were room.
    is_wide: bool,
    /// Number of sessions that its node has opened, until it is warm.
    opened: u8,
    /// True if its node is not warm.
    is_early: bool,
    /// True if the last filling got less than it wanted.
    is_lacking: bool,
}

impl Leases {
    /// Creates an empty set of leases from these pools of the configuration.
    pub fn new(
        config: &Nat64Config,
        pools: &Arc<Pools>,
        fast: Option<Arc<dyn FastPath>>,
    ) -> Leases {
        // A fast path without slots opens nothing by itself.
        let fast = fast.filter(|fast| fast.places() > 0);
        let places = fast.as_ref().map_or(0, |fast| fast.places());
        Leases {
            fast,
            held: vec![None; places],
            warm: Warm::new(places),
            early: Early::new(&config.limits, places),
            lent: Lent::default(),
            lent_in: HashMap::new(),
            lent_to: HashMap::new(),
            terms: Terms::of(config, pools),
            next_sweep: 0,
            sweeps: 0,
        }
    }

    /// Brings what the programs report into the tables: what they have opened, and segments that change the state of
    /// TCP sessions. Refills what is used up.
    pub fn settle(
        &mut self,
        state: &mut State,
        mirror: &mut Mirror,
        now: impl FnOnce() -> Duration,
        mut random: impl FnMut() -> u64,
    ) {
        let openings = self.fast.as_ref().map(|fast| fast.drain());
        let Some(openings) = openings.filter(|openings| !openings.is_empty()) else {
            return;
        };
        let now = now();
        let mut places: Vec<usize> = Vec::new();
        for opening in &openings {
            if let Report::Moved {
                is_from_peer,
                flags,
            } = opening.report
            {
                let side = if is_from_peer { Side::V4 } else { Side::V6 };
                let by = (side, Segment::of(flags));
                state.moved(now, session_of(opening), by, mirror);
                continue;
            }
            let protocol = protocol_of(opening);
            let (address, port) = opening.v4;
            // Not what an earlier run has lent.
            let is_lent = state.pool().is_leased(protocol, address, port);
            if opening.report == Report::Unwanted {
                state.pool_mut().give_back(protocol, address, port);
            } else {
                mirror.adopt(state, &opened(opening), opening.report, now);
            }
            if is_lent && opening.report != Report::Opened {
                // It is lent no more: it has a binding, or is the pool's again.
                let fast = self.fast.iter();
                fast.for_each(|fast| fast.vacate(protocol, opening.v4));
            }
            places.extend(self.note_used(opening, state));
        }
        if !mirror.phase().may_open() {
            return self.end_all(state);
        }
        places.sort_unstable();
        places.dedup();
        for place in places {
            self.fill(place, Lent::default(), state, mirror, &mut random);
        }
    }

    /// Notes that a packet has opened a session of a node through the slow path: the node may get a lease, and others
    /// may have to give theirs back.
    pub fn consider(
        &mut self,
        node: Ipv6Addr,
        protocol: Protocol,
        state: &mut State,
        mirror: &mut Mirror,
        mut random: impl FnMut() -> u64,
    ) {
        let phase = mirror.phase();
        let Some(fast) = &self.fast else { return };
        let set = fast.set_of(node);
        let is_lent = self.lent.sessions + self.lent.all_ports() > 0;
        if !phase.may_open() {
            // An exhausted lease opens nothing.
            if is_lent {
                self.end_all(state);
            }
            return;
        }
        if is_lent {
            self.end_where_short(node, state);
        }
        let Some(at) = at_of(protocol) else { return };
        let place = match self.place_of(set.clone(), |held| held.node == node) {
            Some(place) => place,
            None => match self.enter(set, node, protocol, state) {
                Some(place) => place,
                None => return,
            },
        };
        self.note_opened(place, state);
        let is_wide = self
            .fast
            .as_ref()
            .is_some_and(|fast| fast.most_ports(place) >= WIDE_PORTS);
        let first = if is_wide { FIRST_WIDE } else { FIRST };
        self.want(place, at, first, state);
        self.fill(place, Lent::default(), state, mirror, &mut random);
    }

    /// Returns the slot of a set whose lease is the wanted one.
    fn place_of(
        &self,
        mut set: Range<usize>,
        is_it: impl Fn(&GrantedLease) -> bool,
    ) -> Option<usize> {
        set.find(|&place| self.held[place].as_deref().is_some_and(&is_it))
    }

    /// Begins a lease of a node that has opened a session and has none: an early one in an empty slot, or any other with
    /// its last session before it is warm. Returns its slot.
    fn enter(
        &mut self,
        mut set: Range<usize>,
        node: Ipv6Addr,
        protocol: Protocol,
        state: &mut State,
    ) -> Option<usize> {
        let empty = set.clone().find(|&place| self.held[place].is_none());
        if let Some(place) = empty.filter(|_| self.may_be_early(node, protocol, state)) {
            return self
                .begin(place, node, state, LeaseSize::Small)
                .then_some(place);
        }
        let since = self.warm.note(set.clone(), node, self.sweeps)?;
        // Before another node's lease ends for it.
        if self.terms.nothing || self.room(node, state, MARGIN).sessions == 0 {
            return None;
        }
        let place = self.vacate(&mut set, since, state)?;
        self.begin(place, node, state, LeaseSize::Usual)
            .then_some(place)
    }

    /// Returns an empty slot of a set. If there is none, ends an early lease; otherwise the one that was not used for
    /// longest, unless it was used since a sweep.
    fn vacate(&mut self, set: &mut Range<usize>, since: u32, state: &mut State) -> Option<usize> {
        let age = |held: &GrantedLease| self.sweeps.wrapping_sub(held.last_used);
        let place = set.max_by_key(|&place| match &self.held[place] {
            Some(held) => (false, held.is_early, age(held)),
            None => (true, false, 0),
        })?;
        if let Some(held) = &self.held[place] {
            if !held.is_early && age(held) <= self.sweeps.wrapping_sub(since) {
                return None;
            }
            self.end(place, state);
        }
        Some(place)
    }

    /// Begins an empty lease, if anything can be lent.
    fn begin(&mut self, place: usize, node: Ipv6Addr, state: &State, size: LeaseSize) -> bool {
        let room = self.room(node, state, MARGIN);
        let (Some(fast), Some(address)) = (&self.fast, state.address_of(node)) else {
            return false;
        };
        if self.terms.nothing || room.sessions.min(state.lendable_sessions(node)) == 0 {
            return false;
        }
        let term = fast.assign(place, node, address, size);
        let is_early = size == LeaseSize::Small;
        self.held[place] = Some(Box::new(GrantedLease {
            node,
            pool: self.terms.pools.of_node(node),
            term,
            address,
            lent: Lent::default(),
            filling: [0; 2],
            sessions: 0,
            last_used: self.sweeps,
            is_wide: size == LeaseSize::Wide,
            opened: if is_early { 0 } else { WARM },
            is_early,
            is_lacking: false,
        }));
        if is_early {
            self.early.add(&self.terms, node);
        }
        true
    }

    /// Ends unused leases; call it four times a second.
    pub fn sweep(&mut self, state: &mut State) {
        if self.fast.is_none() {
            return;
        }
        self.sweeps = self.sweeps.wrapping_add(1);
        // What is left of three quarters of each limit; asked once for each pool, since it takes longer than all else here.
        let mut left: HashMap<PoolId, Lent> = HashMap::new();
        for _ in 0..self.held.len().div_ceil(SWEEPS as usize) {
            let place = self.next_sweep;
            self.next_sweep = (place + 1) % self.held.len();
            let Some(held) = self.held[place].as_deref() else {
                continue;
            };
            let unused = self.sweeps.wrapping_sub(held.last_used);
            let mut is_plenty = || {
                let left = left
                    .entry(held.pool)
                    .or_insert_with(|| self.room_of_all(held.node, state, early::END));
                let mut uses = left.ports.iter().zip(held.filling);
                left.sessions > 0 && uses.all(|(&ports, filling)| ports > 0 || filling == 0)
            };
            let is_small = !held.is_early && !held.is_wide && held.sessions <= KEPT_SESSIONS;
            let is_kept = unused < SWEEPS || unused < KEPT_SWEEPS && is_small && is_plenty();
            if !is_kept {
                self.end(place, state);
            }
        }
    }

    /// Takes all leases back. What programs open at this very moment they report later.
    pub fn end_all(&mut self, state: &mut State) {
        self.end_where(state, |_| true);
    }

    /// Applies another configuration, once everything has been taken back.
    pub fn follow(&mut self, config: &Nat64Config, pools: &Arc<Pools>) {
        self.terms = Terms::of(config, pools);
        self.lent_in.clear();
        self.early = Early::new(&config.limits, self.held.len());
    }

    /// Returns the number of leases, and what is lent and not used up.
    pub fn lent_out(&self) -> (u32, Lent) {
        (self.held.iter().flatten().count() as u32, self.lent)
    }

    /// Returns the number of sessions and ports that are lent and not used up.
    pub fn lent(&self) -> [u32; 2] {
        [self.lent.sessions, self.lent.all_ports()]
    }

    /// Returns the slot of the lease by which something was opened, unless that lease has ended since.
    fn note_used(&mut self, opening: &Opening, state: &mut State) -> Option<usize> {
        let set = self.fast.as_ref()?.set_of(opening.node.0);
        let whose = (opening.node.0, opening.term);
        let place = self.place_of(set, |held| (held.node, held.term) == whose)?;
        self.held[place].as_mut()?.last_used = self.sweeps;
        if opening.report != Report::Unwanted {
            self.note_opened(place, state);
        }
        let sessions = u32::from(opening.report != Report::Unwanted);
        let ports = u32::from(opening.report != Report::Opened);
        let at = at_of(protocol_of(opening))?;
        self.count(place, |lent| {
            lent.sessions = lent.sessions.saturating_sub(sessions);
            lent.ports[at] = lent.ports[at].saturating_sub(ports);
        });
        state.note_lent(opening.node.0, -i64::from(sessions));
        Some(place)
    }

    /// Changes what is lent: to a node, to its source prefixes, and in total.
    fn count(&mut self, place: usize, change: impl FnOnce(&mut Lent)) {
        let Some(held) = &mut self.held[place] else {
            return;
        };
        let before = held.lent;
        change(&mut held.lent);
        let after = held.lent;
        let (node, pool) = (held.node, held.pool);
        let follow = |sum: &mut Lent| {
            sum.sessions = sum.sessions - before.sessions + after.sessions;
            for at in 0..LENT.len() {
                sum.ports[at] = sum.ports[at] - before.ports[at] + after.ports[at];
            }
        };
        follow(&mut self.lent);
        follow(self.lent_in.entry(pool).or_default());
        for prefix in self.terms.prefixes(node) {
            let its = self.lent_to.entry(prefix).or_default();
            follow(its);
            if its.sessions == 0 && its.all_ports() == 0 {
                self.lent_to.remove(&prefix);
            }
        }
    }

    fn end_where(&mut self, state: &mut State, is_it: impl Fn(&GrantedLease) -> bool) {
        for place in 0..self.held.len() {
            if self.held[place].as_deref().is_some_and(&is_it) {
                self.end(place, state);
            }
        }
    }

    /// Ends a lease. Returns what programs may have taken of it and not reported yet.
    fn end(&mut self, place: usize, state: &mut State) -> Lent {
        let mut pending = Lent::default();
        self.count(place, |lent| pending = std::mem::take(lent));
        let (Some(fast), Some(held)) = (&self.fast, self.held[place].take()) else {
            return pending;
        };
        state.note_lent(held.node, -i64::from(pending.sessions));
        if held.is_early {
            self.early.remove(&self.terms, held.node);
        }
        for (queue, port) in fast.end(place) {
            let (protocol, address) = (LENT[queue / 2], held.address);
            if state.pool().is_leased(protocol, address, port) {
                state.pool_mut().give_back(protocol, address, port);
                fast.vacate(protocol, (address, port));
            }
            pending.ports[queue / 2] = pending.ports[queue / 2].saturating_sub(1);
        }
        pending
    }
}
