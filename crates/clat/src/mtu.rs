// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the uplink's MTU for IPv6. Routers announce it, and so can an attacker who forges their advertisements: each
//! change loads programs and replaces routes.
//!
//! A smaller MTU is applied at once, because packets would be lost. A larger one waits if there were several changes
//! lately.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// This number of changes …
const FREE: usize = 4;
/// … within this time is applied at once.
const PERIOD: Duration = Duration::from_secs(60);
/// The kernel reports the addresses of an advertisement before it applies the MTU, and not every kernel reports that.
const LATER: Duration = Duration::from_millis(100);

/// The changes that were applied.
#[derive(Debug, Default)]
pub struct Changes {
    /// The times of the last changes, at most FREE.
    last: VecDeque<Instant>,
    /// A larger MTU waits until then.
    waits: Option<Instant>,
    /// Addresses have changed, and the MTU may follow until then.
    later: Option<Instant>,
}

impl Changes {
    /// Returns the MTU to use, in bytes: the new one, or the one before it for a while.
    pub fn follow(&mut self, now: Instant, before: u32, new: u32) -> u32 {
        self.waits = None;
        if new == before {
            return before;
        }
        let full = self.last.front().filter(|_| self.last.len() == FREE);
        let free = full.map(|first| *first + PERIOD).filter(|at| *at > now);
        if new > before && free.is_some() {
            self.waits = free;
            return before;
        }
        if self.last.len() == FREE {
            self.last.pop_front();
        }
        self.last.push_back(now);
        new
    }

    /// Notes that an advertisement may have brought addresses, which are known, and an MTU, which is not yet.
    pub fn come_later(&mut self, now: Instant) {
        self.later.get_or_insert(now + LATER);
    }

    /// Notes that the MTU is being checked.
    pub fn rest(&mut self) {
        (self.waits, self.later) = (None, None);
    }

    /// Returns when it has to be checked again.
    pub fn waits(&self) -> Option<Instant> {
        [self.waits, self.later].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_without_end_becomes_the_smallest() {
        let begin = Instant::now();
        let mut changes = Changes::default();
        let (mut mtu, mut followed) = (1500, 0);
        for round in 0..1000 {
            let now = begin + Duration::from_millis(10) * round;
            let new = changes.follow(now, mtu, [1280, 1500, 1400][round as usize % 3]);
            followed += usize::from(new != mtu);
            mtu = new;
        }
        assert_eq!(mtu, 1280);
        assert!(followed <= FREE + 2, "{followed}");
        // The last advertisement said 1280. Then one says 1500, which applies a minute later.
        let now = begin + Duration::from_secs(10);
        assert_eq!(changes.follow(now, mtu, 1500), 1280);
        let at = changes.waits().expect("a moment");
        assert!(at > now && at <= now + PERIOD);
        assert_eq!(changes.follow(at, mtu, 1500), 1500);
        assert_eq!(changes.waits(), None);
    }

    #[test]
    fn after_addresses_it_is_looked_at_once_more() {
        let now = Instant::now();
        let mut changes = Changes::default();
        changes.come_later(now);
        assert_eq!(changes.follow(now, 1500, 1500), 1500);
        assert_eq!(
            changes.waits(),
            Some(now + LATER),
            "looking does not end it"
        );
        changes.come_later(now + LATER / 2);
        assert_eq!(
            changes.waits(),
            Some(now + LATER),
            "nor can others delay it"
        );
        changes.rest();
        assert_eq!(changes.follow(now + LATER, 1500, 1400), 1400);
        assert_eq!(changes.waits(), None);
    }

    #[test]
    fn a_few_changes_are_followed_at_once() {
        let now = Instant::now();
        let mut changes = Changes::default();
        let mut mtu = 1500;
        for new in [1400, 1500, 9000, 1500] {
            mtu = changes.follow(now, mtu, new);
            assert_eq!((mtu, changes.waits()), (new, None));
        }
        assert_eq!(
            changes.follow(now, mtu, 1280),
            1280,
            "packets would be lost"
        );
    }
}
