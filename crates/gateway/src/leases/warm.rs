// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notes which nodes without a lease open sessions, so that those which go on get one, and may take the place of another
//! node.

use std::net::Ipv6Addr;
use std::ops::Range;

/// Number of sessions after which a node is warm: it has a lease like others, or gets one.
pub(super) const WARM: u8 = 4;

/// As many entries as there are places for leases, in the same sets.
#[derive(Debug)]
pub(super) struct Warm {
    entries: Vec<Entry>,
}

/// A node that opens sessions.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    /// Part of its address.
    tag: u32,
    /// The number of sessions since `first`.
    times: u8,
    /// The sweep of the first of them.
    first: u32,
    /// The sweep of the last one.
    last: u32,
}

impl Warm {
    /// Returns entries for so many places.
    pub(super) fn new(places: usize) -> Warm {
        Warm {
            entries: vec![Entry::default(); places],
        }
    }

    /// Notes a session that a node has opened at a sweep. If it was the last one that was missing, returns the sweep of
    /// the first. A node that is new takes the entry whose node has opened nothing for longest.
    pub(super) fn note(&mut self, set: Range<usize>, node: Ipv6Addr, now: u32) -> Option<u32> {
        let tag = (node.to_bits() ^ node.to_bits() >> 64) as u32;
        let entries = self.entries.get_mut(set)?;
        let its = entries.iter().position(|e| e.times > 0 && e.tag == tag);
        let at = its.or_else(|| {
            let age = |e: &Entry| (e.times == 0, now.wrapping_sub(e.last));
            (0..entries.len()).max_by_key(|&at| age(&entries[at]))
        })?;
        let entry = &mut entries[at];
        if its.is_none() {
            *entry = Entry {
                tag,
                times: 0,
                first: now,
                last: now,
            };
        }
        entry.times += 1;
        entry.last = now;
        if entry.times < WARM {
            return None;
        }
        let first = entry.first;
        *entry = Entry::default();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | n)
    }

    #[test]
    fn a_node_is_warm_with_its_fourth_session_whoever_comes_in_between() {
        let mut warm = Warm::new(8);
        for now in 0..3 {
            for n in 0..4 {
                assert_eq!(warm.note(4..8, node(n), now), None);
            }
        }
        assert_eq!(warm.note(4..8, node(2), 3), Some(0));
        // It begins anew.
        assert_eq!(warm.note(4..8, node(2), 4), None);
        assert_eq!(warm.note(4..8, node(1), 5), Some(0));
    }

    #[test]
    fn a_new_node_takes_the_place_of_the_one_that_was_silent_longest() {
        let mut warm = Warm::new(4);
        for (now, n) in [(1, 0), (2, 1), (3, 2), (4, 3), (5, 0), (6, 4)] {
            assert_eq!(warm.note(0..4, node(n), now), None);
        }
        // Node 1 has gone for node 4; the others have two or one.
        assert_eq!(warm.note(0..4, node(0), 7), None);
        assert_eq!(warm.note(0..4, node(0), 8), Some(1));
        for now in 9..12 {
            assert_eq!(warm.note(0..4, node(1), now), None);
        }
        assert_eq!(warm.note(0..4, node(1), 12), Some(9));
    }
}
