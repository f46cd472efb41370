// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fate of packets under the law, and the number of packets of each.

use std::collections::BTreeMap;

/// What the fast path did with a packet without breaking the law.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    Translated,
    /// Left to the slow path, for the reason of this name.
    Declined(&'static str),
    /// Dropped, for the reason of this name.
    Dropped(&'static str),
    /// Not for the translator.
    PassedBy,
    /// Longer or shorter than the kernel accepts for a test run.
    NotRun,
}

/// The number of packets of each fate.
#[derive(Default)]
pub struct FateCounts(BTreeMap<Fate, usize>);

impl FateCounts {
    pub fn add(&mut self, fate: Fate) {
        *self.0.entry(fate).or_default() += 1;
    }

    pub fn merge(&mut self, other: &FateCounts) {
        for (&fate, count) in &other.0 {
            *self.0.entry(fate).or_default() += count;
        }
    }

    pub fn of(&self, fate: Fate) -> usize {
        self.0.get(&fate).copied().unwrap_or_default()
    }

    pub fn all(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns the fraction that was translated, 0 to 1.
    pub fn translated(&self) -> f64 {
        self.of(Fate::Translated) as f64 / self.all().max(1) as f64
    }
}

impl std::fmt::Display for FateCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (fate, count) in &self.0 {
            writeln!(f, "{count:9} {fate:?}")?;
        }
        Ok(())
    }
}
