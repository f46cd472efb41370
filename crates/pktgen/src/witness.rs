// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Did the machine stand still while frames were on their way?
//!
//! A hypervisor that gives a CPU to another guest holds up whatever runs there, and frames are lost that no system under
//! test has lost. It need not count that as stolen time. So a thread on each CPU that matters sleeps for half a millisecond
//! again and again, before all other programs, and notes when it was woken late: the way of cyclictest(8).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diolkos_sys::{clock, task};
use serde::Serialize;

use crate::failure::Failure;

/// From one look at the clock to the next. Two thousand a second take some 0.5 % of a CPU.
const PERIOD: Duration = Duration::from_micros(500);
/// Shorter ones are the kernel's own work.
const STALL: Duration = Duration::from_micros(200);
/// Of one CPU; a machine that stands still more often than this is told by these.
const MOST: usize = 4096;

/// A time in which nothing ran on a CPU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stall {
    cpu: usize,
    /// When it was over, CLOCK_MONOTONIC.
    until_ns: u64,
    /// How long, at least: it may have begun up to half a millisecond before.
    stood_still_ns: u64,
}

/// Threads that watch CPUs.
#[derive(Debug)]
pub struct Witness {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Stall>, Failure>>>,
}

impl Witness {
    /// Begins to watch.
    pub fn begin(cpus: &[usize]) -> Witness {
        let over = Arc::new(AtomicBool::new(false));
        let threads = cpus
            .iter()
            .map(|&cpu| {
                let over = Arc::clone(&over);
                thread::spawn(move || watch(cpu, &over))
            })
            .collect();
        Witness { over, threads }
    }

    /// Ends. Returns what was seen that is not over before `begin` and has begun before `end`, CLOCK_MONOTONIC ns. Fails
    /// where a CPU could not be watched.
    pub fn end(self, begin: u64, end: u64) -> Result<Vec<Stall>, Failure> {
        self.over.store(true, Relaxed);
        let mut seen = Vec::new();
        for thread in self.threads {
            seen.extend(
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure::run_time("a watching thread broke down")))?,
            );
        }
        seen.retain(|stall| {
            stall.until_ns > begin && stall.until_ns.saturating_sub(stall.stood_still_ns) < end
        });
        Ok(seen)
    }
}

fn watch(cpu: usize, over: &AtomicBool) -> Result<Vec<Stall>, Failure> {
    task::pin(cpu).map_err(|e| Failure::run_time(format!("cannot run on CPU {cpu}: {e}")))?;
    task::take_precedence().map_err(|e| {
        Failure::missing(format!(
            "cannot run before other programs (SCHED_FIFO): {e}"
        ))
    })?;
    let mut seen = Vec::new();
    while !over.load(Relaxed) {
        let asleep = clock::monotonic();
        thread::sleep(PERIOD);
        let now = clock::monotonic();
        let late = now.saturating_sub(asleep + PERIOD);
        if late >= STALL && seen.len() < MOST {
            seen.push(Stall {
                cpu,
                until_ns: now.as_nanos() as u64,
                stood_still_ns: late.as_nanos() as u64,
            });
        }
    }
    Ok(seen)
}
