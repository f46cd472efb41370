// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which slices this node owns, and what it writes to the engine to get them, to keep them and to hand them over.
//!
//! observed, accepted (what the engine says) ─► poll (what is to be written) ─► acquiring, ready (bindings of the owner
//! before are installed) ─► may_open (for each new binding) ─► closing, hand_over

mod answers;
mod feed;
mod holding;
mod plan;
#[cfg(test)]
mod tests;
mod turns;

use crate::entry::{Key, NodeEntry, NodeId, SliceEntry, Value};
use crate::lease::Lease;
use crate::peers::Peers;
use crate::slice::SliceId;
use crate::timing::Timing;
use crate::{Moment, Revision};

use answers::Answers;
use feed::Feed;
use holding::Holding;
pub use holding::{Acquisition, Standing, Title};

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

impl Write {
    /// What it writes of a slice, and over which revision.
    fn of_slice(&self) -> Option<(SliceEntry, Revision)> {
        match self.value {
            Value::Slice(entry) => Some((entry, self.expected)),
            Value::Node(_) => None,
        }
    }
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
    /// Writes that were not accepted.
    answers: Answers,
    feed: Feed,
    /// Slices of which no entry is known, or whose entry is lost, may have owners whose leases end by then. `None`: nothing is
    /// known yet.
    unknown_until: Option<Moment>,
    is_leaving: bool,
    /// At this revision of the node's own entry nothing is opened or claimed: a write that ends the life may be on its way, and
    /// cannot be recalled.
    ending_at: Option<Revision>,
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
            answers: Answers::default(),
            feed: Feed::default(),
            unknown_until: None,
            is_leaving: false,
            ending_at: None,
        }
    }

    /// The engine's feed says that an entry has this value. Entries of strangers are not given here. The feed has to be in the
    /// order of revisions; what it repeats changes nothing.
    pub fn observed(&mut self, now: Moment, key: Key, revision: Revision, value: Value) {
        self.feed.bring(key);
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
                    let own = self.answers.of(key).and_then(|own| own.of_slice());
                    holding.note(revision, entry, own);
                }
            }
            _ => {}
        }
        self.answers.heard(key, revision);
    }

    /// The engine has accepted a write, as this revision.
    pub fn accepted(&mut self, now: Moment, write: Write, revision: Revision) {
        self.observed(now, write.key, revision, write.value);
    }

    /// Whether a binding may be opened in a slice now.
    pub fn may_open(&self, now: Moment, slice: SliceId) -> bool {
        let is_open = |h: &Holding| self.is_open(h);
        self.may_act(now) && self.slices.get(slice as usize).is_some_and(is_open)
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

    /// Slices that this node owns, and in which it may not open anything yet: what the owners before have said of their
    /// bindings has to be read and installed first. None without a lease: the slice may be another node's by now.
    pub fn acquiring(&self, now: Moment) -> impl Iterator<Item = (SliceId, Acquisition)> + '_ {
        let may_act = self.may_act(now);
        let mine = (0..)
            .zip(&self.slices)
            .filter(move |(_, h)| may_act && self.is_mine(h));
        mine.filter_map(|(slice, h)| Some((slice, h.acquisition()?)))
    }

    /// All bindings of a slice that this node acquires are installed. `false`: the entry has another revision by now, so that
    /// the slice is another node's, or there may be more to read.
    pub fn ready(&mut self, slice: SliceId, revision: Revision) -> bool {
        let is_mine = |h: &Holding| self.is_mine(h) && h.revision == revision;
        let is_it = self.slices.get(slice as usize).is_some_and(is_mine);
        if is_it {
            self.slices[slice as usize].install();
        }
        is_it
    }

    /// As what this node is about to speak of a slice that it acquires: what it says now marks the end of what others have said.
    pub fn coming_title(&self, slice: SliceId) -> Option<Title> {
        let holding = self.slices.get(slice as usize)?;
        let title = Title {
            life: self.life?,
            revision: holding.revision,
        };
        self.is_mine(holding).then_some(title)
    }

    /// As what this node speaks of the bindings of a slice; `None`: it does not own the slice, has not installed the bindings
    /// of the owners before, or its lease has ended.
    pub fn title(&self, now: Moment, slice: SliceId) -> Option<Title> {
        let holding = self.slices.get(slice as usize)?;
        let speaks = self.lease.runs(now) && self.is_mine(holding) && holding.is_installed();
        speaks.then_some(Title {
            life: self.life?,
            revision: holding.revision,
        })
    }

    /// What a message about the bindings of a slice counts for.
    pub fn standing(&self, slice: SliceId, node: NodeId, title: Title) -> Standing {
        let Some(holding) = self.slices.get(slice as usize) else {
            return Standing::Stranger;
        };
        match node == self.me && Some(title.life) == self.life {
            true => Standing::Myself,
            false => holding.standing(node, title),
        }
    }

    /// Slices that this node owns and opens nothing in any more. The caller gives their bindings to the stream and then calls
    /// [`Ownership::hand_over`].
    pub fn closing(&self) -> impl Iterator<Item = SliceId> + '_ {
        let mine = (0..).zip(&self.slices).filter(|(_, h)| self.is_mine(h));
        mine.filter(|(_, h)| h.is_closed()).map(|(slice, _)| slice)
    }

    /// All bindings of a closing slice are in the stream, the last of them in its message `through`: the write that gives the
    /// slice to the node that should have it. `None`: no other node is alive, or an earlier write about the slice has no answer
    /// yet.
    pub fn hand_over(&mut self, now: Moment, slice: SliceId, through: u64) -> Option<Write> {
        let holding = self.slices.get(slice as usize).copied()?;
        if !self.is_mine(&holding) || !holding.is_closed() {
            return None;
        }
        let heir = self.heir(slice)?;
        let life = self.peers.get(heir)?.entry.life;
        let entry = SliceEntry {
            owner: heir,
            life,
            through,
        };
        self.write(
            now,
            Key::Slice(slice),
            Value::Slice(entry),
            holding.revision,
        )
    }

    /// What is to be written now. `random`: a number that no life has had, in case the node joins.
    pub fn poll(&mut self, now: Moment, random: u64) -> Vec<Write> {
        self.end_waits(now);
        if !self.feed.is_synced {
            return Vec::new();
        }
        self.miss_entries(now);
        self.miss_owners(now);
        let mut writes = Vec::new();
        writes.extend(match self.life {
            Some(life) => self.renew_or_leave(now, life),
            None if self.is_leaving => None,
            None => self.join(now, random),
        });
        writes.extend(self.bury(now));
        if self.may_act(now) {
            self.close_slices(now);
            if self.feed.is_whole {
                writes.extend(self.claim(now));
            }
        }
        writes
    }

    /// When [`Ownership::poll`] has something to do if nothing is heard of the engine meanwhile.
    pub fn next_due(&self, now: Moment) -> Moment {
        let answers = self.answers.due(self.timing.answer_within);
        let renewal = self
            .lease
            .last_sent()
            .map(|at| at + self.timing.renew_every);
        let silence = self.peers.next_silence(&self.timing);
        let settled = Some(self.peers.unchanged_since() + self.timing.settle);
        let ahead = [
            answers,
            renewal,
            silence,
            settled,
            self.feed.due,
            self.unknown_until,
        ];
        // What is due already waits for an answer, or for the feed.
        let next = ahead.into_iter().flatten().filter(|at| *at > now).min();
        next.unwrap_or(now + self.timing.renew_every)
    }

    /// Whether what the node does as an owner is its own to do: others take over at once what belongs to a life that has ended.
    fn may_act(&self, now: Moment) -> bool {
        let own = self.peers.get(self.me).map(|seen| seen.revision);
        self.lease.runs(now) && (self.ending_at.is_none() || self.ending_at != own)
    }

    fn is_mine(&self, holding: &Holding) -> bool {
        holding.belongs_to(self.me, self.life)
    }

    fn is_open(&self, holding: &Holding) -> bool {
        self.is_mine(holding) && holding.is_installed() && !holding.is_closed()
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
        match self.answers.of(Key::Node(self.me)).map(|write| write.value) {
            Some(Value::Node(new)) => {
                self.lease.ends().is_none() && Some(new.life) == self.life && entry.life != new.life
            }
            _ => false,
        }
    }
}
