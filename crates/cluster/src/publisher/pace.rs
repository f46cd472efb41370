// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many bindings are repeated when, so that a cycle's are spread evenly over it.

use std::time::Duration;

use crate::Moment;

/// Portions of a cycle.
const PORTIONS: u32 = 60;

/// The pace of repetition.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    cycle: Duration,
    last: Option<Moment>,
    /// Of a binding, what was left over.
    rest: f64,
}

impl Pace {
    pub fn new(cycle: Duration) -> Pace {
        Pace {
            cycle,
            last: None,
            rest: 0.0,
        }
    }

    /// How many of `total` are due. After a long pause, all of them once.
    pub fn wants(&mut self, now: Moment, total: usize) -> usize {
        let last = *self.last.get_or_insert(now);
        let passed = now.saturating_sub(last);
        if passed < self.cycle / PORTIONS || self.cycle.is_zero() {
            return 0;
        }
        self.last = Some(now);
        let share = passed.as_secs_f64() / self.cycle.as_secs_f64();
        let due = total as f64 * share.min(1.0) + self.rest;
        self.rest = due.fract();
        due as usize
    }
}
