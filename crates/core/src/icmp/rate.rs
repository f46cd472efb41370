// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many errors we originate (RFC 4443 section 2.4(f), RFC 1812 section 4.3.2.8): a token
//! bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A token bucket of `burst` tokens, filled at `rate` a second, shared by all threads.
///
/// It is kept as one number, the time at which the bucket will be full again; a token taken moves
/// it by the time that a token takes to fill.
#[derive(Debug)]
pub struct RateLimit {
    /// Nanoseconds a token takes to fill; 0: there are no tokens.
    token: u64,
    /// Nanoseconds an empty bucket takes to fill.
    bucket: u64,
    /// Nanoseconds, on the clock of the caller.
    full_at: AtomicU64,
}

impl RateLimit {
    /// `rate` tokens a second, at most `burst` at once. A rate of 0 allows nothing.
    pub fn new(rate: u32, burst: u32) -> RateLimit {
        let token = 1_000_000_000u64.checked_div(u64::from(rate)).unwrap_or(0);
        RateLimit {
            token,
            bucket: token * u64::from(burst),
            full_at: AtomicU64::new(0),
        }
    }

    /// Takes a token, if there is one at the time `now`.
    pub fn allow(&self, now: Duration) -> bool {
        if self.token == 0 {
            return false;
        }
        let now = now.as_nanos() as u64;
        self.full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                let full_at = full_at.max(now) + self.token;
                (full_at - now <= self.bucket).then_some(full_at)
            })
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let limit = RateLimit::new(10, 3);
        let at = |ms| Duration::from_millis(ms);
        assert_eq!(
            [(); 5].map(|()| limit.allow(at(0))),
            [true, true, true, false, false]
        );
        assert!(!limit.allow(at(99)));
        assert!(limit.allow(at(100)));
        assert!(!limit.allow(at(100)));
        // Idle time fills the bucket, not more.
        assert_eq!(
            [(); 5].map(|()| limit.allow(at(100_000))),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn a_rate_of_zero_allows_nothing() {
        assert!(!RateLimit::new(0, 50).allow(Duration::from_secs(1)));
    }
}
