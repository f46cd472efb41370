// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a node writes to the engine: that it lives or leaves, that others are dead, and which slices it claims.

use std::collections::BTreeMap;

use super::holding::Holding;
use super::{Ownership, Write};
use crate::entry::{Key, NodeEntry, NodeId, SliceEntry, Value};
use crate::lease::Lease;
use crate::peers::{is_silent, Seen};
use crate::preference::preferred;
use crate::slice::SliceId;
use crate::{Moment, Revision};

impl Ownership {
    pub(super) fn renew_or_leave(&mut self, now: Moment, life: u64) -> Option<Write> {
        let own = Key::Node(self.me);
        if self.answers.of(own).is_some() {
            return None;
        }
        if self.lease.ends().is_none() {
            // The write that joins was refused or got no answer, and may still be accepted. So another life begins.
            (self.life, self.lease) = (None, Lease::new());
            return None;
        }
        let leaves = self.is_leaving && self.has_nothing_to_hand_over();
        let is_due = self
            .lease
            .last_sent()
            .is_none_or(|last| now.saturating_sub(last) >= self.timing.renew_every);
        if !leaves && !is_due {
            return None;
        }
        let expected = self.peers.get(self.me)?.revision;
        let entry = NodeEntry {
            life,
            renewal: self.lease.send(now),
            is_alive: !leaves,
        };
        if leaves {
            self.ending_at = Some(expected);
        }
        self.write(now, own, Value::Node(entry), expected)
    }

    /// All slices are closed, and this node owns none of them or no other node is alive.
    fn has_nothing_to_hand_over(&self) -> bool {
        let alone = self.peers.alive().all(|(node, _)| node == self.me);
        let mut mine = self.slices.iter().filter(|holding| self.is_mine(holding));
        match alone {
            true => !mine.any(|holding| self.is_open(holding)),
            false => mine.next().is_none(),
        }
    }

    /// A new life begins if there was none, or the last one has ended or is silent for as long as any other node's.
    pub(super) fn join(&mut self, now: Moment, random: u64) -> Option<Write> {
        let own = self.peers.get(self.me);
        let may = own.is_none_or(|seen| !seen.entry.is_alive || is_silent(now, seen, &self.timing));
        let is_new = own.is_none_or(|seen| seen.entry.life != random);
        let expected = own.map_or(0, |seen| seen.revision);
        if !may || !is_new || self.answers.of(Key::Node(self.me)).is_some() {
            return None;
        }
        (self.life, self.lease) = (Some(random), Lease::new());
        let entry = NodeEntry {
            life: random,
            renewal: self.lease.send(now),
            is_alive: true,
        };
        self.write(now, Key::Node(self.me), Value::Node(entry), expected)
    }

    /// Writes of silent nodes that they are dead, so that what was theirs can be claimed.
    pub(super) fn bury(&mut self, now: Moment) -> Vec<Write> {
        let silent = self.peers.silent(now, &self.timing);
        let mut others: BTreeMap<NodeId, Seen> = silent.collect();
        // A dead node that a later entry of a slice names in another life: if it has not joined again, the new entry is later still.
        // The feed may have yet to bring the entry of one that has.
        let known = self.slices.iter().filter(|_| self.feed.is_whole);
        let named = known.filter_map(|h| Some((h.entry?, h)));
        for (entry, holding) in named {
            let Some(seen) = self.peers.get(entry.owner) else {
                continue;
            };
            let has_ended = self
                .peers
                .has_ended(entry.owner, entry.life, holding.revision);
            if !seen.entry.is_alive && !has_ended {
                others.insert(entry.owner, *seen);
            }
        }
        others.remove(&self.me);
        let mut writes = Vec::new();
        for (node, seen) in others {
            let entry = NodeEntry {
                is_alive: false,
                ..seen.entry
            };
            writes.extend(self.write(now, Key::Node(node), Value::Node(entry), seen.revision));
        }
        writes
    }

    /// The one that should have a slice. A node that leaves does not count itself.
    pub(super) fn heir(&self, slice: SliceId) -> Option<NodeId> {
        let nodes = self.peers.known_alive();
        preferred(
            slice,
            nodes.filter(|&node| node != self.me || !self.is_leaving),
        )
    }

    /// Opens nothing more in slices that another node should have, once nodes have ceased to come and go.
    pub(super) fn close_slices(&mut self, now: Moment) {
        let settled = now.saturating_sub(self.peers.unchanged_since()) >= self.timing.settle;
        if !settled && !self.is_leaving {
            return;
        }
        let open = (0..)
            .zip(&self.slices)
            .filter(|(_, holding)| self.is_open(holding));
        let given = open.filter(|(slice, _)| self.heir(*slice) != Some(self.me));
        let given: Vec<SliceId> = given.map(|(slice, _)| slice).collect();
        // Without an heir all are closed at once: the node leaves alone.
        let at_once = match given.first().map(|&slice| self.heir(slice)) {
            Some(None) => usize::MAX,
            _ => self.timing.at_once.saturating_sub(self.closing().count()),
        };
        for slice in given.into_iter().take(at_once) {
            let holding = &mut self.slices[slice as usize];
            holding.close();
        }
    }

    /// Claims slices without a live owner that this node should have, and those of its own whose entries somebody has removed:
    /// while it lives, no other node that knew them would.
    pub(super) fn claim(&mut self, now: Moment) -> Vec<Write> {
        let Some(life) = self.life.filter(|_| !self.is_leaving) else {
            return Vec::new();
        };
        let is_lost = |h: &Holding| h.is_lost() && h.last_belonged_to(self.me, self.life);
        // Of an entry that is lost, another owner may have come in between.
        let is_waited_for = self.unknown_until.is_some_and(|end| now >= end);
        let is_free = |h: &Holding| {
            let has_ended =
                |entry: SliceEntry| self.peers.has_ended(entry.owner, entry.life, h.revision);
            match h.entry {
                Some(entry) => has_ended(entry) && (!h.is_lost() || is_waited_for),
                None => is_waited_for,
            }
        };
        let wanted: Vec<(SliceId, Revision)> = (0..)
            .zip(&self.slices)
            .filter(|(slice, h)| is_lost(h) || (is_free(h) && self.heir(*slice) == Some(self.me)))
            .map(|(slice, holding)| (slice, holding.expected()))
            .collect();
        let entry = Value::Slice(SliceEntry {
            owner: self.me,
            life,
            through: 0,
        });
        wanted
            .into_iter()
            .filter_map(|(slice, revision)| self.write(now, Key::Slice(slice), entry, revision))
            .collect()
    }

    /// Notes a write, unless one of that key waits for its answer or too many do.
    pub(super) fn write(
        &mut self,
        now: Moment,
        key: Key,
        value: Value,
        expected: Revision,
    ) -> Option<Write> {
        let is_own = key == Key::Node(self.me);
        if self.answers.of(key).is_some() || (!is_own && self.answers.len() >= self.timing.at_once)
        {
            return None;
        }
        let write = Write {
            key,
            value,
            expected,
        };
        self.answers.send(now, write);
        Some(write)
    }
}
