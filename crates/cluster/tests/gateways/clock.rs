// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of the gateway that is currently running. Each schedule has a thread.

use std::cell::Cell;
use std::time::Duration;

use diolkos_gateway::clocks::Clocks;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Sets its clock.
pub fn set(now: Duration) {
    NOW.set(now);
}

/// Returns its time.
pub fn now() -> Duration {
    NOW.get()
}

/// Returns the same clock for the program.
pub fn clocks() -> Clocks {
    Clocks {
        monotonic: now,
        boottime: now,
    }
}
