// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that have other numbers on other architectures.

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
