// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The execution of a thread: its CPU, its network namespace, its sleep, and the signals that end a program whose threads do
//! not stop their work to check for them.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use rustix::io::Errno;
use rustix::thread::{
    clock_nanosleep_absolute, gettid, move_into_link_name_space, sched_setaffinity,
    set_current_timer_slack, ClockId, CpuSet, LinkNameSpaceType, Timespec,
};

/// The thread's number, unique on the machine.
pub fn id() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

/// Restricts this thread to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Moves this thread, and the threads that it starts later, into another network namespace.
pub fn enter_network_namespace(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    Ok(move_into_link_name_space(
        file.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// Sleeps until a time of CLOCK_MONOTONIC, or until a signal arrives.
pub fn sleep_until(moment: Duration) {
    let until = Timespec {
        tv_sec: moment.as_secs() as i64,
        tv_nsec: moment.subsec_nanos().into(),
    };
    // A signal ends it early.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

/// Makes this thread's sleep end on time. By default the kernel may add 50 µs.
pub fn wake_promptly() {
    // On an error, sleep is only less punctual.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// A thread whose current system call another thread can interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Interruptible(u32);

impl Interruptible {
    /// The current thread. It uses SIGUSR1, which has no other effect.
    pub fn this_thread() -> io::Result<Interruptible> {
        extern "C" fn nothing(_: libc::c_int) {}
        // Without SA_RESTART, the signal ends the system call.
        let handler = SigHandler::Handler(nothing);
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler may be called at any time, on any thread, for it does nothing.
        unsafe { sigaction(Signal::SIGUSR1, &action) }?;
        Ok(Interruptible(id()))
    }

    /// Ends the thread's current system call, if it is in one.
    pub fn interrupt(self) -> io::Result<()> {
        // SAFETY: takes no pointers; a thread that is gone is refused.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                libc::getpid(),
                self.0 as libc::pid_t,
                libc::SIGUSR1,
            )
        };
        match sent {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// SIGINT, SIGTERM and SIGHUP, blocked in this thread and the threads that it starts later: one thread waits for them.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    arrived: AtomicBool,
}

impl Signals {
    /// Blocks the signals from now on.
    pub fn hold() -> io::Result<Signals> {
        let set = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        set.thread_block()?;
        Ok(Signals {
            set,
            arrived: AtomicBool::new(false),
        })
    }

    /// Returns true if one of them has arrived, as far as a call of [`Signals::wait`] has noticed it.
    pub fn have_arrived(&self) -> bool {
        self.arrived.load(Relaxed)
    }

    /// Waits at most `at_most`. Returns true if one of them has arrived, now or before.
    pub fn wait(&self, at_most: Duration) -> bool {
        if self.have_arrived() {
            return true;
        }
        let time = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos() as libc::c_long,
        };
        // SAFETY: set and time are valid for reading; nothing is asked about the signal.
        let signal =
            unsafe { libc::sigtimedwait(self.set.as_ref(), std::ptr::null_mut(), &raw const time) };
        self.arrived.fetch_or(signal > 0, Relaxed);
        signal > 0
    }
}
