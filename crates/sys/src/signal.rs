// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals whose numbers differ between architectures, and threads that handle no signals.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// Signals that end a process by default but have no meaning for a service.
pub const MEANINGLESS: [i32; 9] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    // Without the signal, a write beyond the limit fails, and that error is reported.
    libc::SIGXFSZ,
];

/// Blocks all signals except those of faults, in this thread and in the threads that it starts: other threads, or the process
/// that has started this one, handle them.
pub fn leave_to_others() -> io::Result<()> {
    let mut all = SigSet::all();
    // The signals of faults, which the process raises itself.
    for signal in [
        Signal::SIGABRT,
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGFPE,
    ] {
        all.remove(signal);
    }
    Ok(all.thread_block()?)
}
