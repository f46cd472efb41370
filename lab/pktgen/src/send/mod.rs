// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends the frames of a plan in a thread of its own: as `live` frames of the kernel if possible, otherwise by a `packet`
//! socket; `outcome` then reports what was sent.

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

/// The path of frames to the interface.
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
    /// The plan of the frames.
    pub plan: Plan,
    /// The requested pace.
    pub pace: Pace,
    /// The path; `None`: live if possible, otherwise packet.
    pub path: Option<Path>,
    /// The CPU to run on.
    pub cpu: Option<usize>,
    /// The report contains all buckets of the distributions.
    pub whole: bool,
    /// The 4-tuples that a sink remembers, if they are used; only for live frames.
    pub memory: Option<&'a Memory>,
}

/// The result of sending on either path. Times are of CLOCK_MONOTONIC.
#[derive(Debug)]
struct Done {
    path: Path,
    /// The reason why it was not the first choice.
    because: Option<String>,
    /// Number of written frames; their sequence numbers are below it.
    written: u64,
    /// Number of frames that the interface accepted.
    accepted: u64,
    bursts: u64,
    begun_ns: u64,
    /// Start time of the last burst.
    burst_ns: u64,
    /// Buckets of the gaps from the start of one burst to the start of the next.
    gaps: Vec<u64>,
    /// Buckets of the lateness of bursts: from the scheduled to the actual start.
    late: Vec<u64>,
}

/// The reason why live frames were not sent.
enum NotLive {
    /// Live frames do not work here, and nothing was sent.
    Unable(String),
    Failed(Failure),
}

/// Stops all generators of the program.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    stoppers: Mutex<Vec<Stopper>>,
}

impl Stop {
    /// Prevents further bursts.
    pub fn ask(&self) -> Result<(), Failure> {
        // The lock ensures that a generator that is just being created is not missed.
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
    /// Runs the job in this thread, which must be in the interface's network namespace.
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

    /// Pins the thread. Threads that are started later inherit its CPU, so this comes last.
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
