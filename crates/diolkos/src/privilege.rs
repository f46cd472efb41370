// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the process may do, asked before anything is begun.

use std::fs;

use crate::failure::Failure;

/// Of linux/capability.h.
type Capability = (u32, &'static str);
/// To make devices and routes.
pub const NET_ADMIN: Capability = (12, "CAP_NET_ADMIN");
/// To open packet sockets.
pub const NET_RAW: Capability = (13, "CAP_NET_RAW");

/// To load programs in which the verifier has to follow pointers.
pub const PERFMON: Capability = (38, "CAP_PERFMON");
/// To find what programs of an earlier run have.
pub const SYS_ADMIN: Capability = (21, "CAP_SYS_ADMIN");

/// Fails unless the process has these capabilities. BPF is not asked for here: whether a kernel
/// lets a process load programs depends on more than one capability, and there is a path without them.
pub fn check(needed: &[Capability]) -> Result<(), Failure> {
    let missing = missing(needed);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::missing(format!(
        "translating packets needs {}: run it as root, or give it the capabilities",
        missing.join(" and ")
    )))
}

/// Those of them that the process does not have.
pub fn missing(needed: &[Capability]) -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let Some(effective) = effective(&status) else {
        return Vec::new();
    };
    let missing = needed.iter().filter(|(bit, _)| effective >> bit & 1 == 0);
    missing.map(|(_, name)| *name).collect()
}

/// The effective capabilities in /proc/PID/status (proc(5)).
fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        assert_eq!(
            effective("Name:\tx\nCapEff:\t0000000000003000\n"),
            Some(0x3000)
        );
        assert_eq!(effective("Name:\tx\n"), None);
    }
}
