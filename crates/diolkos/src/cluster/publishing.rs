// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this node tells the others of its bindings: tables → publisher → outbox → stream, whose acknowledgements say when a
//! slice may be handed over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diolkos_cluster::publisher::{Outgoing, Publisher, Settings};
use diolkos_cluster::{NodeId, Ownership, Title};
use diolkos_core::config::nat64::Binding;
use diolkos_core::slice::{SliceId, Slices};
use diolkos_core::Nat64;
use diolkos_engine::{Client, Outcome};

use super::changes::Changes;
use super::snapshots::{Part, Snapshots};
use crate::nat64::Controller;

/// Owners repeat all bindings so often.
pub(super) const CYCLE: Duration = Duration::from_secs(60);
/// Changes that wait for the engine: what 100 000 new bindings a second leave in half a second.
const CAPACITY: usize = 1 << 16;
/// How long a change waits for others that fill its message.
const DELAY: Duration = Duration::from_millis(20);
/// Messages that are made at a time, and that wait for the engine's client.
const MESSAGES: usize = 128;
/// Entries of the tables that are read at a time, with packets in between.
const PORTION: usize = 512;
/// Between two repetitions of everything that were due because messages were lost.
const BETWEEN: Duration = Duration::from_secs(10);

/// Why the answer to a message matters.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// It does not: the repetition replaces what gets lost.
    Telling,
    /// The message is part of a slice's snapshot.
    Snapshot(Part),
    /// It marks how far the stream has to be read before the slice is opened.
    Mark(SliceId, u64),
}

/// A message that marks where the stream ended when a slice was claimed.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Of the slice's entry.
    revision: u64,
    /// Where the message is, once the servers have stored it.
    at: Option<u64>,
}

pub struct Publishing {
    controller: Arc<Controller>,
    changes: Changes,
    /// Messages, and what for.
    outbox: VecDeque<(Outgoing, Purpose)>,
    /// Messages without an answer.
    sent: BTreeMap<u64, Purpose>,
    marks: BTreeMap<SliceId, Mark>,
    next_token: u64,
    snapshots: Snapshots,
    /// The revisions as whose owner this node has spoken of slices.
    announced: BTreeMap<SliceId, u64>,
    /// Where the repetition goes on in the tables.
    next: u32,
    /// All bindings are repeated at once, when this moment has come: the stream has lost some.
    repeats_all: Option<Duration>,
    last_repeated_all: Duration,
    failed: u64,
}

impl Publishing {
    pub fn new(
        controller: Arc<Controller>,
        slices: Arc<Slices>,
        cluster: u64,
        node: NodeId,
    ) -> Publishing {
        let publisher = Publisher::new(Settings {
            cluster,
            node,
            slices: slices.len(),
            capacity: CAPACITY,
            delay: DELAY,
            cycle: CYCLE,
        });
        Publishing {
            controller,
            changes: Changes::new(slices, Arc::new(Mutex::new(publisher))),
            outbox: VecDeque::new(),
            sent: BTreeMap::new(),
            marks: BTreeMap::new(),
            next_token: 0,
            snapshots: Snapshots::default(),
            announced: BTreeMap::new(),
            next: 0,
            repeats_all: None,
            last_repeated_all: Duration::ZERO,
            failed: 0,
        }
    }

    pub fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// The stream has lost all that it had.
    pub fn begin_anew(&mut self) {
        self.announced.clear();
        self.snapshots.clear();
        self.marks.clear();
        self.repeats_all = Some(Duration::ZERO);
    }

    /// What became of a message.
    pub fn published(&mut self, token: u64, outcome: &Outcome) {
        let Some(purpose) = self.sent.remove(&token) else {
            return;
        };
        let stored = match outcome {
            Outcome::Accepted(sequence) => Some(*sequence),
            Outcome::Refused | Outcome::Failed(_) => {
                self.failed += 1;
                let due = self.last_repeated_all + BETWEEN;
                self.repeats_all.get_or_insert(due);
                None
            }
        };
        match purpose {
            Purpose::Telling => {}
            Purpose::Mark(slice, revision) => {
                let is_it = |mark: &&mut Mark| mark.revision == revision;
                match (self.marks.get_mut(&slice).filter(is_it), stored) {
                    (Some(mark), Some(_)) => mark.at = stored,
                    (Some(_), None) => drop(self.marks.remove(&slice)),
                    (None, _) => {}
                }
            }
            Purpose::Snapshot(part) => self.snapshots.answered(part, token, stored),
        }
    }

    /// How far the stream has to be read before a slice is opened that this node acquires; `None`: the message that marks it is
    /// on its way.
    pub fn marked(&mut self, slice: SliceId, title: Title) -> Option<u64> {
        match self.marks.get(&slice) {
            Some(mark) if mark.revision == title.revision => mark.at,
            _ => {
                let mark = Mark {
                    revision: title.revision,
                    at: None,
                };
                self.marks.insert(slice, mark);
                let message = self.changes.publisher().announce(slice, title);
                let purpose = Purpose::Mark(slice, title.revision);
                self.outbox
                    .extend(message.map(|message| (message, purpose)));
                None
            }
        }
    }

    /// Whether a snapshot of a closing slice is still on its way to the servers.
    pub fn is_telling(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Tells what is due, while the engine is there: until then, changes wait.
    pub fn publish(&mut self, ownership: &Ownership, now: Duration, client: &Client, looks: bool) {
        if looks {
            self.announce(ownership, now);
        }
        let title = |slice| ownership.title(now, slice);
        if self.outbox.is_empty() {
            let messages = self.changes.publisher().poll(now, MESSAGES, title);
            self.tell(messages);
            self.repeat(ownership, now);
        }
        self.send(client);
    }

    fn tell(&mut self, messages: impl IntoIterator<Item = Outgoing>) {
        let told = messages
            .into_iter()
            .map(|message| (message, Purpose::Telling));
        self.outbox.extend(told);
    }

    /// Tells nodes that still listen to an earlier owner of a slice that it has another one.
    fn announce(&mut self, ownership: &Ownership, now: Duration) {
        for slice in 0..self.changes.slices().len() as SliceId {
            let Some(title) = ownership.title(now, slice) else {
                continue;
            };
            if self.announced.insert(slice, title.revision) != Some(title.revision) {
                let message = self.changes.publisher().announce(slice, title);
                self.tell(message);
            }
        }
    }

    fn repeat(&mut self, ownership: &Ownership, now: Duration) {
        let total = self.controller.counts().bindings as usize;
        let mut wanted = self.changes.publisher().wants(now, total);
        if self.repeats_all.is_some_and(|due| now >= due) {
            (self.repeats_all, self.last_repeated_all) = (None, now);
            (wanted, self.next) = (total, 0);
        }
        let changes = self.changes.clone();
        while wanted > 0 {
            let places = wanted.min(PORTION);
            let next = self.next;
            let (messages, next) = self.controller.look(|nat64: &Nat64| {
                let (views, next) = nat64.state().bindings_from(next, places);
                let shared = views.iter().filter_map(|view| changes.shared(view));
                let title = |slice| ownership.title(now, slice);
                (changes.publisher().repeat(shared, title), next)
            });
            self.tell(messages);
            self.next = next.unwrap_or(0);
            if next.is_none() {
                return;
            }
            wanted -= places;
        }
    }

    /// Tells all bindings of slices that are closing. Returns those that the stream has, with the sequence of the last message.
    pub fn snapshots(
        &mut self,
        ownership: &Ownership,
        now: Duration,
        closing: &[SliceId],
        client: &Client,
    ) -> Vec<(SliceId, u64)> {
        self.snapshots.keep(closing, now);
        let new = closing.iter().copied();
        let new: BTreeSet<SliceId> = new
            .filter(|slice| !self.snapshots.is_of(*slice))
            .filter(|slice| ownership.title(now, *slice).is_some())
            .collect();
        if !new.is_empty() {
            self.begin(ownership, now, &new);
            self.send(client);
        }
        self.snapshots.stored()
    }

    fn begin(&mut self, ownership: &Ownership, now: Duration, new: &BTreeSet<SliceId>) {
        for slice in new {
            self.changes.publisher().begin_snapshot(*slice);
            self.snapshots.begin(*slice, now);
        }
        let changes = self.changes.clone();
        let mut first = Some(0);
        while let Some(next) = first {
            let (messages, after) = self.controller.look(|nat64: &Nat64| {
                let (views, after) = nat64.state().bindings_from(next, PORTION);
                let mut of_slice: BTreeMap<SliceId, Vec<Binding>> = BTreeMap::new();
                for (slice, binding) in views.iter().filter_map(|view| changes.shared(view)) {
                    if new.contains(&slice) {
                        of_slice.entry(slice).or_default().push(binding);
                    }
                }
                let told = of_slice.into_iter().flat_map(|(slice, bindings)| {
                    let title = ownership.title(now, slice);
                    changes.publisher().snapshot(slice, bindings, false, title)
                });
                (told.collect::<Vec<_>>(), after)
            });
            messages
                .into_iter()
                .for_each(|message| self.put_snapshot(message));
            first = after;
        }
        for slice in new {
            let title = ownership.title(now, *slice);
            let last = self.changes.publisher().snapshot(*slice, [], true, title);
            if last.is_empty() {
                self.snapshots.fail(*slice);
            }
            last.into_iter()
                .for_each(|message| self.put_snapshot(message));
        }
    }

    fn put_snapshot(&mut self, message: Outgoing) {
        if let Some(part) = self.snapshots.part(message.slice) {
            self.outbox.push_back((message, Purpose::Snapshot(part)));
        }
    }

    /// Gives the client as many messages as it takes; the others wait.
    pub fn send(&mut self, client: &Client) {
        while let Some((message, purpose)) = self.outbox.pop_front() {
            if matches!(purpose, Purpose::Snapshot(part) if !self.snapshots.wants(part)) {
                continue;
            }
            let token = self.next_token;
            let subject = message.slice.to_string();
            let sent = client.publish(token, &subject, message.bytes.clone());
            if sent.is_err() {
                self.outbox.push_front((message, purpose));
                return;
            }
            self.next_token += 1;
            self.sent.insert(token, purpose);
            if let Purpose::Snapshot(part) = purpose {
                self.snapshots.sent(part, token);
            }
        }
    }

    pub fn lag(&self, now: Duration) -> Duration {
        self.changes.publisher().lag(now)
    }

    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let counters = self.changes.publisher().counters();
        vec![
            ("published_changes", counters.changes),
            ("published_repetitions", counters.repeated),
            ("published_messages", counters.messages),
            ("published_bytes", counters.bytes),
            ("publish_failed", self.failed),
            ("publish_dropped", counters.dropped),
        ]
    }
}
