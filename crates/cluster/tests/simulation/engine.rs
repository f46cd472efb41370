// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine: entries with revisions, compare-and-set, a feed of all changes in their order, and a stream of messages about
//! bindings. It loses nothing; messages to and from it do.

use std::collections::BTreeMap;

use diolkos_cluster::publisher::Outgoing;
use diolkos_cluster::{Key, Revision, Value, Write};

#[derive(Default, Debug)]
pub struct Engine {
    entries: BTreeMap<Key, (Revision, Option<Value>)>,
    /// The last change of each entry; the place of one is its revision less one. Without a value: the mark of a removal.
    pub feed: Vec<Option<(Key, Option<Value>)>>,
    /// Every message about bindings; the place of one is its sequence less one.
    pub stream: Vec<Outgoing>,
}

impl Engine {
    /// The revision of the write, if it is accepted.
    pub fn apply(&mut self, write: &Write) -> Option<Revision> {
        let current = self
            .entries
            .get(&write.key)
            .map_or(0, |(revision, _)| *revision);
        if current != write.expected {
            return None;
        }
        Some(self.put(write.key, Some(write.value)))
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Revision {
        if let Some((revision, _)) = self.entries.get(&key) {
            self.feed[*revision as usize - 1] = None;
        }
        self.feed.push(Some((key, value)));
        let revision = self.feed.len() as Revision;
        self.entries.insert(key, (revision, value));
        revision
    }

    /// Somebody removes an entry, and a mark stands in its place.
    pub fn remove(&mut self, key: Key) {
        self.put(key, None);
    }

    /// Somebody purges an entry from the stream itself, and no change tells of it.
    pub fn purge(&mut self, key: Key) {
        if let Some((revision, _)) = self.entries.remove(&key) {
            self.feed[revision as usize - 1] = None;
        }
    }

    /// The sequence of a message that is added to the stream.
    pub fn publish(&mut self, message: Outgoing) -> u64 {
        self.stream.push(message);
        self.stream.len() as u64
    }

    /// The last message of the stream.
    pub fn last(&self) -> &Outgoing {
        self.stream.last().expect("there are messages")
    }

    pub fn get(&self, key: Key) -> Option<&Value> {
        self.entries.get(&key).and_then(|(_, value)| value.as_ref())
    }
}
