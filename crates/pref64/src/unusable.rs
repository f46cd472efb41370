// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Known prefixes that cannot be used, each excluded for a time.
//!
//! Neighbours can cause this: a node that defends every address that is probed makes a prefix unusable. So no temporary
//! cause excludes a prefix for long, and nothing excludes it after its last offer is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::known::Moment;

/// First exclusion time of a prefix. It doubles each time after that, …
const FIRST: Duration = Duration::from_secs(60);
/// … up to this limit.
const LONGEST: Duration = Duration::from_secs(900);

/// Why a prefix cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It permanently contradicts the configuration.
    Contradicts,
    /// No address could be claimed in it; that may change.
    Unclaimed,
}

/// The excluded prefixes.
#[derive(Clone, Debug, Default)]
pub struct UnusablePrefixes(BTreeMap<Ipv6Net, Term>);

#[derive(Clone, Copy, Debug)]
struct Term {
    /// End of the exclusion. None: while the prefix is offered.
    until: Option<Moment>,
    length: Duration,
}

impl UnusablePrefixes {
    /// Excludes a prefix.
    pub fn exclude(&mut self, now: Moment, prefix: Ipv6Net, how: Unusable) {
        let before = self.0.get(&prefix).map(|term| term.length);
        let length = before.map_or(FIRST, |length| (2 * length).min(LONGEST));
        let until = match how {
            Unusable::Contradicts => None,
            Unusable::Unclaimed => Some(now + length),
        };
        self.0.insert(prefix, Term { until, length });
    }

    /// Returns true unless the prefix is excluded.
    pub fn admits(&self, now: Moment, prefix: Ipv6Net) -> bool {
        let term = self.0.get(&prefix);
        term.is_none_or(|term| term.until.is_some_and(|until| until <= now))
    }

    /// Records that the prefix was used, which ends its exclusions.
    pub fn worked(&mut self, prefix: Ipv6Net) {
        self.0.remove(&prefix);
    }

    /// Retries the prefixes with a temporary cause.
    pub fn reconsider(&mut self) {
        self.0.retain(|_, term| term.until.is_none());
    }

    /// Removes prefixes that are no longer offered.
    pub fn keep(&mut self, is_known: impl Fn(Ipv6Net) -> bool) {
        self.0.retain(|prefix, _| is_known(*prefix));
    }

    /// The time at which the next exclusion ends.
    pub fn ends_at(&self, now: Moment) -> Option<Moment> {
        let ends = self.0.values().filter_map(|term| term.until);
        ends.filter(|until| *until > now).min()
    }
}
