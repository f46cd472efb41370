// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks that time changes of tables and programs. Tests replace them.

use std::time::Duration;

use diolkos_sys::clock;

/// Both clocks, as BPF programs read them ([`diolkos_sys::clock`]).
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// CLOCK_MONOTONIC, for sessions.
    pub monotonic: fn() -> Duration,
    /// CLOCK_BOOTTIME, for what other gateways may rely on.
    pub boottime: fn() -> Duration,
}

impl Default for Clocks {
    /// Returns the clocks of the kernel.
    fn default() -> Clocks {
        Clocks {
            monotonic: clock::monotonic,
            boottime: clock::kernel_boottime,
        }
    }
}
