// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast nodes may open sessions (RFC 6888 REQ-5 B): a bucket for each prefix that has state and whose level has a rate.
//!
//! A bucket is the time until which it is in debt: each session adds its interval, and no more than the burst may be owed
//! (the generic cell rate algorithm, ITU-T I.371). Sessions that are lent to the fast path stand beside the debt until they are opened, so that in any
//! period of time no prefix opens more than a burst and its rate, whoever opens them.
//!
//! A bucket lasts as long as the entry of its prefix: while there is a session. Each lives for a minute at least (`check`
//! refuses shorter timeouts, and longer bursts), so a bucket that is made anew would have been empty.

use super::clock::Millis;
use crate::config::{Level, LevelKind, Limits};

/// So many parts of a burst may be lent: one of this many. The rest is for those who have no lease.
const LENT_PART: u64 = 2;

const NANOS: u64 = 1_000_000_000;

/// The buckets of all prefixes, by the numbers of their entries.
#[derive(Debug)]
pub(super) struct Rates {
    /// Nanoseconds of a session, by level; none where the level has no rate.
    intervals: Vec<Option<u64>>,
    /// Nanoseconds that may be owed.
    burst: u64,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    /// Until when it is in debt, in nanoseconds of the clock of the tables.
    owes_until: u64,
    /// Number of sessions that are lent and not opened.
    lent: u32,
}

impl Rates {
    /// Returns none if no level has a rate.
    pub fn of(limits: &Limits, levels: &[Level]) -> Option<Rates> {
        let rate_of = |level: &Level| match level.kind {
            LevelKind::Host => limits.new_sessions_per_host,
            LevelKind::Source => limits.new_sessions_per_source,
            LevelKind::Site => limits.new_sessions_per_site,
        };
        let interval = |level: &Level| rate_of(level).map(|rate| NANOS / u64::from(rate.max(1)));
        let intervals: Vec<_> = levels.iter().map(interval).collect();
        intervals.iter().any(Option::is_some).then(|| Rates {
            intervals,
            burst: u64::from(limits.new_sessions_burst) * NANOS,
            buckets: Vec::new(),
        })
    }

    /// Begins the bucket of a new entry.
    pub fn begin(&mut self, at: u32) {
        let at = at as usize;
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, Bucket::default());
        }
        self.buckets[at] = Bucket::default();
    }

    /// Returns the number of sessions that an entry of a level may open now; none if the level has no rate.
    pub fn left(&self, at: u32, level: u8, now: Millis) -> Option<u64> {
        let (interval, bucket) = self.bucket(at, level)?;
        let owes = bucket.owes_until.saturating_sub(nanos(now));
        let left = self.burst.saturating_sub(owes) / interval;
        Some(left.saturating_sub(bucket.lent.into()))
    }

    /// Returns the number of sessions that may be lent to it now; none if the level has no rate.
    pub fn lendable(&self, at: u32, level: u8, now: Millis) -> Option<u64> {
        let (interval, bucket) = self.bucket(at, level)?;
        let most = self.burst / interval / LENT_PART;
        let left = self.left(at, level, now)?;
        Some(left.min(most.saturating_sub(bucket.lent.into())))
    }

    /// Counts a session that has been opened.
    pub fn spend(&mut self, at: u32, level: u8, now: Millis) {
        let Some(interval) = self.interval(level) else {
            return;
        };
        if let Some(bucket) = self.buckets.get_mut(at as usize) {
            bucket.owes_until = bucket.owes_until.max(nanos(now)) + interval;
        }
    }

    /// Counts sessions that are lent, or lent no longer.
    pub fn lend(&mut self, at: u32, change: i64) {
        if let Some(bucket) = self.buckets.get_mut(at as usize) {
            let lent = i64::from(bucket.lent) + change;
            bucket.lent = lent.clamp(0, u32::MAX.into()) as u32;
        }
    }

    pub fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    fn interval(&self, level: u8) -> Option<u64> {
        *self.intervals.get(usize::from(level))?
    }

    fn bucket(&self, at: u32, level: u8) -> Option<(u64, Bucket)> {
        let interval = self.interval(level)?;
        Some((interval, *self.buckets.get(at as usize)?))
    }
}

fn nanos(at: Millis) -> u64 {
    at * 1_000_000
}
