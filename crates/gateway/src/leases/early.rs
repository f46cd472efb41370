// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Early leases: those of nodes that have opened fewer sessions than [`super::warm::WARM`].
//!
//! A host that invents addresses has any number of such nodes. So early leases are bounded:
//!
//! * they take empty places only, and the first node that is warm takes theirs;
//! * at most half of all places are early leases, and a prefix has at most its share of them;
//! * each holds a few sessions and ports: all of them together at most one part in [`PARTS`] of the sessions and of the
//!   bindings, and of an address only ports of which it has plenty ([`State::has_plenty`]);
//! * none is given, nor filled, where half of a limit is used or lent, and all end where three quarters are.
//!
//! Beyond these bounds, a node gets its lease when it is warm.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv6Addr;

use diolkos_nat64::config::{LevelKind, Limits, PoolId, Protocol};
use diolkos_nat64::session::State;

use super::super::terms::{at_of, PoolPrefix, Terms};
use super::Leases;

/// Ports of each queue of a protocol.
pub(super) const PORTS: u32 = 2;
/// Number of sessions. Those that are missing to a warm node, and one that a program opens meanwhile.
pub(super) const SESSIONS: u32 = 4;
/// Most ports of an early lease: of two protocols, two queues each.
const MOST_PORTS: u32 = 4 * PORTS;
/// One part in so many of a limit is the most for all early leases.
const PARTS: u32 = 16;
/// So much of each limit must be free, and neither used nor lent: one part in this many.
pub(super) const FREE: u32 = 2;
/// They end where less than one part in this many is free.
pub(super) const END: u32 = 4;

/// How many early leases there are.
#[derive(Debug)]
pub(super) struct Early {
    most: u32,
    all: u32,
    /// By level and prefix. A host has one at most, and does not stand here.
    of_prefix: HashMap<PoolPrefix, u32>,
    of_pool: HashMap<PoolId, u32>,
}

impl Early {
    /// Returns none yet, for so many places.
    pub(super) fn new(limits: &Limits, places: usize) -> Early {
        let most = (places / 2) as u32;
        Early {
            most: most
                .min(limits.sessions / PARTS / SESSIONS)
                .min(limits.bindings / PARTS / MOST_PORTS),
            all: 0,
            of_prefix: HashMap::new(),
            of_pool: HashMap::new(),
        }
    }

    /// Returns their number.
    pub(super) fn all(&self) -> u32 {
        self.all
    }

    /// Returns the number of those in a prefix.
    pub(super) fn of(&self, prefix: PoolPrefix) -> u32 {
        self.of_prefix.get(&prefix).copied().unwrap_or_default()
    }

    /// Returns the number of those of a pool.
    pub(super) fn of_pool(&self, pool: PoolId) -> u32 {
        self.of_pool.get(&pool).copied().unwrap_or_default()
    }

    /// Returns true if a node may have one within the shares of its prefixes: each has its part of what others leave.
    fn has_room(&self, terms: &Terms, node: Ipv6Addr) -> bool {
        let mut free = u64::from(self.most.saturating_sub(self.all));
        for prefix in wider(terms, node) {
            let its = u64::from(self.of(prefix));
            free = terms.levels[prefix.0].limit(its, free).saturating_sub(its);
        }
        free > 0
    }

    /// Counts one more.
    pub(super) fn add(&mut self, terms: &Terms, node: Ipv6Addr) {
        self.all += 1;
        *self.of_pool.entry(terms.pools.of_node(node)).or_default() += 1;
        for prefix in wider(terms, node) {
            *self.of_prefix.entry(prefix).or_default() += 1;
        }
    }

    /// Counts one less: it has ended, or its node is warm.
    pub(super) fn remove(&mut self, terms: &Terms, node: Ipv6Addr) {
        self.all -= 1;
        take_one(&mut self.of_pool, terms.pools.of_node(node));
        for prefix in wider(terms, node) {
            take_one(&mut self.of_prefix, prefix);
        }
    }
}

/// Counts one less of a kind, of which there is one at least.
fn take_one<K: Eq + Hash>(counts: &mut HashMap<K, u32>, of: K) {
    if let Some(its) = counts.get_mut(&of) {
        *its -= 1;
        if *its == 0 {
            counts.remove(&of);
        }
    }
}

/// Returns the prefixes that contain a node and others.
fn wider(terms: &Terms, node: Ipv6Addr) -> impl Iterator<Item = PoolPrefix> + '_ {
    terms
        .prefixes(node)
        .filter(|&(level, ..)| terms.levels[level].kind != LevelKind::Host)
}

impl Leases {
    /// Returns true if a node that has opened a session of a protocol may have an early lease.
    pub(super) fn may_be_early(&self, node: Ipv6Addr, protocol: Protocol, state: &State) -> bool {
        let (Some(at), false) = (at_of(protocol), self.terms.no_ports) else {
            return false;
        };
        if !self.early.has_room(&self.terms, node) || !state.has_plenty(protocol, node) {
            return false;
        }
        let room = self.room(node, state, FREE);
        room.sessions >= SESSIONS && room.ports[at] >= MOST_PORTS
    }
}
