// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Privileges: checks them before the program begins, and drops those that its threads do not need.
//!
//! Capabilities and system call filters belong to threads. The process keeps what a translator may need; each thread that reads
//! data from untrusted peers keeps only what its own work needs. No thread can gain more later (`no_new_privs`).

use diolkos_sys::limit;
use diolkos_sys::seccomp::{Calls, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX};
use rustix::io::Errno;
use rustix::process::{set_dumpable_behavior, DumpableBehavior};
use rustix::thread::{self as thread_rights, CapabilitySet, CapabilitySets};

use crate::confinement::{self, confine};
use crate::error::ServiceError;

/// A capability with its name in capabilities(7).
type Capability = (CapabilitySet, &'static str);
/// To make devices and routes.
pub const NET_ADMIN: Capability = (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN");
/// To open packet sockets.
pub const NET_RAW: Capability = (CapabilitySet::NET_RAW, "CAP_NET_RAW");

/// To load BPF programs for which the verifier must follow pointers.
pub const PERFMON: Capability = (CapabilitySet::PERFMON, "CAP_PERFMON");
/// To find the BPF programs of an earlier run.
pub const SYS_ADMIN: Capability = (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN");

/// For maps whose descriptors a thread has. Kernels before 5.19 check it on each change.
const MAPS: CapabilitySet = CapabilitySet::BPF;
/// For ports below 1024, which a DNS64 binds again when a socket fails.
const PORTS: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;
/// For router advertisements, which a DNS64 receives if it discovers its prefix.
const HEARING: CapabilitySet = CapabilitySet::NET_RAW;
/// For files of other users that root has named: the state file and binding logs.
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);
/// For devices, routes, packet sockets and BPF programs, and to find the programs of an earlier run.
const KERNEL: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);

/// All socket families that some thread opens. AF_NETLINK and AF_PACKET are for devices, routes and neighbours.
const FAMILIES: &[i32] = &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET];

/// The work of a thread: the capabilities and the system calls that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    capabilities: CapabilitySet,
    calls: &'static [Calls],
}

/// The event loop of a translator, its worker, and the threads that they start.
pub const TRANSLATOR: Role = Role {
    capabilities: KERNEL.union(FILES).union(PORTS),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(FAMILIES),
        Calls::Programs,
    ],
};
/// A thread that reads or changes BPF maps, and packets of an existing TUN device.
pub const TABLES: Role = Role {
    capabilities: MAPS,
    calls: &[Calls::Thread, Calls::EventLoop, Calls::Maps],
};
/// A thread that answers nodes that ask for bindings, on an existing socket, and changes BPF maps.
pub const PCP: Role = Role {
    capabilities: MAPS,
    calls: &[Calls::Thread, Calls::Messages, Calls::Maps],
};
/// The thread that writes the tables of a P4 switch, whose socket may belong to another user.
pub const SWITCH: Role = Role {
    capabilities: FILES,
    calls: &[Calls::Thread, Calls::Sockets(&[AF_UNIX])],
};
/// The thread that writes the state file.
pub const SAVER: Role = Role {
    capabilities: MAPS.union(FILES),
    calls: &[Calls::Thread, Calls::Files, Calls::Maps],
};
/// A thread that writes a binding log to a file or to a collector.
pub const LOG: Role = Role {
    capabilities: FILES,
    calls: &[
        Calls::Thread,
        Calls::Files,
        Calls::Sockets(&[AF_UNIX, AF_INET, AF_INET6]),
    ],
};
/// The thread of a cluster node, and the client of the engine that it starts: it reloads certificates, resolves server names,
/// and changes maps.
pub const CLUSTER: Role = Role {
    capabilities: MAPS.union(FILES),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(&[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK]),
        Calls::Maps,
    ],
};
/// The thread that reports to the service manager, on an existing socket.
pub const WATCHDOG: Role = Role {
    capabilities: CapabilitySet::empty(),
    calls: &[Calls::Thread, Calls::Messages],
};
/// A DNS64 with configured prefixes.
pub const DNS64: Role = Role {
    capabilities: PORTS,
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(&[AF_UNIX, AF_INET, AF_INET6]),
    ],
};
/// A DNS64 that discovers its prefix from the network.
pub const HEARING_DNS64: Role = Role {
    capabilities: PORTS.union(HEARING),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(FAMILIES),
    ],
};

/// Protects the memory of this process: no core is written, and no other process of the same user can trace it. The memory
/// contains secrets and data about who communicates with whom. With `DIOLKOS_SECCOMP=off`, for debugging, it does nothing.
pub fn seal() -> Result<(), ServiceError> {
    if confinement::is_off()? {
        return Ok(());
    }
    let sealed = set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into);
    sealed
        .and_then(|()| limit::no_core())
        .map_err(ServiceError::Cores)
}

/// Drops all capabilities and system calls that this thread, and the threads that it starts, do not need. They cannot be
/// regained, not even by starting another program. With CAP_SETPCAP, which units of systemd do not grant, it also empties the
/// bounding set.
pub fn keep(role: Role) -> Result<(), ServiceError> {
    let give_up = || {
        thread_rights::set_no_new_privs(true)?;
        let has = thread_rights::capabilities(None)?;
        if has.effective.contains(CapabilitySet::SETPCAP) {
            for one in CapabilitySet::all().iter() {
                match thread_rights::remove_capability_from_bounding_set(one) {
                    // An older kernel does not know the capability.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let left = CapabilitySets {
            effective: has.effective & role.capabilities,
            permitted: has.permitted & role.capabilities,
            inheritable: CapabilitySet::empty(),
        };
        thread_rights::set_capabilities(None, left)
    };
    give_up().map_err(|error: Errno| ServiceError::Capabilities(error.into()))?;
    confine(role.calls)
}

/// Fails unless the process has these capabilities. CAP_BPF is not checked here: more than one capability decides whether a
/// kernel lets a process load BPF programs, and the slow path works without them.
pub fn check(needed: &[Capability]) -> Result<(), ServiceError> {
    let missing = missing(needed);
    if missing.is_empty() {
        return Ok(());
    }
    Err(ServiceError::Privileges(missing))
}

/// The capabilities among these that this thread does not have.
pub fn missing(needed: &[Capability]) -> Vec<&'static str> {
    let sets = thread_rights::capabilities(None);
    let effective = sets.map_or(CapabilitySet::empty(), |sets| sets.effective);
    let missing = needed.iter().filter(|(one, _)| !effective.contains(*one));
    missing.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_gives_up_is_its_own_and_does_not_come_back() {
        let sets = || thread_rights::capabilities(None).expect("it can be asked");
        let before = sets();
        let given_up = std::thread::spawn(move || {
            keep(DNS64).expect("less is always possible");
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
    fn what_a_thread_lacks_is_named() {
        let lacking = std::thread::spawn(|| {
            keep(DNS64).expect("less is always possible");
            missing(&[NET_ADMIN, PERFMON])
        });
        let lacking = lacking.join().expect("it ended");
        assert_eq!(lacking, ["CAP_NET_ADMIN", "CAP_PERFMON"]);
    }
}
