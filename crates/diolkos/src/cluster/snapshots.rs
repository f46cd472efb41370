// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snapshots of slices that are handed over, on their way to the servers: begin ─► part, sent, answered ─► stored.
//!
//! A snapshot of which a part was not stored is void, and another one of the slice begins. Parts of the void one may still wait to be
//! sent then: they belong to no other snapshot, and are not sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diolkos_core::slice::SliceId;

/// Before a snapshot that was not stored is published again.
const RETRY: Duration = Duration::from_millis(200);

/// A part: of which slice, and of which of all snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    slice: SliceId,
    number: u64,
}

#[derive(Debug)]
struct Snapshot {
    number: u64,
    begun: Duration,
    /// Parts that the stream has yet to acknowledge.
    waiting: BTreeSet<u64>,
    /// Parts that were not sent yet.
    unsent: usize,
    /// The last part in the stream.
    through: u64,
    has_failed: bool,
}

/// One of each slice at the most.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    of: BTreeMap<SliceId, Snapshot>,
    begun: u64,
}

impl Snapshots {
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub fn clear(&mut self) {
        self.of.clear();
    }

    pub fn is_of(&self, slice: SliceId) -> bool {
        self.of.contains_key(&slice)
    }

    /// Forgets those of other slices, and those that have failed and may begin again.
    pub fn keep(&mut self, closing: &[SliceId], now: Duration) {
        let is_over = |snapshot: &Snapshot| {
            snapshot.has_failed && now.saturating_sub(snapshot.begun) >= RETRY
        };
        self.of
            .retain(|slice, snapshot| closing.contains(slice) && !is_over(snapshot));
    }

    pub fn begin(&mut self, slice: SliceId, now: Duration) {
        self.begun += 1;
        let snapshot = Snapshot {
            number: self.begun,
            begun: now,
            waiting: BTreeSet::new(),
            unsent: 0,
            through: 0,
            has_failed: false,
        };
        self.of.insert(slice, snapshot);
    }

    /// Another part of the slice's snapshot will be sent.
    pub fn part(&mut self, slice: SliceId) -> Option<Part> {
        let snapshot = self.of.get_mut(&slice)?;
        snapshot.unsent += 1;
        let number = snapshot.number;
        Some(Part { slice, number })
    }

    /// The slice's snapshot cannot be completed.
    pub fn fail(&mut self, slice: SliceId) {
        if let Some(snapshot) = self.of.get_mut(&slice) {
            snapshot.has_failed = true;
        }
    }

    /// Whether a part belongs to a snapshot that is still to be published.
    pub fn wants(&self, part: Part) -> bool {
        self.of
            .get(&part.slice)
            .is_some_and(|snapshot| snapshot.number == part.number)
    }

    pub fn sent(&mut self, part: Part, token: u64) {
        if let Some(snapshot) = self.of_part(part) {
            snapshot.unsent -= 1;
            snapshot.waiting.insert(token);
        }
    }

    /// The servers have answered: where they have stored the part, or that they have not.
    pub fn answered(&mut self, part: Part, token: u64, stored: Option<u64>) {
        let Some(snapshot) = self.of_part(part) else {
            return;
        };
        snapshot.waiting.remove(&token);
        match stored {
            Some(sequence) => snapshot.through = snapshot.through.max(sequence),
            None => snapshot.has_failed = true,
        }
    }

    /// Slices whose snapshot the stream has whole, with the sequence of its last message.
    pub fn stored(&self) -> Vec<(SliceId, u64)> {
        let is_stored = |snapshot: &Snapshot| {
            snapshot.unsent == 0 && snapshot.waiting.is_empty() && !snapshot.has_failed
        };
        let stored = self.of.iter().filter(|(_, snapshot)| is_stored(snapshot));
        stored
            .map(|(slice, snapshot)| (*slice, snapshot.through))
            .collect()
    }

    fn of_part(&mut self, part: Part) -> Option<&mut Snapshot> {
        let snapshot = self.of.get_mut(&part.slice)?;
        (snapshot.number == part.number).then_some(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: SliceId = 3;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn begun(snapshots: &mut Snapshots, now: Duration, parts: usize) -> Vec<Part> {
        snapshots.begin(SLICE, now);
        let parts = (0..parts).map(|_| snapshots.part(SLICE));
        parts.collect::<Option<_>>().expect("it has begun")
    }

    #[test]
    fn a_snapshot_is_stored_when_all_of_its_parts_are() {
        let mut snapshots = Snapshots::default();
        let parts = begun(&mut snapshots, at(0), 2);
        snapshots.sent(parts[0], 10);
        snapshots.answered(parts[0], 10, Some(70));
        assert_eq!(snapshots.stored(), [], "one was not sent");
        snapshots.sent(parts[1], 11);
        assert_eq!(snapshots.stored(), [], "one has no answer");
        snapshots.answered(parts[1], 11, Some(69));
        assert_eq!(snapshots.stored(), [(SLICE, 70)]);
        snapshots.keep(&[], at(1));
        assert!(snapshots.is_empty());
    }

    /// Its last parts waited still when the next one began: they are none of the next one's.
    #[test]
    fn parts_of_a_void_snapshot_do_not_count_for_the_next_one() {
        let mut snapshots = Snapshots::default();
        let void = begun(&mut snapshots, at(0), 3);
        snapshots.sent(void[0], 10);
        snapshots.answered(void[0], 10, None);
        snapshots.keep(&[SLICE], at(199));
        assert!(snapshots.is_of(SLICE), "not at once");
        snapshots.keep(&[SLICE], at(200));
        assert!(!snapshots.is_of(SLICE));
        let next = begun(&mut snapshots, at(200), 3);
        assert!(!snapshots.wants(void[1]) && snapshots.wants(next[0]));
        for (part, token) in [(void[1], 11), (void[2], 12), (next[0], 13)] {
            snapshots.sent(part, token);
            snapshots.answered(part, token, Some(token + 60));
        }
        assert_eq!(snapshots.stored(), [], "two were not sent");
        for (part, token) in [(next[1], 14), (next[2], 15)] {
            snapshots.sent(part, token);
            snapshots.answered(part, token, Some(token + 60));
        }
        assert_eq!(snapshots.stored(), [(SLICE, 75)]);
    }
}
