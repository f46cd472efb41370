// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of every node: its entry in the engine, and since when that has been the last one.

use std::collections::BTreeMap;

use crate::entry::{NodeEntry, NodeId};
use crate::timing::Timing;
use crate::{Moment, Revision};

/// A node's entry as it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What it says.
    pub entry: NodeEntry,
    /// Of the entry; 0: the engine has none any more.
    pub revision: Revision,
    /// When it was seen first.
    pub since: Moment,
    /// This is what was known before: the engine has an unreadable entry by now, or none.
    pub is_lost: bool,
}

/// All nodes that have ever joined.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    seen: BTreeMap<NodeId, Seen>,
    /// When a node last came or went.
    changed: Moment,
}

impl Peers {
    /// Notes an entry, unless a later one is known.
    pub fn note(
        &mut self,
        now: Moment,
        node: NodeId,
        revision: Revision,
        entry: NodeEntry,
    ) -> bool {
        let is_known = |seen: &Seen| seen.revision >= revision;
        if self.seen.get(&node).is_some_and(is_known) {
            return false;
        }
        let (since, is_lost) = (now, false);
        self.replace(
            node,
            Seen {
                entry,
                revision,
                since,
                is_lost,
            },
        );
        true
    }

    /// The entry is lost, and until it is found its node counts as this one.
    pub fn lose(&mut self, now: Moment, node: NodeId, revision: Revision, entry: NodeEntry) {
        let (since, is_lost) = (now, true);
        self.replace(
            node,
            Seen {
                entry,
                revision,
                since,
                is_lost,
            },
        );
    }

    fn replace(&mut self, node: NodeId, seen: Seen) {
        let entry = seen.entry;
        let was = self.seen.get(&node).filter(|seen| seen.entry.is_alive);
        if was.map(|seen| seen.entry.life) != entry.is_alive.then_some(entry.life) {
            self.changed = seen.since;
        }
        self.seen.insert(node, seen);
    }

    /// All nodes of which anything is known.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, &Seen)> + '_ {
        self.seen.iter().map(|(node, seen)| (*node, seen))
    }

    /// The entry of a node.
    pub fn get(&self, node: NodeId) -> Option<&Seen> {
        self.seen.get(&node)
    }

    /// Whether this life of the node goes on.
    pub fn lives(&self, node: NodeId, life: u64) -> bool {
        let seen = self.seen.get(&node);
        seen.is_some_and(|seen| seen.entry.is_alive && seen.entry.life == life)
    }

    /// Whether this life of the node, in which an entry of this revision names it, has certainly ended. If only an earlier entry
    /// with another life is known, the one with this life has yet to be seen: the engine keeps the last entry of each key, so
    /// that of a slice may come before the latest renewal of its owner. A lost entry shows nothing.
    pub fn has_ended(&self, node: NodeId, life: u64, revision: Revision) -> bool {
        let seen = self.seen.get(&node);
        seen.is_some_and(|seen| match seen.entry.life == life {
            true => !seen.entry.is_alive,
            false => !seen.is_lost && seen.revision > revision,
        })
    }

    /// Nodes whose life goes on, and the life.
    pub fn alive(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        let alive = self.seen.iter().filter(|(_, seen)| seen.entry.is_alive);
        alive.map(|(node, seen)| (*node, seen.entry.life))
    }

    /// Those whose entries are there: no other one can be given anything.
    pub fn known_alive(&self) -> impl Iterator<Item = NodeId> + '_ {
        let found = self.seen.iter().filter(|(_, seen)| !seen.is_lost);
        found
            .filter(|(_, seen)| seen.entry.is_alive)
            .map(|(node, _)| *node)
    }

    /// Nodes that count as dead, though their entry says that they live.
    pub fn silent<'a>(
        &'a self,
        now: Moment,
        timing: &'a Timing,
    ) -> impl Iterator<Item = (NodeId, Seen)> + 'a {
        self.seen
            .iter()
            .filter(move |(_, seen)| seen.entry.is_alive && is_silent(now, seen, timing))
            .map(|(node, seen)| (*node, *seen))
    }

    /// When the next node counts as dead if nothing is heard of it.
    pub fn next_silence(&self, timing: &Timing) -> Option<Moment> {
        let alive = self.seen.values().filter(|seen| seen.entry.is_alive);
        alive.map(|seen| seen.since + timing.dead_after()).min()
    }

    /// Since when no node has come or gone.
    pub fn unchanged_since(&self) -> Moment {
        self.changed
    }
}

/// Whether an entry has been the last one for as long as its node's lease can run.
pub fn is_silent(now: Moment, seen: &Seen, timing: &Timing) -> bool {
    now.saturating_sub(seen.since) >= timing.dead_after()
}
