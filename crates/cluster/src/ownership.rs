// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which slices this node owns, and what it writes to the engine to get them, to keep them and to hand them over.
//!
//! observed, accepted, refused (what the engine says) ─► poll (what is to be written) ─► may_open (for each new binding)

use std::collections::BTreeMap;

use crate::entry::{Key, NodeEntry, NodeId, SliceEntry, Value};
use crate::lease::Lease;
use crate::peers::{is_silent, Peers};
use crate::preference::preferred;
use crate::slice::SliceId;
use crate::timing::Timing;
use crate::{Moment, Revision};

/// A write to the engine, which accepts it only if `expected` is the revision of the key's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Which entry.
    pub key: Key,
    /// What is written.
    pub value: Value,
    /// The revision of the entry that it replaces; 0: there is no entry.
    pub expected: Revision,
}

/// What is known of one slice.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    entry: Option<SliceEntry>,
    revision: Revision,
    /// At this revision nothing more is opened: a write that gives the slice away may be on its way, and cannot be recalled.
    closed_at: Option<Revision>,
}

/// A node of the cluster, as far as ownership goes.
#[derive(Clone, Debug)]
pub struct Ownership {
    me: NodeId,
    timing: Timing,
    /// This process's life, from the write that joins on.
    life: Option<u64>,
    lease: Lease,
    peers: Peers,
    slices: Vec<Holding>,
    /// Writes without an answer, and when they were sent.
    waiting: BTreeMap<Key, (Write, Moment)>,
    /// All entries have been seen.
    is_synced: bool,
    is_leaving: bool,
}

impl Ownership {
    /// A node that has not joined. `slices`: how many the pool has.
    pub fn new(me: NodeId, slices: usize, timing: Timing) -> Ownership {
        Ownership {
            me,
            timing,
            life: None,
            lease: Lease::new(),
            peers: Peers::default(),
            slices: vec![Holding::default(); slices],
            waiting: BTreeMap::new(),
            is_synced: false,
            is_leaving: false,
        }
    }

    /// The engine's feed says that an entry has this value. Entries of strangers are not given here. The feed has to be in the
    /// order of revisions; what it repeats changes nothing.
    pub fn observed(&mut self, now: Moment, key: Key, revision: Revision, value: Value) {
        match (key, value) {
            (Key::Node(node), Value::Node(entry)) => {
                let is_new = self.peers.note(now, node, revision, entry);
                if is_new && node == self.me {
                    self.heard_of_myself(entry);
                }
            }
            (Key::Slice(slice), Value::Slice(entry)) => {
                // A stranger's entry may name a slice that the pool does not have.
                if let Some(holding) = self.slices.get_mut(slice as usize) {
                    if revision > holding.revision {
                        (holding.entry, holding.revision) = (Some(entry), revision);
                    }
                }
            }
            _ => {}
        }
        if self
            .waiting
            .get(&key)
            .is_some_and(|(write, _)| write.expected < revision)
        {
            self.waiting.remove(&key);
        }
    }

    /// The feed has brought all entries that there were when it began.
    pub fn synced(&mut self) {
        self.is_synced = true;
    }

    /// The engine has accepted a write, as this revision.
    pub fn accepted(&mut self, now: Moment, write: Write, revision: Revision) {
        self.observed(now, write.key, revision, write.value);
    }

    /// The engine has refused a write, because the entry has another revision. The feed brings it.
    pub fn refused(&mut self, write: Write) {
        if self
            .waiting
            .get(&write.key)
            .is_some_and(|(waiting, _)| *waiting == write)
        {
            self.waiting.remove(&write.key);
        }
    }

    /// From now on this node takes no slices and hands over those it has; at the end it leaves.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// The node has left: it has no slices, and the engine knows.
    pub fn has_left(&self) -> bool {
        self.is_leaving && self.life.is_none()
    }

    /// Whether a binding may be opened in a slice now.
    pub fn may_open(&self, now: Moment, slice: SliceId) -> bool {
        self.lease.runs(now)
            && self
                .slices
                .get(slice as usize)
                .is_some_and(|h| self.is_open(h))
    }

    /// When everything has to stop that this node does as an owner, unless a renewal is confirmed before.
    pub fn lease_ends(&self) -> Option<Moment> {
        self.lease.ends()
    }

    /// Who owns a slice: where packets that open bindings in it belong. `None`: nobody, or somebody who is dead.
    pub fn owner(&self, slice: SliceId) -> Option<NodeId> {
        let entry = self.slices.get(slice as usize)?.entry?;
        self.peers
            .lives(entry.owner, entry.life)
            .then_some(entry.owner)
    }

    /// Slices that this node owns and opens nothing in any more. The caller gives their bindings to the stream and then calls
    /// [`Ownership::hand_over`].
    pub fn closing(&self) -> impl Iterator<Item = SliceId> + '_ {
        let mine = (0..).zip(&self.slices).filter(|(_, h)| self.is_mine(h));
        mine.filter(|(_, h)| h.closed_at == Some(h.revision))
            .map(|(slice, _)| slice)
    }

    /// All bindings of a closing slice are in the stream: the write that gives the slice to the node that should have it.
    /// `None`: no other node is alive, or an earlier write about the slice has no answer yet.
    pub fn hand_over(&mut self, now: Moment, slice: SliceId) -> Option<Write> {
        let holding = self.slices.get(slice as usize).copied()?;
        if !self.is_mine(&holding) || holding.closed_at != Some(holding.revision) {
            return None;
        }
        let heir = self.heir(slice)?;
        let life = self.peers.get(heir)?.entry.life;
        let entry = SliceEntry { owner: heir, life };
        self.write(
            now,
            Key::Slice(slice),
            Value::Slice(entry),
            holding.revision,
        )
    }

    /// What is to be written now. `random`: a number that no life has had, in case the node joins.
    pub fn poll(&mut self, now: Moment, random: u64) -> Vec<Write> {
        let answer_within = self.timing.answer_within;
        self.waiting
            .retain(|_, (_, sent)| now.saturating_sub(*sent) < answer_within);
        if !self.is_synced {
            return Vec::new();
        }
        let mut writes = Vec::new();
        writes.extend(match self.life {
            Some(life) => self.renew_or_leave(now, life),
            None if self.is_leaving => None,
            None => self.join(now, random),
        });
        writes.extend(self.bury(now));
        if self.lease.runs(now) {
            self.close_slices(now);
            writes.extend(self.claim(now));
        }
        writes
    }

    /// When [`Ownership::poll`] has something to do if nothing is heard of the engine meanwhile.
    pub fn next_due(&self, now: Moment) -> Moment {
        let answers = self
            .waiting
            .values()
            .map(|(_, sent)| *sent + self.timing.answer_within);
        let renewal = self
            .lease
            .last_sent()
            .map(|at| at + self.timing.renew_every);
        let silence = self.peers.next_silence(&self.timing);
        let settled = Some(self.peers.unchanged_since() + self.timing.settle);
        let ahead = [renewal, silence, settled]
            .into_iter()
            .flatten()
            .chain(answers);
        // What is due already waits for an answer, or for the feed.
        let next = ahead.filter(|at| *at > now).min();
        next.unwrap_or(now + self.timing.renew_every)
    }

    fn is_mine(&self, holding: &Holding) -> bool {
        holding
            .entry
            .is_some_and(|entry| entry.owner == self.me && Some(entry.life) == self.life)
    }

    fn is_open(&self, holding: &Holding) -> bool {
        self.is_mine(holding) && holding.closed_at != Some(holding.revision)
    }

    /// The node's own entry has changed: a renewal is confirmed, or somebody has taken this life for dead.
    fn heard_of_myself(&mut self, entry: NodeEntry) {
        if Some(entry.life) == self.life && entry.is_alive {
            self.lease.confirm(entry.renewal, &self.timing);
        } else if self.life.is_some() && !self.is_joining(entry) {
            // With the lease, the life and all that belonged to it are gone.
            (self.life, self.lease) = (None, Lease::new());
        }
    }

    /// An entry that the write that joins is to replace says nothing about the new life.
    fn is_joining(&self, entry: NodeEntry) -> bool {
        let waiting = self
            .waiting
            .get(&Key::Node(self.me))
            .map(|(write, _)| write.value);
        match waiting {
            Some(Value::Node(new)) => {
                self.lease.ends().is_none() && Some(new.life) == self.life && entry.life != new.life
            }
            _ => false,
        }
    }

    fn renew_or_leave(&mut self, now: Moment, life: u64) -> Option<Write> {
        let own = Key::Node(self.me);
        if self.waiting.contains_key(&own) {
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
    fn join(&mut self, now: Moment, random: u64) -> Option<Write> {
        let own = self.peers.get(self.me);
        let may = own.is_none_or(|seen| !seen.entry.is_alive || is_silent(now, seen, &self.timing));
        let is_new = own.is_none_or(|seen| seen.entry.life != random);
        let expected = own.map_or(0, |seen| seen.revision);
        if !may || !is_new || self.waiting.contains_key(&Key::Node(self.me)) {
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
    fn bury(&mut self, now: Moment) -> Vec<Write> {
        let silent = self.peers.silent(now, &self.timing);
        let others: Vec<_> = silent.filter(|(node, _)| *node != self.me).collect();
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
    fn heir(&self, slice: SliceId) -> Option<NodeId> {
        let nodes = self.peers.alive().map(|(node, _)| node);
        preferred(
            slice,
            nodes.filter(|&node| node != self.me || !self.is_leaving),
        )
    }

    /// Opens nothing more in slices that another node should have, once nodes have ceased to come and go.
    fn close_slices(&mut self, now: Moment) {
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
            holding.closed_at = Some(holding.revision);
        }
    }

    /// Claims slices without a live owner that this node should have.
    fn claim(&mut self, now: Moment) -> Vec<Write> {
        let Some(life) = self.life.filter(|_| !self.is_leaving) else {
            return Vec::new();
        };
        let free = (0..).zip(&self.slices).filter(|(_, holding)| {
            holding
                .entry
                .is_none_or(|entry| !self.peers.lives(entry.owner, entry.life))
        });
        let wanted: Vec<(SliceId, Revision)> = free
            .filter(|(slice, _)| self.heir(*slice) == Some(self.me))
            .map(|(slice, holding)| (slice, holding.revision))
            .collect();
        let entry = Value::Slice(SliceEntry {
            owner: self.me,
            life,
        });
        wanted
            .into_iter()
            .filter_map(|(slice, revision)| self.write(now, Key::Slice(slice), entry, revision))
            .collect()
    }

    /// Notes a write, unless one of that key waits for its answer or too many do.
    fn write(&mut self, now: Moment, key: Key, value: Value, expected: Revision) -> Option<Write> {
        let is_own = key == Key::Node(self.me);
        if self.waiting.contains_key(&key) || (!is_own && self.waiting.len() >= self.timing.at_once)
        {
            return None;
        }
        let write = Write {
            key,
            value,
            expected,
        };
        self.waiting.insert(key, (write, now));
        Some(write)
    }
}
