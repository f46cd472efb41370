// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures that monitoring systems expect of every process, with their usual names.

use std::fs;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use diolkos_sys::clock;
use prometheus_client::registry::Unit;

use super::family::{Family, Value};

/// The start time of the process, approximately: the value is first used when the program starts.
static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// Records the start time. Call it when the program starts.
pub fn note_start() {
    LazyLock::force(&STARTED);
}

/// Start time, CPU time and memory.
pub fn families() -> Vec<Family> {
    let started = STARTED.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut families = vec![
        Family::new(
            "process_start_time",
            "Start time of the process, in seconds since 1970.",
        )
        .unit(Unit::Seconds)
        .with(&[], Value::Moment(started.as_secs_f64())),
        Family::new(
            "process_cpu",
            "CPU time of all threads, without the BPF programs in the kernel.",
        )
        .unit(Unit::Seconds)
        .with(&[], Value::Seconds(clock::process_cpu().as_secs_f64())),
    ];
    if let Some(bytes) = resident() {
        let family = Family::new("process_resident_memory", "Memory in use.");
        let family = family.unit(Unit::Bytes);
        families.push(family.with(&[], Value::Gauge(bytes)));
    }
    families
}

/// Resident memory from `/proc/self/status`, in units of 1024 bytes.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_has_worked() {
        assert!(resident().is_some_and(|bytes| bytes > 100_000));
        assert!(!clock::process_cpu().is_zero());
    }
}
