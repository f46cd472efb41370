// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a lease lasts, and when a node counts as dead.

use std::time::Duration;

/// The times of a cluster. All nodes have to have the same ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How long a node may act after it has sent a renewal.
    pub lease: Duration,
    /// How often it renews.
    pub renew_every: Duration,
    /// By how much two clocks may differ in speed, parts per million.
    pub drift_ppm: u32,
    /// What passes at most between a look at the lease and the end of what was begun because of it.
    pub margin: Duration,
    /// A write that has got no answer for so long is written again.
    pub answer_within: Duration,
    /// For how long the set of live nodes has to stay the same before slices are handed over to nodes that have come.
    pub settle: Duration,
    /// Most writes about slices that wait for an answer at once, and most slices that are handed over at once.
    pub at_once: usize,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lease: Duration::from_secs(3),
            renew_every: Duration::from_secs(1),
            drift_ppm: 1000,
            margin: Duration::from_millis(200),
            answer_within: Duration::from_millis(700),
            settle: Duration::from_secs(5),
            at_once: 64,
        }
    }
}

impl Timing {
    /// With another lease, of at least three renewals.
    pub fn with_lease(lease: Duration) -> Timing {
        Timing {
            lease,
            renew_every: (lease / 3).min(Duration::from_secs(1)),
            ..Timing::default()
        }
    }

    /// How long a renewal has to be the last one, on the clock of the node that has seen it, before its node counts as dead.
    ///
    /// The owner's clock may be the slowest and this one the fastest: (1 + d) / (1 - d), which is less than 1 + 3 d.
    pub fn dead_after(&self) -> Duration {
        const MILLION: u32 = 1_000_000;
        (self.lease + self.margin) * (MILLION + 3 * self.drift_ppm.min(MILLION / 4)) / MILLION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_dead_only_after_the_slowest_lease_on_the_fastest_clock() {
        let timing = Timing {
            lease: Duration::from_secs(9),
            margin: Duration::from_secs(1),
            drift_ppm: 10_000,
            ..Timing::default()
        };
        // 10 s of a clock that is 1 % slow are 10.10101 s, in which a clock that is 1 % fast counts 10.20202 s.
        assert_eq!(timing.dead_after(), Duration::from_millis(10_300));
    }
}
