// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine: entries with revisions, compare-and-set, and a feed of all changes in their order. It loses nothing; messages to
//! and from it do.

use std::collections::BTreeMap;

use diolkos_cluster::{Key, Revision, Value, Write};

#[derive(Default, Debug)]
pub struct Engine {
    entries: BTreeMap<Key, (Revision, Value)>,
    /// Every change there ever was; the place of one is its revision less one.
    pub feed: Vec<(Key, Value)>,
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
        self.feed.push((write.key, write.value));
        let revision = self.feed.len() as Revision;
        self.entries.insert(write.key, (revision, write.value));
        Some(revision)
    }

    pub fn get(&self, key: Key) -> Option<&Value> {
        self.entries.get(&key).map(|(_, value)| value)
    }
}
