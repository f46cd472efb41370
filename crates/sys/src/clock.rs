// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of the fast path's time stamps, and the clock that also advances while the machine sleeps.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};

/// CLOCK_MONOTONIC as BPF programs read it. It stands still while the machine sleeps. In a time namespace (time_namespaces(7)),
/// a process reads a value that is shifted against it.
pub fn monotonic() -> Duration {
    let shown_ns = now_ns(ClockId::Monotonic);
    Duration::from_nanos(shown_ns.saturating_sub(ahead_ns()[0]).max(0) as u64)
}

/// CLOCK_MONOTONIC_COARSE as BPF programs read it: the value of [`monotonic`] when a CPU has last noticed a tick. That is late by
/// more than a tick where a hypervisor stops that CPU.
pub fn monotonic_coarse() -> Duration {
    let shown_ns = now_ns(ClockId::MonotonicCoarse);
    Duration::from_nanos(shown_ns.saturating_sub(ahead_ns()[0]).max(0) as u64)
}

/// CLOCK_MONOTONIC as other processes in this time namespace read it.
pub fn shown_monotonic() -> Duration {
    Duration::from_nanos(now_ns(ClockId::Monotonic).max(0) as u64)
}

/// CLOCK_BOOTTIME as this process reads it. Compare it only with earlier values of the same process.
pub fn boottime() -> Duration {
    Duration::from_nanos(now_ns(ClockId::Boottime).max(0) as u64)
}

/// CLOCK_BOOTTIME as BPF programs read it.
pub fn kernel_boottime() -> Duration {
    let shown_ns = now_ns(ClockId::Boottime);
    Duration::from_nanos(shown_ns.saturating_sub(ahead_ns()[1]).max(0) as u64)
}

/// CPU time that all threads of this process have used.
pub fn process_cpu() -> Duration {
    Duration::from_nanos(now_ns(ClockId::ProcessCPUTime).max(0) as u64)
}

const NS: i64 = 1_000_000_000;

fn now_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * NS + time.tv_nsec
}

/// The offsets of the clocks that this process reads: monotonic, boottime. They cannot change after a namespace's first process
/// has started.
fn ahead_ns() -> [i64; 2] {
    static AHEAD_NS: OnceLock<[i64; 2]> = OnceLock::new();
    *AHEAD_NS.get_or_init(|| {
        // Without time namespaces the file does not exist.
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        ["monotonic", "boottime"].map(|clock| parse(&offsets, clock).unwrap_or(0))
    })
}

/// Parses lines with the name of a clock, seconds, and nanoseconds.
fn parse(offsets: &str, clock: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix(clock))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(NS)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_time_namespaces() {
        assert_eq!(
            parse(
                "monotonic           0         0\nboottime            0         0\n",
                "monotonic"
            ),
            Some(0)
        );
        assert_eq!(
            parse(
                "monotonic         -60         0\nboottime 7 8\n",
                "monotonic"
            ),
            Some(-60 * NS)
        );
        assert_eq!(
            parse("boottime 7 8\nmonotonic 2592000 500\n", "monotonic"),
            Some(2_592_000 * NS + 500)
        );
        assert_eq!(
            parse("boottime 7 8\nmonotonic 9 0\n", "boottime"),
            Some(7 * NS + 8)
        );
        for wrong in [
            "",
            "monotonic",
            "monotonic 1",
            "monotonic a b",
            "monotonic 9223372036854775807 0",
        ] {
            assert_eq!(parse(wrong, "monotonic"), None, "{wrong}");
        }
    }

    #[test]
    fn it_goes_on() {
        let before = monotonic();
        assert!(monotonic() >= before && before > Duration::ZERO);
    }
}
