// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Until when the programs of a NAT64 may open sessions: one number that they and the controller share (`bpf/open.h`).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::mapped::Mapped;

/// The map, as memory; dropped, it is no longer mapped.
pub(super) struct Fence(Mapped<AtomicU64>);

impl Fence {
    /// Of the array of one number that the programs have.
    pub fn of(map: BorrowedFd<'_>) -> io::Result<Fence> {
        // SAFETY: the number has 64 bits, all of which are valid; the programs only read it.
        unsafe { Mapped::of(map, 1) }.map(Fence)
    }

    /// A moment of CLOCK_BOOTTIME; one beyond 584 years is never.
    pub fn set(&self, moment: Duration) {
        let nanoseconds = u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX);
        self.0.at(0).store(nanoseconds, Ordering::SeqCst);
    }
}
