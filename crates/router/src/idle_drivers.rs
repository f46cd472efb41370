// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notices drivers that have the program and send nothing. Then tc sends all packets, which is slower.

use diolkos_fastpath::{FastPath, FATE_NAMES};

/// So many packets in a row are no accident: a program leaves the first packets to each next hop to tc.
const MANY: u64 = 10_000;

/// Drivers that send less than one packet in this many are idle all the same: now and then one finds a way.
const SHARE: u64 = 100;

/// What the programs have sent, packets, since the last check in which drivers had sent some.
#[derive(Default)]
pub struct IdleDrivers {
    by_drivers: u64,
    by_tc: u64,
    said: bool,
}

/// News about the drivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum News {
    Idle(u64),
    Busy,
}

impl IdleDrivers {
    /// Reads the counters, and logs when drivers begin to send nothing, and when they send again.
    pub fn look(&mut self, fast: Option<&FastPath>) {
        let Some(counts) = fast.and_then(|fast| fast.counts().ok()) else {
            return;
        };
        let of = |name: &str| {
            let mut named = FATE_NAMES.iter().zip(&counts);
            named
                .find(|(fate, _)| **fate == name)
                .map_or(0, |(_, count)| count.packets)
        };
        match self.compare(of("sent_xdp"), of("sent_direct")) {
            Some(News::Idle(packets)) => tracing::warn!(
                "drivers have the XDP program and have sent none of the last {packets} packets that were sent directly: tc \
                 sends them instead; see \"Drivers that send nothing\" in docs/troubleshooting.md"
            ),
            Some(News::Busy) => tracing::info!("drivers send packets again"),
            None => {}
        }
    }

    fn compare(&mut self, by_drivers: u64, by_tc: u64) -> Option<News> {
        let begun_again = by_drivers < self.by_drivers || by_tc < self.by_tc;
        let sent = by_drivers.saturating_sub(self.by_drivers);
        let alone = by_tc.saturating_sub(self.by_tc);
        // New programs share the counters of the old ones; those of another run begin again.
        if begun_again || sent > 0 {
            (self.by_drivers, self.by_tc) = (by_drivers, by_tc);
        }
        let is_busy = begun_again || sent * SHARE > alone;
        match (self.said, sent) {
            (true, _) if is_busy => {
                self.said = false;
                Some(News::Busy)
            }
            (false, 0) if !begun_again && alone >= MANY => {
                self.said = true;
                Some(News::Idle(alone))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_send_nothing_are_said_once() {
        let mut idle = IdleDrivers::default();
        assert_eq!(idle.compare(0, MANY - 1), None);
        assert_eq!(idle.compare(0, MANY + 5), Some(News::Idle(MANY + 5)));
        assert_eq!(idle.compare(0, 9 * MANY), None);
        // One packet among ten thousands does not make them busy, so that it is not said again and again.
        for round in 1..20 {
            assert_eq!(idle.compare(round, (9 + 2 * round) * MANY), None);
        }
        assert_eq!(idle.compare(20 + MANY, 50 * MANY), Some(News::Busy));
        assert_eq!(idle.compare(20 + MANY, 51 * MANY - 1), None);
        let all = Some(News::Idle(MANY));
        assert_eq!(idle.compare(20 + MANY, 51 * MANY), all);
        // Counters of another run.
        assert_eq!(idle.compare(0, 0), Some(News::Busy));
        assert_eq!(idle.compare(0, MANY), all);
    }

    #[test]
    fn few_that_drivers_leave_are_nothing() {
        let mut idle = IdleDrivers::default();
        for round in 0..100 {
            assert_eq!(idle.compare(round, round * (MANY - 1)), None);
        }
    }
}
