// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Until when this node may act: from the moment at which it sent the last renewal that the engine accepted.

use std::collections::VecDeque;

use crate::timing::Timing;
use crate::Moment;

/// Renewals whose fate is unknown. One that was sent before them has long expired when it is confirmed.
const REMEMBERED: usize = 16;

/// The lease of one life.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The number of each renewal, and when it was sent.
    sent: VecDeque<(u64, Moment)>,
    next: u64,
    ends: Option<Moment>,
}

impl Lease {
    pub fn new() -> Lease {
        Lease {
            sent: VecDeque::new(),
            next: 0,
            ends: None,
        }
    }

    /// The number of the renewal that is sent now.
    pub fn send(&mut self, now: Moment) -> u64 {
        let number = self.next;
        self.next += 1;
        self.sent.truncate(REMEMBERED - 1);
        self.sent.push_front((number, now));
        number
    }

    /// The engine has accepted this renewal.
    pub fn confirm(&mut self, number: u64, timing: &Timing) {
        let sent = self.sent.iter().find(|(n, _)| *n == number);
        let ends = sent.map(|(_, at)| *at + timing.lease);
        // The answer to an earlier renewal may come later.
        self.ends = self.ends.max(ends);
    }

    /// Whether the node may act now.
    pub fn runs(&self, now: Moment) -> bool {
        self.ends.is_some_and(|end| now < end)
    }

    /// When it ends if no renewal is confirmed any more; `None` before the first one is.
    pub fn ends(&self) -> Option<Moment> {
        self.ends
    }

    /// When the last renewal was sent.
    pub fn last_sent(&self) -> Option<Moment> {
        self.sent.front().map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_runs_from_the_sending_of_what_was_confirmed() {
        let timing = Timing {
            lease: Duration::from_secs(3),
            ..Timing::default()
        };
        let at = Duration::from_millis;
        let mut lease = Lease::new();
        assert!(!lease.runs(at(0)));
        let (first, second) = (lease.send(at(1000)), lease.send(at(2000)));
        lease.confirm(second, &timing);
        assert!(lease.runs(at(4999)) && !lease.runs(at(5000)));
        lease.confirm(first, &timing);
        assert_eq!(
            lease.ends(),
            Some(at(5000)),
            "the earlier one changes nothing"
        );
        lease.confirm(99, &timing);
        assert_eq!(lease.ends(), Some(at(5000)), "nor one that was never sent");
    }

    #[test]
    fn forgotten_renewals_confirm_nothing() {
        let mut lease = Lease::new();
        let first = lease.send(Duration::ZERO);
        for _ in 0..REMEMBERED {
            lease.send(Duration::from_secs(60));
        }
        lease.confirm(first, &Timing::default());
        assert_eq!(lease.ends(), None);
    }
}
