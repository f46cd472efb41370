// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefixes that are known and cannot be used, each for a term.
//!
//! Neighbours can bring that about: one that defends every address that is tried out bars a prefix. So nothing that may
//! change is held against a prefix for long, and nothing at all once nobody offers the prefix.

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::known::Moment;

/// How long a prefix is passed over at first. Each time after that, it is twice as long, …
const FIRST: Duration = Duration::from_secs(60);
/// … and at most so long.
const LONGEST: Duration = Duration::from_secs(900);

/// Why a prefix cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It contradicts what the operator says, and always will.
    Contradicts,
    /// No address could be had for it; that may change.
    Unclaimed,
}

/// Those that are passed over.
#[derive(Clone, Debug, Default)]
pub struct UnusablePrefixes(BTreeMap<Ipv6Net, Term>);

#[derive(Clone, Copy, Debug)]
struct Term {
    /// None: as long as somebody offers it.
    until: Option<Moment>,
    length: Duration,
}

impl UnusablePrefixes {
    /// Begins a term.
    pub fn exclude(&mut self, now: Moment, prefix: Ipv6Net, how: Unusable) {
        let before = self.0.get(&prefix).map(|term| term.length);
        let length = before.map_or(FIRST, |length| (2 * length).min(LONGEST));
        let until = match how {
            Unusable::Contradicts => None,
            Unusable::Unclaimed => Some(now + length),
        };
        self.0.insert(prefix, Term { until, length });
    }

    /// Can it be used, as far as is known?
    pub fn admits(&self, now: Moment, prefix: Ipv6Net) -> bool {
        let term = self.0.get(&prefix);
        term.is_none_or(|term| term.until.is_some_and(|until| until <= now))
    }

    /// It was used.
    pub fn worked(&mut self, prefix: Ipv6Net) {
        self.0.remove(&prefix);
    }

    /// What may change has perhaps changed.
    pub fn reconsider(&mut self) {
        self.0.retain(|_, term| term.until.is_none());
    }

    /// Forgets those that nobody offers any more.
    pub fn keep(&mut self, is_known: impl Fn(Ipv6Net) -> bool) {
        self.0.retain(|prefix, _| is_known(*prefix));
    }

    /// When the next term ends.
    pub fn ends_at(&self, now: Moment) -> Option<Moment> {
        let ends = self.0.values().filter_map(|term| term.until);
        ends.filter(|until| *until > now).min()
    }
}
