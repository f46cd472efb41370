// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this node owes the stream: every change of its bindings soon, all bindings again and again, and a snapshot of each slice
//! that it hands over.
//!
//! heard (a change, under the lock of the tables) ─► poll (messages of changes) ─┐
//! wants ─► repeat (a portion of the tables) ────────────────────────────────────┼─► the stream, in this order
//! begin_snapshot ─► snapshot (portions of a closing slice) ─────────────────────┘
//!
//! The caller publishes messages in the order in which it gets them. It gives portions of the tables to [`Publisher::repeat`] and
//! [`Publisher::snapshot`] before the tables change again, so that the
//! stream never has a change before the older state of the same binding.

mod batch;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use diolkos_core::config::nat64::Binding;

use crate::entry::NodeId;
use crate::message::{Change, Kind, Message, MAX_CHANGES, MAX_PARTS};
use crate::ownership::Title;
use crate::slice::SliceId;
use crate::Moment;
use batch::Batch;
use pace::Pace;

/// Who publishes, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Sets clusters apart that use one stream by mistake.
    pub cluster: u64,
    /// This node.
    pub node: NodeId,
    /// How many slices the pool has.
    pub slices: usize,
    /// Most changes that wait.
    pub capacity: usize,
    /// How long a change waits for others at most.
    pub delay: Duration,
    /// In which time all bindings are repeated.
    pub cycle: Duration,
}

/// A message for the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// For the subject of this slice.
    pub slice: SliceId,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// What was published, and what was not.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Changes in messages; repetitions and snapshots not counted.
    pub changes: u64,
    /// Bindings that were published again.
    pub repeated: u64,
    /// Messages of every kind.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Changes that had to make room for later ones.
    pub dropped: u64,
    /// Changes and bindings of slices of which this node has no title to speak.
    pub untitled: u64,
}

/// A change that waits.
#[derive(Clone, Copy, Debug)]
struct Queued {
    /// How many were heard before it.
    number: u64,
    since: Moment,
    slice: SliceId,
    change: Change,
}

/// A snapshot that is being published.
#[derive(Clone, Copy, Debug)]
struct Telling {
    number: u32,
    part: u16,
    /// A part could not be published, so the snapshot gets no end.
    is_void: bool,
}

/// What this node owes the stream.
#[derive(Debug)]
pub struct Publisher {
    settings: Settings,
    queue: VecDeque<Queued>,
    /// Changes that were ever heard.
    heard: u64,
    /// Changes before this one may have been published in a repetition or a snapshot.
    repeated_before: u64,
    /// Changes of each slice that wait.
    waiting: Vec<u32>,
    /// Some slice has as many as a message takes.
    is_full: bool,
    pace: Pace,
    telling: BTreeMap<SliceId, Telling>,
    /// Number of the next snapshot.
    snapshots: u32,
    counters: Counters,
}

impl Publisher {
    /// Allocates all that it needs for changes that wait.
    pub fn new(settings: Settings) -> Publisher {
        Publisher {
            queue: VecDeque::with_capacity(settings.capacity.max(1)),
            heard: 0,
            repeated_before: 0,
            waiting: vec![0; settings.slices],
            is_full: false,
            pace: Pace::new(settings.cycle),
            telling: BTreeMap::new(),
            snapshots: 0,
            counters: Counters::default(),
            settings,
        }
    }

    /// A binding of a slice was opened or closed. Takes the same short time always, and allocates nothing. If too many
    /// changes wait, the oldest one is dropped.
    pub fn heard(&mut self, now: Moment, slice: SliceId, change: Change) {
        let Some(waiting) = self.waiting.get_mut(slice as usize) else {
            return;
        };
        *waiting += 1;
        self.is_full |= *waiting as usize >= MAX_CHANGES;
        if self.queue.len() >= self.settings.capacity.max(1) {
            self.counters.dropped += 1;
            if let Some(dropped) = self.queue.pop_front() {
                self.waiting[dropped.slice as usize] -= 1;
            }
        }
        self.queue.push_back(Queued {
            number: self.heard,
            since: now,
            slice,
            change,
        });
        self.heard += 1;
    }

    /// When [`Publisher::poll`] has something to say if no message fills up before.
    pub fn next_due(&self) -> Option<Moment> {
        let first = self.queue.front()?;
        Some(first.since + self.settings.delay)
    }

    /// Messages of changes that have waited long enough or fill a message, at most `most` of them. If some of these are left,
    /// the next call gives them. `title`: as what this node speaks of a slice ([`crate::Ownership::title`]); without a
    /// title, the changes of the slice are dropped.
    pub fn poll(
        &mut self,
        now: Moment,
        most: usize,
        title: impl Fn(SliceId) -> Option<Title>,
    ) -> Vec<Outgoing> {
        let is_due = self.is_full || self.next_due().is_some_and(|due| due <= now);
        if !is_due || most == 0 {
            return Vec::new();
        }
        let mut batches: BTreeMap<SliceId, Batch> = BTreeMap::new();
        let repeated_before = self.repeated_before;
        // What does not fit into these messages stays, in its order.
        self.queue.retain(|queued| {
            if !batches.contains_key(&queued.slice) && batches.len() == most {
                return true;
            }
            let batch = batches.entry(queued.slice).or_default();
            if !batch.add(queued.change, queued.number < repeated_before) {
                return true;
            }
            self.waiting[queued.slice as usize] -= 1;
            false
        });
        let full = |&waiting: &u32| waiting as usize >= MAX_CHANGES;
        self.is_full = self.is_full && self.waiting.iter().any(full);
        let mut messages = Vec::new();
        for (slice, batch) in batches {
            let changes = batch.changes();
            self.counters.changes += changes.len() as u64;
            if !changes.is_empty() {
                messages.extend(self.say(slice, Kind::Changes, changes, title(slice)));
            }
        }
        messages
    }

    /// How many bindings of its tables, which have `total`, the node has to repeat now. Portions are a sixtieth of the cycle's,
    /// or more if it was not asked for longer.
    pub fn wants(&mut self, now: Moment, total: usize) -> usize {
        self.pace.wants(now, total)
    }

    /// Messages that repeat a portion of the tables.
    pub fn repeat(
        &mut self,
        bindings: impl IntoIterator<Item = (SliceId, Binding)>,
        title: impl Fn(SliceId) -> Option<Title>,
    ) -> Vec<Outgoing> {
        self.note_repeated();
        let mut of_slice: BTreeMap<SliceId, Vec<Change>> = BTreeMap::new();
        for (slice, binding) in bindings {
            of_slice
                .entry(slice)
                .or_default()
                .push(Change::Opened(binding));
        }
        let mut messages = Vec::new();
        for (slice, changes) in of_slice {
            self.counters.repeated += changes.len() as u64;
            for part in changes.chunks(MAX_CHANGES) {
                messages.extend(self.say(slice, Kind::Repetition, part.to_vec(), title(slice)));
            }
        }
        messages
    }

    /// An empty message, by which others know that this node has begun to speak of a slice, so that they listen to no earlier
    /// owner any more.
    pub fn announce(&mut self, slice: SliceId, title: Title) -> Option<Outgoing> {
        self.say(slice, Kind::Repetition, Vec::new(), Some(title))
    }

    /// Forgets the changes of a slice that wait: they are of an earlier ownership, or a snapshot has what came of them. Published
    /// now, they would take back what was told after them.
    pub fn forget(&mut self, slice: SliceId) {
        if let Some(waiting) = self.waiting.get_mut(slice as usize).filter(|n| **n > 0) {
            *waiting = 0;
            self.queue.retain(|queued| queued.slice != slice);
        }
    }

    /// Begins a snapshot of a closing slice; an earlier one of it that has not ended is void. It has all of the changes that wait.
    pub fn begin_snapshot(&mut self, slice: SliceId) {
        self.forget(slice);
        let telling = Telling {
            number: self.snapshots,
            part: 0,
            is_void: false,
        };
        self.snapshots = self.snapshots.wrapping_add(1);
        self.telling.insert(slice, telling);
    }

    /// Messages of a portion of the slice's bindings. `is_last`: there are no more of them, and the snapshot ends. Nothing if none
    /// was begun. A snapshot that lacks a title at any time, or has more parts than one can have, is void and never ends.
    pub fn snapshot(
        &mut self,
        slice: SliceId,
        bindings: impl IntoIterator<Item = Binding>,
        is_last: bool,
        title: Option<Title>,
    ) -> Vec<Outgoing> {
        let Some(mut telling) = self.telling.remove(&slice) else {
            return Vec::new();
        };
        self.note_repeated();
        let changes: Vec<Change> = bindings.into_iter().map(Change::Opened).collect();
        let mut parts: Vec<Vec<Change>> = changes.chunks(MAX_CHANGES).map(<[_]>::to_vec).collect();
        // The last part is published even if it has no bindings: it ends the snapshot.
        if is_last && parts.is_empty() {
            parts.push(Vec::new());
        }
        let (mut messages, count) = (Vec::new(), parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            let kind = Kind::Snapshot {
                number: telling.number,
                part: telling.part,
                is_last: is_last && at + 1 == count,
            };
            telling.is_void |= telling.part == MAX_PARTS;
            let title = title.filter(|_| !telling.is_void);
            let message = self.say(slice, kind, part, title);
            telling.is_void |= message.is_none();
            telling.part += u16::from(!telling.is_void);
            messages.extend(message);
        }
        if !is_last || telling.is_void {
            self.telling.insert(slice, telling);
        }
        messages
    }

    /// Whether every change of a slice was given out, and no snapshot of it has begun without ending. Whether the stream has
    /// them, its acknowledgements tell.
    pub fn is_flushed(&self, slice: SliceId) -> bool {
        let waiting = self.waiting.get(slice as usize).copied().unwrap_or(0);
        waiting == 0 && !self.telling.contains_key(&slice)
    }

    /// For how long the oldest change has been waiting.
    pub fn lag(&self, now: Moment) -> Duration {
        let first = self.queue.front();
        first.map_or(Duration::ZERO, |first| now.saturating_sub(first.since))
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Changes that wait now may already be part of the portion of the tables that was published.
    fn note_repeated(&mut self) {
        self.repeated_before = self.heard;
    }

    fn say(
        &mut self,
        slice: SliceId,
        kind: Kind,
        changes: Vec<Change>,
        title: Option<Title>,
    ) -> Option<Outgoing> {
        let Some(title) = title else {
            self.counters.untitled += changes.len() as u64;
            return None;
        };
        let message = Message {
            slice,
            node: self.settings.node,
            title,
            kind,
            changes,
        };
        let bytes = message.encode(self.settings.cluster);
        self.counters.messages += 1;
        self.counters.bytes += bytes.len() as u64;
        Some(Outgoing { slice, bytes })
    }
}
