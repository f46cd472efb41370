// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which entries the engine's feed has brought since it began, and what becomes of those that it did not bring again.
//!
//! The engine tells of an entry that somebody removes only while the feed is read. So after a reconnection, an entry that was known
//! and is not brought again has vanished. It may be written again by compare-and-set as an absent one. But an absent entry ends
//! nobody's lease: who takes over still waits until the lease has certainly ended.

use std::collections::BTreeSet;

use super::Ownership;
use crate::entry::{Key, NodeEntry, NodeId};
use crate::lease::Lease;
use crate::{Moment, Revision};

/// The entries of one feed.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    /// What it has brought, and what this node has written meanwhile.
    brought: BTreeSet<Key>,
    /// All entries have been seen once, in this feed or in an earlier one.
    pub(super) is_synced: bool,
    /// All entries that there were when this feed began have been seen in it.
    pub(super) is_whole: bool,
    /// When what it has not brought counts as vanished. An entry that is written anew while the feed is read moves to its end, and
    /// so does the write of an earlier connection that is late.
    pub(super) due: Option<Moment>,
}

impl Feed {
    pub(super) fn bring(&mut self, key: Key) {
        self.brought.insert(key);
    }
}

impl Ownership {
    /// The feed begins anew, on a new connection, and brings all entries again.
    pub fn feed_begins(&mut self) {
        self.feed = Feed {
            is_synced: self.feed.is_synced,
            ..Feed::default()
        };
    }

    /// The feed has brought all entries that there were when it began. Known ones that do not follow soon have vanished.
    pub fn synced(&mut self, now: Moment) {
        if !self.feed.is_whole {
            (self.feed.is_synced, self.feed.is_whole) = (true, true);
            self.feed.due = Some(now + self.timing.answer_within);
            self.unknown_until
                .get_or_insert(now + self.timing.dead_after());
        }
    }

    pub(super) fn miss_entries(&mut self, now: Moment) {
        if self.feed.due.is_none_or(|due| now < due) {
            return;
        }
        self.feed.due = None;
        // What has vanished before, with revision 0, waits already.
        let nodes = self.peers.all().filter(|(_, seen)| seen.revision > 0);
        let nodes = nodes.map(|(node, _)| Key::Node(node));
        let slices = (0..).zip(&self.slices).filter(|(_, h)| h.expected() > 0);
        let known = nodes.chain(slices.map(|(slice, _)| Key::Slice(slice)));
        let vanished: Vec<Key> = known
            .filter(|key| !self.feed.brought.contains(key))
            .collect();
        for key in vanished {
            self.vanished(now, key);
        }
    }

    /// Whether the feed has brought all entries that there were when it began.
    pub fn has_whole_feed(&self) -> bool {
        self.feed.is_whole
    }

    /// Whether the feed has brought a node's entry since it began.
    pub fn has_nodes(&self) -> bool {
        let is_node = |key: &Key| matches!(key, Key::Node(_));
        self.feed.brought.iter().any(is_node)
    }

    pub(super) fn vanished(&mut self, now: Moment, key: Key) {
        match key {
            Key::Node(node) => self.unknown(now, node, 0),
            Key::Slice(slice) => {
                if let Some(holding) = self.slices.get_mut(slice as usize) {
                    holding.vanish();
                    self.unknown_until = Some(now + self.timing.dead_after());
                }
            }
        }
    }

    /// The entry of a node that owns slices may have vanished before this node knew it.
    pub(super) fn miss_owners(&mut self, now: Moment) {
        let owners = self.slices.iter().filter_map(|h| Some(h.entry?.owner));
        let missing: BTreeSet<NodeId> = owners
            .filter(|owner| self.peers.get(*owner).is_none())
            .collect();
        for owner in missing {
            self.unknown(now, owner, 0);
        }
    }

    /// The engine's feed brings an entry that is malformed, or of another cluster or version, or a removal: only the revision is
    /// known. If it is a node's, that node's lease may still run, so the node counts as alive until it has been silent for as long
    /// as any other. This node's own life ends with its entry, and a slice stays its owner's, who writes the entry again.
    pub fn unreadable(&mut self, now: Moment, key: Key, revision: Revision) {
        self.feed.bring(key);
        match key {
            Key::Node(node) => {
                let seen = self.peers.get(node);
                if seen.is_some_and(|seen| seen.revision >= revision) {
                    return;
                }
                self.unknown(now, node, revision);
            }
            Key::Slice(slice) => {
                let holding = self.slices.get_mut(slice as usize);
                if holding.is_some_and(|h| h.note_unreadable(revision)) {
                    self.unknown_until = Some(now + self.timing.dead_after());
                }
            }
        }
        self.answers.heard(key, revision);
    }

    /// What a node's entry says now is unknown. A write that replaces it has to expect this revision.
    fn unknown(&mut self, now: Moment, node: NodeId, revision: Revision) {
        let unknown = NodeEntry {
            life: 0,
            renewal: 0,
            is_alive: true,
        };
        let last = self.peers.get(node).map_or(unknown, |seen| seen.entry);
        let is_me = node == self.me;
        let entry = match is_me {
            true => unknown,
            // One that was dead may have joined again before its entry was lost.
            false => NodeEntry {
                is_alive: true,
                ..last
            },
        };
        self.peers.lose(now, node, revision, entry);
        if is_me && self.life.is_some() {
            (self.life, self.lease) = (None, Lease::new());
        }
    }
}
