// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks by which tables and programs are changed. Tests have others.

use std::time::Duration;

use diolkos_sys::clock;

/// Both as BPF programs have them ([`diolkos_sys::clock`]).
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// CLOCK_MONOTONIC: sessions.
    pub monotonic: fn() -> Duration,
    /// CLOCK_BOOTTIME: what other gateways may rely on.
    pub boottime: fn() -> Duration,
}

impl Default for Clocks {
    /// Those of the kernel.
    fn default() -> Clocks {
        Clocks {
            monotonic: clock::monotonic,
            boottime: clock::kernel_boottime,
        }
    }
}
