// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects whether the machine stalled while frames were in flight.
//!
//! A hypervisor that gives a CPU to another guest delays everything that runs on it, and frames are lost that the system under
//! test has not lost. The hypervisor need not report that as stolen time. So a timer on each relevant CPU reads the clock
//! regularly, and records when it was late (`bpf/pktgen_witness.bpf.c`).

use crate::kernel::{Stall, Vigil, Witness};
use serde::Serialize;

use crate::failure::Failure;
use crate::ways::Direction;

/// The period of the timer: short compared with the time that a ring can buffer at the rates of a CPU.
const PERIOD_NS: u64 = 500_000;
/// Shorter stalls are the kernel's own, while interrupts are disabled.
const STALL_NS: u64 = 200_000;

/// The observations on one CPU.
#[derive(Debug, Serialize)]
struct Watched {
    cpu: usize,
    /// The number of readings of the clock.
    looks: u64,
    /// The time of the first reading, CLOCK_MONOTONIC.
    first_ns: u64,
    /// The time of the last reading, CLOCK_MONOTONIC.
    last_ns: u64,
    stalls: Vec<StoodStill>,
}

/// A time during which the CPU was stalled.
#[derive(Clone, Copy, Debug, Serialize)]
struct StoodStill {
    /// The end of the stall, CLOCK_MONOTONIC.
    until_ns: u64,
    /// The least duration of the stall: it may have begun up to half a millisecond before.
    stood_still_ns: u64,
}

/// The observations while frames were sent.
#[derive(Debug, Default, Serialize)]
pub struct Seen {
    /// The observations on the watched CPUs. `None`: none was watched.
    watched: Option<Vec<Watched>>,
    /// The reason why none was watched although that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    watched_because: Option<String>,
}

/// Watches these CPUs while `run` sends. Frames are counted even if the witness fails.
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
    let watched = witness.map(|witness| end(&witness?, sending.0, sending.1));
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

/// Starts the witness.
fn begin(cpus: &[usize]) -> Result<Witness, Failure> {
    let vigil = Vigil {
        period_ns: PERIOD_NS,
        stall_ns: STALL_NS,
    };
    Witness::begin(&vigil, cpus).map_err(Failure::from)
}

/// Ends the witness. It reports the stalls that overlap the time from `begin` to `end`; CLOCK_MONOTONIC, ns.
fn end(witness: &Witness, begin: u64, end: u64) -> Result<Vec<Watched>, Failure> {
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
