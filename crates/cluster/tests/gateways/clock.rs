// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of the gateway that does something now. Each schedule has a thread.

use std::cell::Cell;
use std::time::Duration;

use diolkos_gateway::clocks::Clocks;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Its clock shows this from now on.
pub fn set(now: Duration) {
    NOW.set(now);
}

/// What it shows.
pub fn now() -> Duration {
    NOW.get()
}

/// The same for the program.
pub fn clocks() -> Clocks {
    Clocks {
        monotonic: now,
        boottime: now,
    }
}
