// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of the tables.

use std::time::Duration;

/// Milliseconds of the table's own clock.
pub type Millis = u64;

/// Where the table's clock begins: far enough from zero that what was last seen before the beginning
/// can be written down, whatever its lifetime.
pub(super) const BEGINNING: Millis = 8 * 24 * 3600 * 1000;

/// The caller's clock, without its jumps back: while it is behind what it has been, time stands
/// still only for the jump itself, and goes on from there.
#[derive(Debug)]
pub struct Clock {
    now: Millis,
    /// The last time of the caller's clock, milliseconds.
    caller_now: Option<Millis>,
}

impl Clock {
    /// Not started.
    pub fn new() -> Clock {
        Clock {
            now: BEGINNING,
            caller_now: None,
        }
    }

    /// The caller's clock says `now`.
    pub fn advance(&mut self, now: Duration) -> Millis {
        let caller_now = millis(now);
        let passed = caller_now.saturating_sub(self.caller_now.unwrap_or(caller_now));
        self.now = (self.now + passed).min(1 << 61);
        self.caller_now = Some(caller_now);
        self.now
    }

    /// The time now.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// A time that the caller's clock said at some moment, which cannot be after now.
    pub fn convert(&self, stamp: Duration) -> Millis {
        let ago = self.caller_now.unwrap_or(0).saturating_sub(millis(stamp));
        self.now.saturating_sub(ago)
    }

    /// The reverse of [`Clock::convert`]: when `deadline` comes by the caller's clock, if that does not jump.
    pub fn to_caller(&self, deadline: Millis) -> Duration {
        let left = deadline.saturating_sub(self.now);
        Duration::from_millis(self.caller_now.unwrap_or(0).saturating_add(left))
    }
}

/// Far more than any clock says, and far from overflow.
fn millis(time: Duration) -> Millis {
    time.as_millis().min(1 << 60) as Millis
}
