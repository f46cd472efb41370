// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefixes that come and go without end are not followed without end.
//!
//! Each move costs connections, and whoever sends advertisements decides how often a better prefix comes and goes. A few
//! moves are free. After them a prefix has to be the best one for a while before it is taken, each time for longer. What
//! is in use is left at once when nobody offers it any more.

use std::collections::VecDeque;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::known::Moment;

/// So many moves are free …
const FREE: usize = 4;
/// … within so long.
const PERIOD: Duration = Duration::from_secs(60);
/// So long the next one waits. With each move it is twice as long, …
const FIRST: Duration = Duration::from_secs(1);
/// … and at most so long.
const LONGEST: Duration = Duration::from_secs(60);

/// The last moves, and what is waited for.
#[derive(Clone, Debug, Default)]
pub struct Damping {
    /// Those of one period, FREE at most.
    moves: VecDeque<Moment>,
    /// How long a prefix has to be the best one; zero if moves are free.
    wait: Duration,
    /// The best one, and since when it is.
    best: Option<(Ipv6Net, Moment)>,
}

impl Damping {
    /// May the prefix that is the best one now be taken now?
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

    /// Nothing is waited for.
    pub fn rest(&mut self) {
        self.best = None;
    }

    /// There was a move.
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

    /// When what is waited for may be taken.
    pub fn ends_at(&self, now: Moment) -> Option<Moment> {
        let ends = self.best.map(|(_, since)| since + self.wait);
        ends.filter(|at| *at > now)
    }

    /// How long a prefix has to be the best one, if it has to.
    pub fn wait(&self) -> Option<Duration> {
        Some(self.wait).filter(|wait| !wait.is_zero())
    }
}
