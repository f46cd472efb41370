// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the state of each part of the network: of every IPv6 prefix of a level
//! ([`crate::config::Limits`]), and of every IPv4 address that has opened sessions. A prefix with nodes of several
//! pools ([`Pools`]) has an entry in each, so that shares of one pool do not depend on the use of another.
//!
//! An entry exists while its count is not zero. So there are at most as many entries as bindings times
//! levels, and spoofed addresses create no entries beyond their share of the bindings.

use super::clock::Millis;
use super::rate::Rates;
use super::slab::{Slab, NONE};
use crate::config::{Level, LevelKind, Nat64Config, PoolId, Pools, Protocol, LEVELS};
use crate::key::{Keys, Table};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The level of IPv4 addresses, after those of IPv6.
const PEER: Place = Place(LEVELS as u32);

/// The counts of one entry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Has {
    pub sessions: u32,
    /// Number of sessions that the IPv4 side opened.
    pub outside: u32,
    /// Number of bindings of each protocol.
    pub bindings: [u32; 3],
    /// Number of port blocks.
    pub blocks: u32,
}

impl Has {
    /// Number of bindings of all protocols.
    pub fn all_bindings(&self) -> u32 {
        self.bindings.iter().sum()
    }
}

#[derive(Debug)]
struct SourcePrefix {
    prefix: [u8; 16],
    has: Has,
    /// The wider entry that contains it.
    parent: u32,
    place: Place,
}

/// Index of a level, and the pool of the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(u32);

/// The fractional part of the golden ratio.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

impl Place {
    fn new(level: u8, pool: PoolId) -> Place {
        Place(pool << 8 | u32::from(level))
    }

    fn level(self) -> u8 {
        self.0 as u8
    }

    fn pool(self) -> PoolId {
        self.0 >> 8
    }
}

const _: () = assert!(size_of::<SourcePrefix>() == 48);

/// All entries with state.
#[derive(Debug)]
pub struct Sources {
    parts: Slab<SourcePrefix>,
    by_prefix: Table,
    keys: Keys,
    pools: Arc<Pools>,
    /// The widest first.
    levels: Vec<Level>,
    /// Number of sessions opened from the IPv4 side.
    outside: u32,
    /// Number of entries at the level of sources.
    sources: u32,
    rates: Option<Rates>,
}

impl Sources {
    pub fn new(keys: Keys, config: &Nat64Config, pools: &Arc<Pools>) -> Sources {
        let levels: Vec<Level> = config.limits.levels().collect();
        Sources {
            rates: Rates::of(&config.limits, &levels),
            parts: Slab::new(),
            by_prefix: Table::new(),
            keys,
            pools: pools.clone(),
            levels,
            outside: 0,
            sources: 0,
        }
    }

    /// Number of sources, not counting other levels.
    pub fn len(&self) -> u32 {
        self.sources
    }

    /// Number of sessions opened from the IPv4 side.
    pub fn outside(&self) -> u32 {
        self.outside
    }

    /// All levels, the widest first.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = (usize, &Level)> {
        self.levels.iter().enumerate()
    }

    /// The counts of all prefixes that contain a node, by level.
    pub fn of_node(&self, node: Ipv6Addr) -> [Has; LEVELS] {
        self.upwards(self.entry_of(node))
    }

    /// Returns the number of the narrowest entry that contains a node; [`NONE`] if there is none.
    fn entry_of(&self, node: Ipv6Addr) -> u32 {
        let pool = self.pools.of_node(node);
        let mut narrowest = self.levels().rev();
        let found = narrowest
            .find_map(|(at, level)| self.find(Place::new(at as u8, pool), level.prefix_of(node)));
        found.unwrap_or(NONE)
    }

    /// Returns the number of the entry above one, if it has one.
    fn above(&self, at: u32) -> Option<u32> {
        Some(self.parts[at].parent).filter(|&above| above != NONE)
    }

    /// Returns the entry with a number, and all above it, each with its level.
    fn chain(&self, at: u32) -> impl Iterator<Item = (u32, u8)> + '_ {
        let first = Some(at).filter(|&at| at != NONE);
        let all = std::iter::successors(first, |&at| self.above(at));
        all.map(|at| (at, self.parts[at].place.level()))
    }

    /// Returns the kind of prefix, if any, whose rate is used up: that of the entry with a number, or one above it.
    pub fn is_too_fast(&self, at: u32, now: Millis) -> Option<LevelKind> {
        let rates = self.rates.as_ref()?;
        let is_full = |&(at, level): &(u32, u8)| rates.left(at, level, now) == Some(0);
        let (_, level) = self.chain(at).find(is_full)?;
        Some(self.levels.get(usize::from(level))?.kind)
    }

    /// The same for a node, which may have no entry.
    pub fn is_node_too_fast(&self, node: Ipv6Addr, now: Millis) -> Option<LevelKind> {
        self.rates.as_ref()?;
        self.is_too_fast(self.entry_of(node), now)
    }

    /// Counts a session that the node of an entry has opened.
    pub fn spend(&mut self, at: u32, now: Millis) {
        let Some(mut rates) = self.rates.take() else {
            return;
        };
        for (at, level) in self.chain(at) {
            rates.spend(at, level, now);
        }
        self.rates = Some(rates);
    }

    /// Returns the number of sessions that may be lent to a node as far as rates go; with rates, none to a node without state.
    pub fn lendable(&self, node: Ipv6Addr, now: Millis) -> u32 {
        let Some(rates) = &self.rates else {
            return u32::MAX;
        };
        let at = self.entry_of(node);
        if at == NONE {
            return 0;
        }
        let least = self
            .chain(at)
            .filter_map(|(at, level)| rates.lendable(at, level, now));
        least
            .min()
            .map_or(u32::MAX, |least| least.min(u64::from(u32::MAX)) as u32)
    }

    /// Counts sessions that are lent to a node, or lent no longer.
    pub fn lend(&mut self, node: Ipv6Addr, change: i64) {
        let Some(mut rates) = self.rates.take() else {
            return;
        };
        for (at, _) in self.chain(self.entry_of(node)) {
            rates.lend(at, change);
        }
        self.rates = Some(rates);
    }

    /// The counts of all prefixes above an entry, given by the number that [`Sources::bind`] returned.
    pub fn upwards(&self, mut at: u32) -> [Has; LEVELS] {
        let mut all = [Has::default(); LEVELS];
        while at != NONE {
            let part = &self.parts[at];
            all[usize::from(part.place.level())] = part.has;
            at = part.parent;
        }
        all
    }

    /// Every place from `first` on, with its number, and the level, pool and prefix of its entry.
    pub fn prefixes_from(
        &self,
        first: u32,
    ) -> impl Iterator<Item = (u32, Option<(usize, PoolId, u128)>)> + '_ {
        self.parts.iter_from(first).map(|(at, part)| {
            let part = part.filter(|part| part.place != PEER);
            let told = |part: &SourcePrefix| {
                let prefix = u128::from_be_bytes(part.prefix);
                (part.place.level().into(), part.place.pool(), prefix)
            };
            (at, part.map(told))
        })
    }

    /// Number of sessions that an IPv4 address has opened.
    pub fn of_peer(&self, peer: Ipv4Addr) -> u32 {
        let found = self.find(PEER, mapped(peer));
        found.map_or(0, |at| self.parts[at].has.outside)
    }

    /// Counts a new binding of a node. Returns the number of its entry.
    pub fn bind(&mut self, node: Ipv6Addr, protocol: Protocol) -> u32 {
        let pool = self.pools.of_node(node);
        let mut parent = NONE;
        for at in 0..self.levels.len() {
            let prefix = self.levels[at].prefix_of(node);
            parent = self.enter(Place::new(at as u8, pool), prefix, parent);
        }
        self.each(parent, |has| has.bindings[protocol.index()] += 1);
        parent
    }

    /// Counts a new block of a source, given by its prefix. Returns the number of its entry.
    pub fn hold(&mut self, source: Ipv6Addr) -> u32 {
        let pool = self.pools.of_node(source);
        let mut parent = NONE;
        let wide = self
            .levels
            .iter()
            .filter(|level| level.kind != LevelKind::Host);
        for at in 0..wide.count() {
            let prefix = self.levels[at].prefix_of(source);
            parent = self.enter(Place::new(at as u8, pool), prefix, parent);
        }
        self.each(parent, |has| has.blocks += 1);
        parent
    }

    /// Counts a released block.
    pub fn let_go(&mut self, at: u32) {
        self.each(at, |has| has.blocks -= 1);
        self.leave(at);
    }

    /// Counts a closed binding.
    pub fn unbind(&mut self, at: u32, protocol: Protocol) {
        self.each(at, |has| has.bindings[protocol.index()] -= 1);
        self.leave(at);
    }

    /// Counts a new session. `peer` is set if the IPv4 side opened it.
    pub fn open(&mut self, at: u32, peer: Option<Ipv4Addr>) {
        self.each(at, |has| has.sessions += 1);
        let Some(peer) = peer else { return };
        self.outside += 1;
        self.each(at, |has| has.outside += 1);
        let peer = self.enter(PEER, mapped(peer), NONE);
        self.parts[peer].has.outside += 1;
    }

    /// Counts a closed session.
    pub fn close(&mut self, at: u32, peer: Option<Ipv4Addr>) {
        self.each(at, |has| has.sessions -= 1);
        let Some(peer) = peer else { return };
        self.outside -= 1;
        self.each(at, |has| has.outside -= 1);
        if let Some(peer) = self.find(PEER, mapped(peer)) {
            self.parts[peer].has.outside -= 1;
            self.leave(peer);
        }
    }

    fn each(&mut self, mut at: u32, change: impl Fn(&mut Has)) {
        while at != NONE {
            let part = &mut self.parts[at];
            change(&mut part.has);
            at = part.parent;
        }
    }

    fn find(&self, place: Place, prefix: u128) -> Option<u32> {
        let is_it = |at: u32| {
            let part = &self.parts[at];
            part.place == place && u128::from_be_bytes(part.prefix) == prefix
        };
        self.by_prefix.find(self.hash(place, prefix), is_it)
    }

    fn enter(&mut self, place: Place, prefix: u128, parent: u32) -> u32 {
        if let Some(at) = self.find(place, prefix) {
            return at;
        }
        let at = self.parts.insert(SourcePrefix {
            prefix: prefix.to_be_bytes(),
            has: Has::default(),
            parent,
            place,
        });
        self.by_prefix.insert(self.hash(place, prefix), at);
        if let Some(rates) = &mut self.rates {
            rates.begin(at);
        }
        self.sources += u32::from(self.is_source(place));
        at
    }

    /// Removes entries without state. They have no children, because these would have state.
    fn leave(&mut self, mut at: u32) {
        while at != NONE && self.parts[at].has == Has::default() {
            let part = self.parts.remove(at);
            let hash = self.hash(part.place, u128::from_be_bytes(part.prefix));
            self.by_prefix.remove(hash, at);
            self.sources -= u32::from(self.is_source(part.place));
            at = part.parent;
        }
    }

    fn is_source(&self, place: Place) -> bool {
        let level = self.levels.get(usize::from(place.level()));
        level.is_some_and(|level| level.kind == LevelKind::Source)
    }

    /// Equal bits can be prefixes of several levels and pools, so the place is part of the hash; spread over all bits, since
    /// neighbours differ in the lowest ones.
    fn hash(&self, place: Place, prefix: u128) -> u64 {
        self.keys
            .prefix(prefix ^ u128::from(place.0).wrapping_mul(SPREAD))
    }

    pub fn memory(&self) -> usize {
        let rates = self.rates.as_ref().map_or(0, Rates::memory);
        self.parts.memory() + self.by_prefix.memory() + rates
    }
}

fn mapped(peer: Ipv4Addr) -> u128 {
    peer.to_ipv6_mapped().to_bits()
}
