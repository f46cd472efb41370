// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits the rate of originated errors (RFC 4443 section 2.4(f), RFC 1812 section 4.3.2.8) with token buckets.
//!
//! Packet Too Big and Fragmentation Needed have separate buckets, because a connection stalls without them. All other
//! errors share one bucket, because a scan can provoke any of them. The last half of that bucket is reserved for groups
//! of sources that have sent little. A flood from one host then still leaves Time Exceeded for others. A single active
//! source may use the whole bucket.

use super::answer::Answer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether a check consumes a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tokens {
    /// Take a token; the error will be sent.
    Take,
    /// Only check whether a token is available.
    Look,
}

/// A token bucket of `burst` tokens, filled at `rate` tokens a second, shared by all threads.
///
/// Its state is one number: the time at which the bucket will be full. Taking a token moves that time by the fill time
/// of one token.
#[derive(Debug)]
pub struct RateLimit {
    /// Nanoseconds to fill one token; 0 if there are no tokens.
    token: u64,
    /// Nanoseconds to fill an empty bucket.
    bucket: u64,
    /// Nanoseconds, on the clock of the caller.
    full_at: AtomicU64,
}

impl RateLimit {
    /// Creates a bucket with `rate` tokens a second and at most `burst` at once. A rate of 0 allows nothing.
    pub fn new(rate: u32, burst: u32) -> RateLimit {
        let token = 1_000_000_000u64.checked_div(u64::from(rate)).unwrap_or(0);
        RateLimit {
            token,
            bucket: token * u64::from(burst),
            full_at: AtomicU64::new(0),
        }
    }

    /// Takes a token if one is available at the time `now`, or only checks for one.
    pub fn allow(&self, now: Duration, tokens: Tokens) -> bool {
        self.allow_above(0, now, tokens)
    }

    /// Like [`RateLimit::allow`], but leaves at least `reserve` tokens in the bucket.
    fn allow_above(&self, reserve: u32, now: Duration, tokens: Tokens) -> bool {
        if self.token == 0 {
            return false;
        }
        let now = now.as_nanos() as u64;
        let free = self.bucket.saturating_sub(self.token * u64::from(reserve));
        if tokens == Tokens::Look {
            let full_at = self.full_at.load(Ordering::Relaxed).max(now) + self.token;
            return full_at - now <= free;
        }
        self.full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                let full_at = full_at.max(now) + self.token;
                (full_at - now <= free).then_some(full_at)
            })
            .is_ok()
    }
}

/// Number of groups of sources.
const GROUPS: usize = 64;
/// The last half of the shared bucket gives one group at most this part (1/n) of the rate,
const SHARE_OF_RATE: u32 = 8;
/// and this part (1/n) of the burst.
const SHARE_OF_BURST: u32 = 4;

/// The buckets of one family.
#[derive(Debug)]
pub struct ErrorLimit {
    others: RateLimit,
    /// Number of tokens of the shared bucket that are reserved for groups with tokens of their own.
    reserve: u32,
    /// Buckets of the groups, by the source of the answered packet. A source that provokes many errors uses up the tokens
    /// of its own group only. The group of a source is not secret.
    others_of_group: Box<[RateLimit; GROUPS]>,
    /// Buckets of the same groups for errors about packets that are too big.
    too_big: Box<[RateLimit; GROUPS]>,
}

impl ErrorLimit {
    /// Creates the limit. `rate` and `burst` apply to each group for errors about size, and to all groups together for
    /// others.
    pub fn new(rate: u32, burst: u32) -> ErrorLimit {
        let groups = |rate, burst| Box::new([(); GROUPS].map(|()| RateLimit::new(rate, burst)));
        ErrorLimit {
            others: RateLimit::new(rate, burst),
            reserve: burst.saturating_sub(1) / 2,
            others_of_group: groups(rate.div_ceil(SHARE_OF_RATE), burst.div_ceil(SHARE_OF_BURST)),
            too_big: groups(rate, burst),
        }
    }

    /// Returns true if this error may be sent at the time `now`. `source` is the destination of the error: the IPv4
    /// address, or the /64 of the IPv6 address.
    pub fn allow(&self, answer: Answer, source: u128, now: Duration, tokens: Tokens) -> bool {
        // Multiplication by 2^64 over the golden ratio spreads consecutive addresses.
        let group = (source as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        match answer {
            Answer::TooBig(_) => self.too_big[group as usize].allow(now, tokens),
            // An error above the limit of its group takes nothing from the reserve.
            _ => {
                self.others.allow_above(self.reserve, now, tokens)
                    || (self.others_of_group[group as usize].allow(now, tokens)
                        && self.others.allow(now, tokens))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_scan_nor_one_source_uses_up_packet_too_big() {
        let limit = ErrorLimit::new(10, 3);
        let now = Duration::from_secs(1);
        let allowed = |answer, source| {
            (0..1000)
                .filter(|_| limit.allow(answer, source, now, Tokens::Take))
                .count()
        };
        assert_eq!(allowed(Answer::AddressUnreachable, 1), 3);
        assert_eq!(allowed(Answer::TooBig(1280), 1), 3);
        let others =
            (2..66).filter(|&source| limit.allow(Answer::TooBig(1280), source, now, Tokens::Take));
        assert!(others.count() > 56);
    }

    #[test]
    fn a_flood_of_one_source_leaves_others_their_errors() {
        let limit = ErrorLimit::new(1000, 50);
        let (mut of_flood, mut of_others) = (0, 0);
        for tenth in 0..100 {
            let now = Duration::from_millis(100 * tenth);
            let allow = |source| limit.allow(Answer::TimeExceeded, source, now, Tokens::Take);
            of_flood += (0..5000).filter(|_| allow(1)).count();
            // One error each, as in a traceroute.
            of_others += (2..12).filter(|source| allow(*source)).count();
        }
        // The flood uses the unused tokens: half of the bucket at each check, and an eighth of the rate.
        assert!((3600..=4000).contains(&of_flood), "{of_flood}");
        assert_eq!(of_others, 1000);
    }

    #[test]
    fn a_burst_then_the_rate() {
        let limit = RateLimit::new(10, 3);
        let at = |ms| Duration::from_millis(ms);
        assert_eq!(
            [(); 5].map(|()| limit.allow(at(0), Tokens::Take)),
            [true, true, true, false, false]
        );
        assert!(!limit.allow(at(99), Tokens::Take));
        assert!(!limit.allow(at(99), Tokens::Look));
        assert!(limit.allow(at(100), Tokens::Look));
        assert!(limit.allow(at(100), Tokens::Take));
        assert!(!limit.allow(at(100), Tokens::Look));
        assert!(!limit.allow(at(100), Tokens::Take));
        // Idle time fills the bucket, but no further.
        assert_eq!(
            [(); 5].map(|()| limit.allow(at(100_000), Tokens::Take)),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn a_rate_of_zero_allows_nothing() {
        assert!(!RateLimit::new(0, 50).allow(Duration::from_secs(1), Tokens::Take));
    }
}
