// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes that wait for the engine's answer, and what their refusal shows.
//!
//! A refused write says that the engine has another entry than the one that this node knows, or none. The feed brings another one.
//! It says nothing of an entry that was purged from the stream itself.

use std::collections::BTreeMap;

use super::{Ownership, Write};
use crate::entry::Key;
use crate::{Moment, Revision};

/// A write without an answer, or one that was refused.
#[derive(Clone, Copy, Debug)]
struct Sent {
    write: Write,
    at: Moment,
    is_refused: bool,
}

/// The writes of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// At most one of each key. One that was refused stays for as long as one without an answer: the feed brings the entry
    /// that is there, and without it a repetition would be refused, too.
    waiting: BTreeMap<Key, Sent>,
    /// Keys of refused writes of which the feed has said nothing, and the revisions that they expected.
    doubted: BTreeMap<Key, Revision>,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The write of a key that waits.
    pub(super) fn of(&self, key: Key) -> Option<Write> {
        self.waiting.get(&key).map(|sent| sent.write)
    }

    pub(super) fn send(&mut self, now: Moment, write: Write) {
        let sent = Sent {
            write,
            at: now,
            is_refused: false,
        };
        self.waiting.insert(write.key, sent);
    }

    /// The feed has brought an entry of this revision.
    pub(super) fn heard(&mut self, key: Key, revision: Revision) {
        let is_over = |sent: &Sent| sent.write.expected < revision;
        if self.waiting.get(&key).is_some_and(is_over) {
            self.waiting.remove(&key);
        }
        if self
            .doubted
            .get(&key)
            .is_some_and(|known| *known < revision)
        {
            self.doubted.remove(&key);
        }
    }

    fn refused(&mut self, write: Write) {
        let sent = self.waiting.get_mut(&write.key);
        if let Some(sent) = sent.filter(|sent| sent.write == write) {
            sent.is_refused = true;
        }
    }

    /// Takes out what has waited for too long. Those keys whose entry was refused twice, and of which nothing was heard meanwhile.
    fn expire(&mut self, now: Moment, answer_within: std::time::Duration) -> Vec<Key> {
        let mut silent = Vec::new();
        let doubted = &mut self.doubted;
        self.waiting.retain(|key, sent| {
            let waits = now.saturating_sub(sent.at) < answer_within;
            if !waits && sent.is_refused && sent.write.expected > 0 {
                let before = doubted.insert(*key, sent.write.expected);
                if before == Some(sent.write.expected) {
                    doubted.remove(key);
                    silent.push(*key);
                }
            }
            waits
        });
        silent
    }

    /// When the next write has waited for too long.
    pub(super) fn due(&self, answer_within: std::time::Duration) -> Option<Moment> {
        self.waiting
            .values()
            .map(|sent| sent.at + answer_within)
            .min()
    }
}

impl Ownership {
    /// The engine has refused a write: its key has another revision.
    pub fn refused(&mut self, write: Write) {
        self.answers.refused(write);
    }

    /// Ends the waits that are over. An entry whose replacement was refused twice has vanished, if the feed brings no other one.
    pub(super) fn end_waits(&mut self, now: Moment) {
        for key in self.answers.expire(now, self.timing.answer_within) {
            self.vanished(now, key);
        }
    }
}
