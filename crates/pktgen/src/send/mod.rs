// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends what a plan says, in a thread of its own: `live` frames of the kernel where it can, else by a `packet` socket;
//! then `outcome` says what was really sent.

mod live;
mod outcome;
mod packet;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::kernel::{Memory, Plan, Stopper};
use diolkos_sys::task;

use crate::failure::Failure;
use crate::pace::Pace;

pub use outcome::Sent;

/// How frames get to the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// XDP frames that a program in the kernel writes (Linux 5.18 and later).
    Live,
    /// A packet socket.
    Packet,
}

/// A job for the generating thread.
#[derive(Debug)]
pub struct Job<'a> {
    /// What to send.
    pub plan: Plan,
    /// How fast it was asked to.
    pub pace: Pace,
    /// By which path; None: live if that goes, else packet.
    pub path: Option<Path>,
    /// The CPU to run on.
    pub cpu: Option<usize>,
    /// The report has all buckets of the distributions.
    pub whole: bool,
    /// 4-tuples are those that a sink remembers; only as live frames.
    pub memory: Option<&'a Memory>,
}

/// What was done, whichever way. Times are of CLOCK_MONOTONIC.
#[derive(Debug)]
struct Done {
    path: Path,
    /// Why it was not the first choice.
    because: Option<String>,
    /// Frames that were written; their sequence numbers are those below it.
    written: u64,
    /// Frames that the interface took.
    accepted: u64,
    bursts: u64,
    begun_ns: u64,
    /// When the last burst began.
    burst_ns: u64,
    /// Buckets: from the beginning of one burst to that of the next.
    gaps: Vec<u64>,
    /// Buckets: from when a burst was due to when it began.
    late: Vec<u64>,
}

/// Why frames do not go by live frames.
enum NotLive {
    /// It does not work here, and nothing was sent.
    Unable(String),
    Failed(Failure),
}

/// Ends all generators of the program.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    stoppers: Mutex<Vec<Stopper>>,
}

impl Stop {
    /// No further burst begins.
    pub fn ask(&self) -> Result<(), Failure> {
        // Under the lock, so that a generator that comes to be meanwhile is not forgotten.
        let stoppers = self.stoppers.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked.store(true, Ordering::Relaxed);
        let failed = |e| Failure::refused("stop the generator", &e);
        stoppers.iter().try_for_each(|s| s.stop().map_err(failed))
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn add(&self, stopper: Stopper) -> Result<(), Failure> {
        let mut stoppers = self.stoppers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_asked() {
            let failed = |e| Failure::refused("stop the generator", &e);
            stopper.stop().map_err(failed)?;
        }
        stoppers.push(stopper);
        Ok(())
    }
}

impl Job<'_> {
    /// Does it, in this thread, which has to be in the interface's network namespace.
    pub fn run(&self, stop: &Stop) -> Result<Sent, Failure> {
        let done = match self.path {
            Some(Path::Packet) if self.memory.is_none() => packet::send(self, stop, None)?,
            path => match live::send(self, stop) {
                Ok(done) => done,
                Err(NotLive::Failed(failure)) => return Err(failure),
                Err(NotLive::Unable(why)) if path.is_none() && self.memory.is_none() => {
                    packet::send(self, stop, Some(why))?
                }
                Err(NotLive::Unable(why)) => return Err(Failure::missing(why)),
            },
        };
        Ok(Sent::new(self, &done))
    }

    /// Threads that are started later run where this one does, so it is done last.
    fn settle_down(&self) -> Result<(), Failure> {
        task::wake_promptly();
        match self.cpu {
            Some(cpu) => {
                task::pin(cpu).map_err(|e| Failure::usage(format!("there is no CPU {cpu}: {e}")))
            }
            None => Ok(()),
        }
    }
}
