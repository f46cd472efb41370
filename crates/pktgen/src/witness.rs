// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Did the machine stand still while frames were on their way?
//!
//! A hypervisor that gives a CPU to another guest holds up whatever runs there, and frames are lost that no system under
//! test has lost. It need not count that as stolen time. So a timer on each CPU that matters looks at the clock again and
//! again, and notes when it came late (`bpf/pktgen_witness.bpf.c`).

use crate::kernel::{Stall, Vigil, Witness};
use serde::Serialize;

use crate::failure::Failure;
use crate::ways::Direction;

/// From one look at the clock to the next: short beside what a ring can hold at the rates of a CPU.
const PERIOD_NS: u64 = 500_000;
/// Shorter ones are the kernel's own, when it switches interrupts off.
const STALL_NS: u64 = 200_000;

/// What was seen on one CPU.
#[derive(Debug, Serialize)]
struct Watched {
    cpu: usize,
    /// Looks at the clock.
    looks: u64,
    /// When the first look was, CLOCK_MONOTONIC.
    first_ns: u64,
    /// And the last.
    last_ns: u64,
    stalls: Vec<StoodStill>,
}

/// A time in which nothing ran on the CPU.
#[derive(Clone, Copy, Debug, Serialize)]
struct StoodStill {
    /// When it was over, CLOCK_MONOTONIC.
    until_ns: u64,
    /// How long, at least: it may have begun up to half a millisecond before.
    stood_still_ns: u64,
}

/// What was seen while frames were sent.
#[derive(Debug, Default, Serialize)]
pub struct Seen {
    /// Of the CPUs that were to be watched. None: none was.
    watched: Option<Vec<Watched>>,
    /// Why none was, though some were to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    watched_because: Option<String>,
}

/// Watches these CPUs while `run` sends. Without a witness, frames are counted all the same.
pub fn watch(
    cpus: &[usize],
    run: impl FnOnce() -> Result<Vec<Direction>, Failure>,
) -> Result<(Vec<Direction>, Seen), Failure> {
    let witness = (!cpus.is_empty()).then(|| begin(cpus));
    let directions = run()?;
    let times = directions.iter().map(Direction::sending_ns);
    let sending = times.fold((u64::MAX, 0), |(begin, end), (first, last)| {
        (begin.min(first), end.max(last))
    });
    let watched = witness.map(|witness| end(&witness?, sending));
    let (watched, watched_because) = match watched.transpose() {
        Ok(watched) => (watched, None),
        Err(failure) => (None, Some(failure.to_string())),
    };
    let seen = Seen {
        watched,
        watched_because,
    };
    Ok((directions, seen))
}

/// Begins to watch.
fn begin(cpus: &[usize]) -> Result<Witness, Failure> {
    let vigil = Vigil {
        period_ns: PERIOD_NS,
        stall_ns: STALL_NS,
    };
    Witness::begin(&vigil, cpus).map_err(Failure::from)
}

/// Ends. Of stalls, those count that lie between `begin` and `end` or reach into that time; CLOCK_MONOTONIC ns.
fn end(witness: &Witness, (begin, end): (u64, u64)) -> Result<Vec<Watched>, Failure> {
    let refused = |e| Failure::refused("read what the witness saw", &e);
    let stalls = witness.stalls().map_err(refused)?;
    let counts = |stall: &&Stall| {
        stall.until_ns > begin && stall.until_ns.saturating_sub(stall.stood_still_ns) < end
    };
    let watched = witness.looks().map_err(refused)?;
    let watched = watched.into_iter().map(|(cpu, looks)| Watched {
        cpu,
        looks: looks.count,
        first_ns: looks.first_ns,
        last_ns: looks.last_ns,
        stalls: stalls
            .iter()
            .filter(|stall| stall.cpu == cpu as u64)
            .filter(counts)
            .map(|stall| StoodStill {
                until_ns: stall.until_ns,
                stood_still_ns: stall.stood_still_ns,
            })
            .collect(),
    });
    Ok(watched.collect())
}
