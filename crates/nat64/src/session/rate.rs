// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast nodes may open sessions (RFC 6888 REQ-5 B): a bucket for each prefix that has state and whose level has a rate.
//!
//! A bucket leaks at the rate of its level; each session that is opened adds one, and it holds no more than the burst. Sessions that
//! are lent to the fast path stand beside its level until they are opened, so that in any period of time no prefix opens more than
//! a burst and its rate, by the controller and by programs together.
//!
//! A bucket lasts as long as the entry of its prefix: while there is a session. Each lives for a minute at least (`check`
//! refuses shorter timeouts, and longer bursts), so a bucket that is made anew would have been empty.

use super::clock::Millis;
use crate::config::{Level, LevelKind, Limits};

/// So many parts of a burst may be lent: one of this many. The rest is for those who have no lease.
const LENT_PART: u64 = 2;
/// Units of a session in a bucket, and nanoseconds in a second: a rate of one leaks a unit in a nanosecond.
const UNITS: u64 = 1_000_000_000;
const UNITS_A_MILLISECOND: u64 = UNITS / 1000;

/// The buckets of all prefixes, by the numbers of their entries.
#[derive(Debug)]
pub(super) struct Rates {
    /// Sessions a second, by level; none where the level has no rate.
    of_level: Vec<Option<u64>>,
    /// Seconds of a rate that a bucket holds.
    burst: u64,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    /// Its level at the time `at`, in [`UNITS`].
    level: u64,
    at: Millis,
    /// Number of sessions that are lent and not opened.
    lent: u32,
}

impl Bucket {
    fn level(&self, rate: u64, now: Millis) -> u64 {
        let since = now.saturating_sub(self.at);
        let leaked = since.saturating_mul(rate.saturating_mul(UNITS_A_MILLISECOND));
        self.level.saturating_sub(leaked)
    }
}

impl Rates {
    /// Returns none if no level has a rate. The rate of sites is that of the narrowest.
    pub fn of(limits: &Limits, levels: &[Level]) -> Option<Rates> {
        let site = levels
            .iter()
            .rposition(|level| level.kind == LevelKind::Site);
        let rate_of = |(at, level): (usize, &Level)| match level.kind {
            LevelKind::Host => limits.new_sessions_per_host,
            LevelKind::Source => limits.new_sessions_per_source,
            LevelKind::Site => limits.new_sessions_per_site.filter(|_| Some(at) == site),
        };
        let of_level = levels.iter().enumerate().map(rate_of);
        let of_level: Vec<_> = of_level.map(|rate| rate.map(u64::from)).collect();
        of_level.iter().any(Option::is_some).then(|| Rates {
            of_level,
            burst: limits.new_sessions_burst.into(),
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
        let (rate, bucket) = self.bucket(at, level)?;
        let free = (rate * self.burst * UNITS).saturating_sub(bucket.level(rate, now));
        Some((free / UNITS).saturating_sub(bucket.lent.into()))
    }

    /// Returns the number of sessions that may be lent to it now; none if the level has no rate.
    pub fn lendable(&self, at: u32, level: u8, now: Millis) -> Option<u64> {
        let (rate, bucket) = self.bucket(at, level)?;
        let most = rate * self.burst / LENT_PART;
        let left = self.left(at, level, now)?;
        Some(left.min(most.saturating_sub(bucket.lent.into())))
    }

    /// Counts a session that has been opened.
    pub fn spend(&mut self, at: u32, level: u8, now: Millis) {
        let Some(rate) = self.rate(level) else {
            return;
        };
        if let Some(bucket) = self.buckets.get_mut(at as usize) {
            bucket.level = bucket.level(rate, now).saturating_add(UNITS);
            bucket.at = now;
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

    fn rate(&self, level: u8) -> Option<u64> {
        *self.of_level.get(usize::from(level))?
    }

    fn bucket(&self, at: u32, level: u8) -> Option<(u64, Bucket)> {
        let rate = self.rate(level)?;
        Some((rate, *self.buckets.get(at as usize)?))
    }
}
