// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simple model of the counts of a sink: it remembers all sequence numbers that arrived.

use std::collections::{HashMap, HashSet};

/// Sequence numbers that the sink remembers in one word.
const PER_WORD: u64 = 32;

/// Counts of one stream.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    pub received: u64,
    pub duplicate: u64,
    pub reordered: u64,
    pub extent: u64,
    pub late: u64,
    pub forgotten: u64,
    /// Pairs of frames that arrived consecutively and were sent consecutively.
    pub pairs: u64,
    pub next: u64,
}

/// One stream.
#[derive(Default)]
pub struct Model {
    words: u64,
    seen: HashSet<u64>,
    latest_round: HashMap<u64, u64>,
    last: Option<u64>,
    counts: Counts,
}

impl Model {
    /// A model of a sink that remembers `words` words of sequence numbers.
    pub fn new(words: u64) -> Model {
        Model {
            words,
            ..Model::default()
        }
    }

    /// Counts an undamaged frame.
    pub fn receive(&mut self, seq: u64, late: bool) {
        let (slot, round) = (seq / PER_WORD % self.words, seq / PER_WORD / self.words);
        let latest = self.latest_round.entry(slot).or_insert(0);
        let counts = &mut self.counts;
        if round < *latest {
            counts.forgotten += 1;
            return;
        }
        *latest = round;
        if !self.seen.insert(seq) {
            counts.duplicate += 1;
            return;
        }
        counts.received += 1;
        counts.late += u64::from(late);
        if seq < counts.next {
            counts.reordered += 1;
            counts.extent = counts.extent.max(counts.next - seq);
        } else {
            counts.next = seq + 1;
        }
        counts.pairs += u64::from(self.last.is_some_and(|last| last + 1 == seq));
        self.last = Some(seq);
    }

    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }
}
