// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that have other numbers on other architectures, and threads that handle none.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// End a process by default, and tell a service nothing.
pub const MEANINGLESS: [i32; 9] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    // A write beyond the limit then fails, which is told as such.
    libc::SIGXFSZ,
];

/// Blocks, in this thread and those that it starts, all signals but those of faults: other threads, or the process that has started
/// this one, handle them.
pub fn leave_to_others() -> io::Result<()> {
    let mut all = SigSet::all();
    // Those that the process sends itself when it is broken.
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
