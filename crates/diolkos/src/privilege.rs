// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the process may do, asked before anything is begun, and what its threads give up.
//!
//! Capabilities belong to threads. The process keeps those that a translator can have a use for; each thread that reads what
//! strangers send keeps those of its own work only. Nobody gets more again (`no_new_privs`).

use std::fs;

use rustix::thread::{self as thread_rights, CapabilitySet, CapabilitySets};

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

/// For maps whose descriptors a thread has. Kernels before 5.19 ask for it at each change.
pub const MAPS: CapabilitySet = CapabilitySet::BPF;
/// For ports below 1024, which a DNS64 binds again when a socket breaks.
pub const PORTS: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;
/// For router advertisements, which a DNS64 hears that learns its prefix.
pub const HEARING: CapabilitySet = CapabilitySet::NET_RAW;
/// For files of other users that root has named: the state file, and logs of bindings.
pub const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);
/// For devices, routes, packet sockets and programs, and for finding the programs of an earlier run.
const KERNEL: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);
/// Everything that some thread of a translator needs.
pub const TRANSLATOR: CapabilitySet = KERNEL.union(FILES).union(PORTS);

/// Gives up every other capability of this thread, and of those that it starts; none comes back, by no program that is
/// started either.
pub fn keep(rights: CapabilitySet) -> Result<(), Failure> {
    let give_up = || {
        thread_rights::set_no_new_privs(true)?;
        let has = thread_rights::capabilities(None)?;
        let left = CapabilitySets {
            effective: has.effective & rights,
            permitted: has.permitted & rights,
            inheritable: CapabilitySet::empty(),
        };
        thread_rights::set_capabilities(None, left)
    };
    give_up().map_err(|error: rustix::io::Errno| {
        Failure::run_time(format!("cannot drop capabilities: {error}"))
    })
}

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
    fn what_a_thread_gives_up_is_its_own_and_does_not_come_back() {
        let sets = || thread_rights::capabilities(None).expect("it can be asked");
        let before = sets();
        let given_up = std::thread::spawn(move || {
            keep(PORTS).expect("less is always possible");
            let heir = std::thread::spawn(sets).join().expect("it ended");
            let again = thread_rights::set_capabilities(None, before);
            (
                sets(),
                heir,
                again.is_err() || before.permitted.difference(PORTS).is_empty(),
            )
        });
        let (own, heir, is_refused) = given_up.join().expect("it ended");
        for sets in [own, heir] {
            assert!(PORTS.contains(sets.permitted) && PORTS.contains(sets.effective));
            assert!(sets.inheritable.is_empty());
        }
        assert!(is_refused);
        assert_eq!(sets().permitted, before.permitted);
    }

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        assert_eq!(
            effective("Name:\tx\nCapEff:\t0000000000003000\n"),
            Some(0x3000)
        );
        assert_eq!(effective("Name:\tx\n"), None);
    }
}
