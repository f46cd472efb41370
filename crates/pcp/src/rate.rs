// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many requests of a link are carried out a second.
//!
//! The table has a fixed size, so invented links cost no memory. Links whose hashes meet share a rate; the hash has a secret key,
//! so nobody can choose whose rate to use up.

use std::net::Ipv6Addr;
use std::time::Duration;

/// Requests of one link (/64) a second …
pub const A_SECOND: u32 = 20;
/// … and at once: a host that has restarted renews all that it has.
pub const AT_ONCE: u32 = 200;
/// Number of rates.
const PLACES: usize = 8192;
/// Bits of the address within a link.
const HOST_BITS: u32 = 64;

/// A number of requests that may come, as it was at a time.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u32,
    at_ms: u64,
}

/// The rates of all links.
#[derive(Debug)]
pub struct Rates {
    buckets: Vec<Bucket>,
    key: u64,
}

impl Rates {
    /// Nobody has asked yet. `key`: random, and secret.
    pub fn new(key: u64) -> Rates {
        let full = Bucket {
            left: AT_ONCE,
            at_ms: 0,
        };
        Rates {
            buckets: vec![full; PLACES],
            key,
        }
    }

    /// Counts a request from this address. Returns false if there were too many.
    pub fn take(&mut self, from: Ipv6Addr, now: Duration) -> bool {
        let now_ms = now.as_millis() as u64;
        let at = self.place_of(from);
        let bucket = &mut self.buckets[at];
        let since_ms = now_ms.saturating_sub(bucket.at_ms);
        let new = since_ms.saturating_mul(A_SECOND.into()) / 1000;
        if new > 0 {
            bucket.left = (u64::from(bucket.left) + new).min(AT_ONCE.into()) as u32;
            bucket.at_ms = now_ms;
        }
        let is_left = bucket.left > 0;
        bucket.left = bucket.left.saturating_sub(1);
        is_left
    }

    fn place_of(&self, from: Ipv6Addr) -> usize {
        let link = (from.to_bits() >> HOST_BITS) as u64;
        // A finalizer of splitmix64, keyed before and behind: enough, since an answer tells nobody the place.
        let mut hash = link ^ self.key;
        for odd in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            hash = (hash ^ hash >> 30).wrapping_mul(odd).wrapping_add(self.key);
        }
        (hash ^ hash >> 31) as usize % PLACES
    }
}
