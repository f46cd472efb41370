// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sessions that programs have found a moment ago, in memory shared with them (`bpf/session_cache.h`). Programs fill
//! it; the controller tells them which of it is out of date.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use diolkos_sys::mapped::Mapped;

use super::load::scatter;
use super::mix::mix;

/// Length of the keys of a session, bytes.
pub(super) const OUTWARD: usize = 28;
pub(super) const INWARD: usize = 16;

/// Places for sessions where memory is no matter: more than what a CPU's own caches hold.
const PLENTY: u32 = 65_536;
/// So many sessions have one place in large tables. A place is 64 bytes.
const SESSIONS_OF_PLACE: u32 = 16;

/// Number of places for a maximum number of sessions: a power of two. A session has two, one for each direction.
pub(super) fn known_for(max_sessions: u32) -> u32 {
    let both = max_sessions.saturating_mul(2);
    both.clamp(2, PLENTY.max(max_sessions / SESSIONS_OF_PLACE))
        .next_power_of_two()
}

/// Log2 of the length of a window, nanoseconds (`DIOLKOS_KNOWN_WINDOW`).
const WINDOW: u32 = 27;

/// The latest time at which a packet may have used a session that programs have stamped at `stamp`, in nanoseconds:
/// programs stamp a session once in each window.
pub(super) fn last_use(stamp: u64) -> Option<Duration> {
    let end = ((stamp >> WINDOW) + 1).checked_mul(1 << WINDOW);
    (stamp != 0).then(|| Duration::from_nanos(end.unwrap_or(u64::MAX)))
}

/// `struct diolkos_known_session`.
#[repr(C)]
#[derive(Debug)]
struct Place {
    changes: AtomicU32,
    check: AtomicU32,
    seen: AtomicU32,
    window: AtomicU32,
    words: [AtomicU64; 6],
}
diolkos_sys::shared!(Place {
    changes,
    check,
    seen,
    window,
    words
});

/// The places. Dropping it unmaps the memory.
pub(super) struct KnownSessions {
    places: Mapped<Place>,
    last: u64,
    keys: [u32; KEYS],
}

/// Number of keys: two for each word of the longest key (`known_keys`).
const KEYS: usize = 8;

/// The secrets that select places, from that of the leases.
pub(super) fn known_keys(lease_key: u64) -> [u32; KEYS] {
    std::array::from_fn(|at| scatter(lease_key, at as u64 + 1))
}

impl KnownSessions {
    /// Maps the array of `len` places, a power of two, of programs that have this key of leases.
    pub fn of(map: BorrowedFd<'_>, len: u32, lease_key: u64) -> io::Result<KnownSessions> {
        Ok(KnownSessions {
            places: Mapped::of(map, len as usize)?,
            last: u64::from(len) - 1,
            keys: known_keys(lease_key),
        })
    }

    /// Makes programs forget the session with these keys in the tables (`struct diolkos_session6_key` and `struct
    /// diolkos_session4_key`). Call it when the session has left the tables or has changed there: no program that begins
    /// after this call returns translates by what the session was.
    pub fn forget(&self, outward: &[u8; OUTWARD], inward: &[u8; INWARD]) {
        for hash in [self.hash6(outward), self.hash4(inward)] {
            let place = self.places.at((hash & self.last) as usize);
            place.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// `hash_of_known6`: what packets of the node show.
    fn hash6(&self, key: &[u8; OUTWARD]) -> u64 {
        let half = |at: usize| u64::from_ne_bytes(array(key, at));
        let ends = word(key, 16) << 32 | port(key, 20) << 16 | port(key, 22);
        hash(&self.keys, &[half(0), half(8), ends, u64::from(key[24])])
    }

    /// `hash_of_known4`: what packets of the peer show.
    fn hash4(&self, key: &[u8; INWARD]) -> u64 {
        let addresses = word(key, 0) << 32 | word(key, 4);
        let ports = port(key, 8) << 48 | port(key, 10) << 32;
        hash(&self.keys, &[addresses, ports | u64::from(key[12])])
    }
}

/// `hash_of_word` of all words, and `spread`.
fn hash(keys: &[u32; KEYS], words: &[u64]) -> u64 {
    let products = words.iter().zip(keys.chunks_exact(2)).map(|(word, keys)| {
        let low = (*word as u32).wrapping_add(keys[0]);
        let high = ((word >> 32) as u32).wrapping_add(keys[1]);
        u64::from(low) * u64::from(high)
    });
    let sum = products.fold(0, u64::wrapping_add);
    mix(0, sum ^ sum >> 32)
}

/// Bytes in network order as the number that a program reads.
fn word(key: &[u8], at: usize) -> u64 {
    u32::from_ne_bytes(array(key, at)).into()
}

fn port(key: &[u8], at: usize) -> u64 {
    u16::from_ne_bytes(array(key, at)).into()
}

fn array<const N: usize>(key: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&key[at..at + N]);
    bytes
}

impl fmt::Debug for KnownSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownSessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_powers_of_two_and_fit_the_tables() {
        for (sessions, places) in [
            (1, 2),
            (100, 256),
            (32_768, 65_536),
            (65_536, 65_536),
            (1_048_576, 65_536),
            (4_000_000, 262_144),
        ] {
            assert_eq!(known_for(sessions), places, "{sessions}");
        }
        assert!(known_for(u32::MAX).is_power_of_two());
    }

    fn places_of(hashes: impl Iterator<Item = u64>) -> usize {
        let places: std::collections::HashSet<_> =
            hashes.map(|hash| hash % u64::from(PLENTY)).collect();
        places.len()
    }

    /// Each bit of ports and addresses matters: so many sessions as places have 63 % of them.
    #[test]
    fn sessions_spread_over_the_places() {
        let keys = known_keys(1);
        let addresses = 0xc000_0207_c633_6402;
        let external = (0..=u16::MAX).map(|n| hash(&keys, &[addresses, u64::from(n) << 48 | 6]));
        assert!(places_of(external) > 40_000);
        let own = (0..=u16::MAX).map(|n| hash(&keys, &[1, 2, u64::from(n) << 16, 17]));
        assert!(places_of(own) > 40_000);
        let nodes = (0..=u16::MAX).map(|n| hash(&keys, &[1, u64::from(n) << 48, 3, 17]));
        assert!(places_of(nodes) > 40_000);
    }

    /// Flips of the highest bits of two words would cancel each other without keys.
    #[test]
    fn no_difference_of_two_sessions_is_one_of_nothing_for_all_keys() {
        let high = 1 << 63;
        let (it, other) = ([1, 2, 3, 17], [1, 2 ^ high, 3 ^ high ^ (1 << 31), 17]);
        let equal = (0..1000u64).filter(|key| {
            let keys = known_keys(*key);
            hash(&keys, &it) == hash(&keys, &other)
        });
        assert_eq!(equal.count(), 0);
    }

    #[test]
    fn a_session_is_used_until_the_end_of_its_window() {
        let window = Duration::from_nanos(1 << WINDOW);
        assert_eq!(last_use(0), None);
        assert_eq!(last_use(1), Some(window));
        assert_eq!(last_use((1 << WINDOW) - 1), Some(window));
        assert_eq!(last_use(1 << WINDOW), Some(2 * window));
        assert_eq!(last_use(u64::MAX), Some(Duration::from_nanos(u64::MAX)));
    }
}
