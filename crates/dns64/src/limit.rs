// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits the query rate of each client with a token bucket; an IPv6 client is a /64.
//!
//! The buckets are in a table of fixed size. A client's place depends on a secret. Two clients in one place share a
//! bucket, until it has been full for some time. So an attacker with many addresses can share the buckets of others,
//! but can exhaust neither memory nor time.

use std::net::IpAddr;

/// Number of places in the table.
const PLACES: usize = 1 << 16;
/// Tokens are counted in thousandths.
const TOKEN: u64 = 1000;

/// The bucket of one client.
#[derive(Clone, Copy, Default)]
struct Bucket {
    owner: u64,
    level: u64,
    since_ms: u64,
}

/// The buckets of all clients. Times are milliseconds since a fixed moment.
pub struct Limiter {
    /// Tokens per second, which equals thousandths of tokens per millisecond.
    rate: u64,
    /// Capacity of a bucket in thousandths of tokens.
    size: u64,
    buckets: Box<[Bucket]>,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Limiter({} per second)", self.rate)
    }
}

impl Limiter {
    /// Creates a limit of `rate` queries per second in the long run, and `burst` at once after an idle period. A rate
    /// of 0 disables the limit.
    pub fn new(rate: u32, burst: u32) -> Limiter {
        let places = if rate == 0 { 0 } else { PLACES };
        Limiter {
            rate: u64::from(rate),
            size: u64::from(burst.max(1)) * TOKEN,
            buckets: vec![Bucket::default(); places].into(),
        }
    }

    /// Returns true if this client may query now. `hash` maps a client to an unpredictable number.
    pub fn allows(&mut self, client: IpAddr, hash: impl Fn(u64) -> u64, now_ms: u64) -> bool {
        if self.buckets.is_empty() {
            return true;
        }
        let owner = hash(network(client));
        let bucket = &mut self.buckets[owner as usize % PLACES];
        let gained = now_ms.saturating_sub(bucket.since_ms) * self.rate;
        bucket.level = bucket.level.saturating_add(gained).min(self.size);
        bucket.since_ms = now_ms;
        // A full bucket has the same state as a new one.
        if bucket.owner != owner && (bucket.owner == 0 || bucket.level == self.size) {
            *bucket = Bucket {
                owner,
                level: self.size,
                since_ms: now_ms,
            };
        }
        let allowed = bucket.level >= TOKEN;
        if allowed {
            bucket.level -= TOKEN;
        }
        allowed
    }
}

/// The network that counts as one client: an IPv4 address, or an IPv6 /64.
pub fn network(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "2001:db8::1";
    const B: &str = "2001:db8:0:1::1";

    /// Without a secret; each client in the tests has a place of its own.
    fn hash(network: u64) -> u64 {
        network.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }

    fn ask(limiter: &mut Limiter, client: &str, now_ms: u64) -> bool {
        limiter.allows(client.parse().expect("an address"), hash, now_ms)
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut limiter = Limiter::new(10, 3);
        let burst: Vec<bool> = (0..5).map(|_| ask(&mut limiter, A, 1000)).collect();
        assert_eq!(burst, [true, true, true, false, false]);
        assert!(!ask(&mut limiter, A, 1099));
        assert!(ask(&mut limiter, A, 1100), "one in a tenth of a second");
        assert!(!ask(&mut limiter, A, 1101));
    }

    #[test]
    fn a_64_is_one_client_and_another_one_is_not() {
        let mut limiter = Limiter::new(1, 1);
        assert!(ask(&mut limiter, A, 0));
        assert!(!ask(&mut limiter, "2001:db8::2", 0));
        assert!(ask(&mut limiter, B, 0));
        assert!(ask(&mut limiter, "192.0.2.1", 0));
        assert!(!ask(&mut limiter, "::ffff:192.0.2.1", 0), "it is the same");
    }

    #[test]
    fn those_who_share_a_place_share_a_bucket() {
        let mut limiter = Limiter::new(10, 1);
        let same = |network: u64| (network << 16) | 1;
        let mut ask = |client: &str, now_ms| {
            limiter.allows(client.parse().expect("an address"), same, now_ms)
        };
        assert!(ask("192.0.2.1", 0));
        assert!(!ask("192.0.2.2", 0));
        assert!(ask("192.0.2.2", 100), "its own, once the other is full");
    }

    #[test]
    fn no_rate_is_no_limit() {
        let mut limiter = Limiter::new(0, 0);
        assert!((0..10_000).all(|_| ask(&mut limiter, A, 0)));
    }
}
