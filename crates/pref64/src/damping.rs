// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits how often discovery moves to another prefix.
//!
//! Each move breaks connections, and any sender of advertisements can make a better prefix appear and disappear. A few
//! moves are free. After that, a prefix has to stay the best one for a hold time before it is taken; the hold time
//! doubles with each move. A prefix in use is given up at once when its last offer is gone.

use std::collections::VecDeque;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::known::Moment;

/// Number of free moves …
const FREE: usize = 4;
/// … within this period.
const PERIOD: Duration = Duration::from_secs(60);
/// Hold time of the first move after the free ones. It doubles with each move, …
const FIRST: Duration = Duration::from_secs(1);
/// … up to this limit.
const LONGEST: Duration = Duration::from_secs(60);

/// The latest moves, and the prefix that waits to be taken.
#[derive(Clone, Debug, Default)]
pub struct Damping {
    /// The moves of one period, at most FREE.
    moves: VecDeque<Moment>,
    /// The hold time of the best prefix; zero while moves are free.
    wait: Duration,
    /// The best prefix, and the time since which it is the best.
    best: Option<(Ipv6Net, Moment)>,
}

impl Damping {
    /// Returns true if the best prefix may be taken now.
    pub fn admits(&mut self, now: Moment, prefix: Ipv6Net) -> bool {
        let quiet = self.moves.back().map(|last| *last + self.wait + PERIOD);
        if quiet.is_some_and(|quiet| quiet <= now) {
            *self = Damping::default();
        }
        let since = match self.best {
            Some((best, since)) if best == prefix => since,
            _ => now,
        };
        self.best = Some((prefix, since));
        since + self.wait <= now
    }

    /// Clears the waiting prefix.
    pub fn rest(&mut self) {
        self.best = None;
    }

    /// Records a move.
    pub fn moved(&mut self, now: Moment) {
        self.best = None;
        self.moves.retain(|at| now < *at + PERIOD);
        self.moves.push_back(now);
        if self.moves.len() > FREE {
            self.moves.pop_front();
            self.wait = self.wait.max(FIRST / 2);
        }
        self.wait = (2 * self.wait).min(LONGEST);
    }

    /// The time at which the waiting prefix may be taken.
    pub fn ends_at(&self, now: Moment) -> Option<Moment> {
        let ends = self.best.map(|(_, since)| since + self.wait);
        ends.filter(|at| *at > now)
    }

    /// The hold time of the next prefix, if it is not zero.
    pub fn wait(&self) -> Option<Duration> {
        Some(self.wait).filter(|wait| !wait.is_zero())
    }
}
