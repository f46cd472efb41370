// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock by which the fast path stamps sessions.

use std::time::Duration;

/// CLOCK_MONOTONIC.
pub fn monotonic() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
