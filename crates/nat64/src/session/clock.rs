// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of the tables.

use std::time::Duration;

/// Milliseconds on the clock of the tables.
pub type Millis = u64;

/// The start of the clock of the tables: far enough from zero that times of last use before the start can be
/// represented, for any lifetime.
pub(super) const BEGINNING: Millis = 8 * 24 * 3600 * 1000;

/// A monotonic clock derived from the caller's clock. If the caller's clock jumps back, time continues from
/// the last value.
#[derive(Debug)]
pub struct Clock {
    now: Millis,
    /// The last time of the caller's clock in milliseconds.
    caller_now: Option<Millis>,
}

impl Clock {
    /// Creates a clock that has not started.
    pub fn new() -> Clock {
        Clock {
            now: BEGINNING,
            caller_now: None,
        }
    }

    /// Advances to the time `now` of the caller's clock.
    pub fn advance(&mut self, now: Duration) -> Millis {
        let caller_now = millis(now);
        let passed = caller_now.saturating_sub(self.caller_now.unwrap_or(caller_now));
        self.now = (self.now + passed).min(1 << 61);
        self.caller_now = Some(caller_now);
        self.now
    }

    /// The current time.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Converts a past time of the caller's clock; the result is never after the current time.
    pub fn convert(&self, stamp: Duration) -> Millis {
        let ago = self.caller_now.unwrap_or(0).saturating_sub(millis(stamp));
        self.now.saturating_sub(ago)
    }

    /// The inverse of [`Clock::convert`]: the time of `deadline` on the caller's clock, if that does not
    /// jump.
    pub fn to_caller(&self, deadline: Millis) -> Duration {
        let left = deadline.saturating_sub(self.now);
        Duration::from_millis(self.caller_now.unwrap_or(0).saturating_add(left))
    }
}

/// Limits a time to a value beyond any real clock, and far from overflow.
fn millis(time: Duration) -> Millis {
    time.as_millis().min(1 << 60) as Millis
}
