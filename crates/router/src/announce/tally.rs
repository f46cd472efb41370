// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of what was sent and received on all interfaces.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use diolkos_fastpath::{Served, ANSWER_NAMES};

use diolkos_figures::counters::Counter;

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of the speakers; the program has its own.
#[derive(Debug, Default)]
pub struct SpeakerCounters {
    pub probes: Count,
    pub polls: Count,
    pub announcements: Count,
    pub conflicts: Count,
    pub defences: Count,
}

impl SpeakerCounters {
    /// Returns all counters by name, those of the program first.
    pub fn read(&self, served: &Served) -> io::Result<Vec<Counter>> {
        let answers = ANSWER_NAMES.iter().zip(served.counts()?);
        let answers = answers.map(|(name, packets)| (format!("answer.{name}"), packets));
        let own = [
            ("probes", &self.probes),
            ("polls", &self.polls),
            ("announcements", &self.announcements),
            ("conflicts", &self.conflicts),
            ("defences", &self.defences),
        ];
        let own =
            own.map(|(name, count)| (format!("announce.{name}"), count.0.load(Ordering::Relaxed)));
        let counter = |(name, packets)| Counter {
            name,
            packets,
            bytes: None,
        };
        Ok(answers.chain(own).map(counter).collect())
    }
}
