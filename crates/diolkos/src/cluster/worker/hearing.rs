// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine says, taken in one event at a time.

use std::time::Duration;

use diolkos_cluster::{Key, Ownership, Value};
use diolkos_engine::{Event, Outcome, Store};
use diolkos_sys::clock::kernel_boottime;

use super::Worker;

/// Why the node does not do its part as it should.
pub(crate) struct Trouble {
    pub(crate) why: String,
    /// The entry that cannot be read. With a readable one the trouble ends.
    entry: Option<Key>,
}

impl From<String> for Trouble {
    fn from(why: String) -> Trouble {
        Trouble { why, entry: None }
    }
}

impl Worker {
    /// Takes in what the engine says. `false`: what follows from it waits for the tick.
    pub(super) fn hear(&mut self, event: Event) -> bool {
        let now = kernel_boottime();
        match event {
            // Messages are many, and nothing but the standby store depends on them.
            Event::Message {
                subject_tail,
                sequence,
                payload,
            } => {
                let (tables, counts) = (&mut self.tables, &mut self.counts);
                tables.hear(&self.ownership, &subject_tail, sequence, &payload, counts);
                return false;
            }
            Event::Entry {
                key,
                value,
                revision,
            } => {
                self.has_news = true;
                return self.entry(now, &key, value.as_deref(), revision);
            }
            Event::Connected { server } => {
                tracing::info!("connected to the cluster's engine at {server}");
                (self.server, self.trouble) = (Some(server), None);
                self.ownership.feed_begins();
                self.is_foreign = false;
            }
            Event::Lost(why) => {
                if self.server.take().is_some() {
                    self.counts.losses += 1;
                }
                tracing::warn!("the cluster's engine: {why}");
                self.trouble = Some(why.into());
            }
            Event::Reset(Store::Bucket) => self.begin_anew(now),
            Event::Reset(Store::Bindings) => self.tables.stream_began_anew(),
            Event::Synced => self.synced(now),
            Event::Answer { token, outcome } => self.answered(now, token, outcome),
            Event::CaughtUp { .. } => self.tables.caught_up(),
            Event::Published { token, outcome } => self.tables.published(token, &outcome),
            // The worker never asks for it: a server that was cut off may report an old one.
            Event::LastSequence { .. } => {}
        }
        self.has_news = true;
        true
    }

    /// The engine has lost its data, and with it all leases, some of which still run. So no node claims a slice before the last of
    /// them has ended, and this node opens nothing more in its slices.
    fn begin_anew(&mut self, now: Duration) {
        tracing::warn!("the cluster's engine has lost its data: joining again");
        self.counts.resets += 1;
        self.writes.clear();
        self.ownership = Ownership::new(self.me, self.slices.len(), self.timing);
        if !self.takes_part || self.is_cut_off {
            self.ownership.leave();
        }
        self.not_before = Some(now + self.timing.dead_after());
    }

    /// As [`Worker::hear`]. A new connection brings an entry for each slice, and nodes renew theirs all the time: these wait.
    fn entry(&mut self, now: Duration, name: &str, value: Option<&[u8]>, revision: u64) -> bool {
        let Some(key) = Key::parse(name) else {
            self.counts.strangers += 1;
            return false;
        };
        match value.and_then(|bytes| Value::decode(key, self.cluster, bytes)) {
            Some(value) => {
                self.trouble.take_if(|trouble| trouble.entry == Some(key));
                self.ownership.observed(now, key, revision, value);
            }
            None => {
                self.counts.strangers += 1;
                let cluster = value.and_then(Value::cluster_of);
                self.is_foreign |= cluster.is_some_and(|cluster| cluster != self.cluster);
                let who = match value {
                    Some(_) => "another cluster or another version has written",
                    None => "somebody has removed, or made too long,",
                };
                let why = format!("{who} the entry {name} of this cluster's bucket");
                if self
                    .trouble
                    .as_ref()
                    .is_none_or(|trouble| trouble.why != why)
                {
                    tracing::warn!("{why}: check that all nodes have the same secret and version");
                    let entry = Some(key);
                    self.trouble = Some(Trouble { why, entry });
                }
                self.ownership.unreadable(now, key, revision);
            }
        }
        matches!(key, Key::Slice(_)) && self.ownership.has_whole_feed()
    }

    fn synced(&mut self, now: Duration) {
        // A bucket without any node may be one that has just lost its data.
        if !self.ownership.has_nodes() && self.not_before.is_none() {
            self.not_before = Some(now + self.timing.dead_after());
        }
        self.ownership.synced(now);
    }

    fn answered(&mut self, now: Duration, token: u64, outcome: Outcome) {
        let Some(write) = self.writes.remove(&token) else {
            return;
        };
        match outcome {
            Outcome::Accepted(revision) => self.ownership.accepted(now, write, revision),
            Outcome::Refused => {
                self.counts.refused_writes += 1;
                self.ownership.refused(write);
            }
            // It may have been accepted: the feed tells, or its time ends.
            Outcome::Failed(why) => tracing::debug!("a write to the cluster's engine: {why}"),
        }
    }
}
