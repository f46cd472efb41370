// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much state each part of the network has: every IPv6 prefix of a level
//! ([`crate::config::Limits`]), and every IPv4 address that has opened sessions.
//!
//! An entry is there as long as it has something. So there are never more of them than bindings and levels
//! together, and whoever makes up addresses makes no entries beyond its share of the bindings.

use super::key::{Keys, Table};
use super::slab::{Slab, NONE};
use crate::config::{Level, LevelKind, Limits, Protocol, LEVELS};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The level of IPv4 addresses, behind those of IPv6.
const PEER: u8 = LEVELS as u8;

/// What one of them has.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Has {
    pub sessions: u32,
    /// Of these, opened from the IPv4 side.
    pub outside: u32,
    /// Of each protocol.
    pub bindings: [u32; 3],
    /// Blocks of ports.
    pub blocks: u32,
}

impl Has {
    /// Bindings of all protocols.
    pub fn all_bindings(&self) -> u32 {
        self.bindings.iter().sum()
    }
}

#[derive(Debug)]
struct Part {
    prefix: [u8; 16],
    has: Has,
    /// The wider one that it is in.
    parent: u32,
    /// The place of its level.
    level: u8,
}

/// All that have anything.
#[derive(Debug)]
pub struct Sources {
    parts: Slab<Part>,
    by_prefix: Table,
    keys: Keys,
    /// The widest first.
    levels: Vec<Level>,
    /// Sessions opened from the IPv4 side.
    outside: u32,
    /// How many are sources.
    sources: u32,
}

impl Sources {
    pub fn new(keys: Keys, limits: &Limits) -> Sources {
        Sources {
            parts: Slab::new(),
            by_prefix: Table::new(),
            keys,
            levels: limits.levels().collect(),
            outside: 0,
            sources: 0,
        }
    }

    /// How many sources there are, whatever else.
    pub fn len(&self) -> u32 {
        self.sources
    }

    /// Sessions opened from the IPv4 side.
    pub fn outside(&self) -> u32 {
        self.outside
    }

    /// Every level, the widest first.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = (usize, &Level)> {
        self.levels.iter().enumerate()
    }

    /// What the prefixes have that a node is in, by level.
    pub fn of_node(&self, node: Ipv6Addr) -> [Has; LEVELS] {
        let mut narrowest = self.levels().rev();
        let found = narrowest.find_map(|(at, level)| self.find(at as u8, level.prefix_of(node)));
        self.upwards(found.unwrap_or(NONE))
    }

    /// The same by the number that [`Sources::bind`] gave.
    pub fn upwards(&self, mut at: u32) -> [Has; LEVELS] {
        let mut all = [Has::default(); LEVELS];
        while at != NONE {
            let part = &self.parts[at];
            all[usize::from(part.level)] = part.has;
            at = part.parent;
        }
        all
    }

    /// Every place from this one on, with its number, and the level and prefix of what is there.
    pub fn prefixes_from(
        &self,
        first: u32,
    ) -> impl Iterator<Item = (u32, Option<(usize, u128)>)> + '_ {
        self.parts.iter_from(first).map(|(at, part)| {
            let part = part.filter(|part| part.level != PEER);
            let told = |part: &Part| (part.level.into(), u128::from_be_bytes(part.prefix));
            (at, part.map(told))
        })
    }

    /// What an IPv4 address has opened.
    pub fn of_peer(&self, peer: Ipv4Addr) -> u32 {
        let found = self.find(PEER, mapped(peer));
        found.map_or(0, |at| self.parts[at].has.outside)
    }

    /// A node has one binding more. Returns the number by which it is known.
    pub fn bind(&mut self, node: Ipv6Addr, protocol: Protocol) -> u32 {
        let mut parent = NONE;
        for at in 0..self.levels.len() {
            let prefix = self.levels[at].prefix_of(node);
            parent = self.enter(at as u8, prefix, parent);
        }
        self.each(parent, |has| has.bindings[protocol.index()] += 1);
        parent
    }

    /// A source, by its prefix, has one block of ports more. Returns the number by which it is known.
    pub fn hold(&mut self, source: Ipv6Addr) -> u32 {
        let mut parent = NONE;
        let wide = self
            .levels
            .iter()
            .filter(|level| level.kind != LevelKind::Host);
        for at in 0..wide.count() {
            let prefix = self.levels[at].prefix_of(source);
            parent = self.enter(at as u8, prefix, parent);
        }
        self.each(parent, |has| has.blocks += 1);
        parent
    }

    /// One block less.
    pub fn let_go(&mut self, at: u32) {
        self.each(at, |has| has.blocks -= 1);
        self.leave(at);
    }

    /// One binding less.
    pub fn unbind(&mut self, at: u32, protocol: Protocol) {
        self.each(at, |has| has.bindings[protocol.index()] -= 1);
        self.leave(at);
    }

    /// One session more, opened by `peer` if it was opened from the IPv4 side.
    pub fn open(&mut self, at: u32, peer: Option<Ipv4Addr>) {
        self.each(at, |has| has.sessions += 1);
        let Some(peer) = peer else { return };
        self.outside += 1;
        self.each(at, |has| has.outside += 1);
        let peer = self.enter(PEER, mapped(peer), NONE);
        self.parts[peer].has.outside += 1;
    }

    /// One session less.
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

    fn find(&self, level: u8, prefix: u128) -> Option<u32> {
        let is_it = |at: u32| {
            let part = &self.parts[at];
            part.level == level && u128::from_be_bytes(part.prefix) == prefix
        };
        self.by_prefix.find(self.hash(level, prefix), is_it)
    }

    fn enter(&mut self, level: u8, prefix: u128, parent: u32) -> u32 {
        if let Some(at) = self.find(level, prefix) {
            return at;
        }
        let at = self.parts.insert(Part {
            prefix: prefix.to_be_bytes(),
            has: Has::default(),
            parent,
            level,
        });
        self.by_prefix.insert(self.hash(level, prefix), at);
        self.sources += u32::from(self.is_source(level));
        at
    }

    /// Forgets what has nothing, and is no parent: who has nothing has no children.
    fn leave(&mut self, mut at: u32) {
        while at != NONE && self.parts[at].has == Has::default() {
            let part = self.parts.remove(at);
            let hash = self.hash(part.level, u128::from_be_bytes(part.prefix));
            self.by_prefix.remove(hash, at);
            self.sources -= u32::from(self.is_source(part.level));
            at = part.parent;
        }
    }

    fn is_source(&self, level: u8) -> bool {
        let level = self.levels.get(usize::from(level));
        level.is_some_and(|level| level.kind == LevelKind::Source)
    }

    /// The same bits are a prefix of several levels.
    fn hash(&self, level: u8, prefix: u128) -> u64 {
        self.keys.prefix(prefix ^ u128::from(level))
    }

    pub fn memory(&self) -> usize {
        self.parts.memory() + self.by_prefix.memory()
    }
}

fn mapped(peer: Ipv4Addr) -> u128 {
    peer.to_ipv6_mapped().to_bits()
}
