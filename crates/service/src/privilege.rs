// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the process may do, asked before anything is begun, and what its threads give up.
//!
//! Capabilities and filters of system calls belong to threads. The process keeps what a translator can have a use for; each
//! thread that reads what strangers send keeps what its own work needs. Nobody gets more again (`no_new_privs`).

use std::fs;

use diolkos_sys::limit;
use diolkos_sys::seccomp::{Calls, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX};
use rustix::io::Errno;
use rustix::process::{set_dumpable_behavior, DumpableBehavior};
use rustix::thread::{self as thread_rights, CapabilitySet, CapabilitySets};

use crate::confinement::{self, confine};
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
const MAPS: CapabilitySet = CapabilitySet::BPF;
/// For ports below 1024, which a DNS64 binds again when a socket breaks.
const PORTS: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;
/// For router advertisements, which a DNS64 hears that learns its prefix.
const HEARING: CapabilitySet = CapabilitySet::NET_RAW;
/// To give a program that it starts another user, and to kill that.
const USERS: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);
/// For files of other users that root has named: the state file, and logs of bindings.
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);
/// For devices, routes, packet sockets and programs, and for finding the programs of an earlier run.
const KERNEL: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN);

/// The overflow user and group ID, which own no file (linux/highuid.h).
pub const NOBODY: u32 = 65534;

/// All families of sockets that some thread opens. AF_NETLINK, AF_PACKET: devices, routes and neighbours.
const FAMILIES: &[i32] = &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET];

/// The work of a thread: the capabilities and the system calls that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    capabilities: CapabilitySet,
    /// What programs that it starts may have of them.
    passes_on: CapabilitySet,
    calls: &'static [Calls],
}

/// The event loop of a translator, its worker, and whatever they start.
pub const TRANSLATOR: Role = Role {
    capabilities: KERNEL.union(FILES).union(PORTS),
    passes_on: CapabilitySet::empty(),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(FAMILIES),
        Calls::Programs,
    ],
};
/// What starts translators as processes of their own, which begin with all that it has.
pub const MANAGER: Role = Role {
    capabilities: TRANSLATOR.capabilities,
    passes_on: TRANSLATOR.capabilities,
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(FAMILIES),
        Calls::Programs,
        Calls::Processes,
    ],
};
/// A thread that reads or changes BPF maps, and packets of a TUN device that is there already.
pub const TABLES: Role = Role {
    capabilities: MAPS,
    passes_on: CapabilitySet::empty(),
    calls: &[Calls::Thread, Calls::EventLoop, Calls::Maps],
};
/// The thread that writes the state file.
pub const SAVER: Role = Role {
    capabilities: MAPS.union(FILES),
    passes_on: CapabilitySet::empty(),
    calls: &[Calls::Thread, Calls::Files, Calls::Maps],
};
/// A thread that writes a log of bindings: to a file, or to a collector.
pub const LOG: Role = Role {
    capabilities: FILES,
    passes_on: CapabilitySet::empty(),
    calls: &[
        Calls::Thread,
        Calls::Files,
        Calls::Sockets(&[AF_UNIX, AF_INET, AF_INET6]),
    ],
};
/// The thread of a cluster's node, and the client of the engine that it starts: it reads certificates anew, asks for names of
/// servers, and changes maps.
pub const CLUSTER: Role = Role {
    capabilities: MAPS.union(FILES),
    passes_on: CapabilitySet::empty(),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(&[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK]),
        Calls::Maps,
    ],
};
/// The thread that speaks to the service manager, on a socket that is there already.
pub const WATCHDOG: Role = Role {
    capabilities: CapabilitySet::empty(),
    passes_on: CapabilitySet::empty(),
    calls: &[Calls::Thread, Calls::Messages],
};
/// What keeps the process of a DNS64 running, and opens the ports of that one.
pub const KEEPER: Role = Role {
    capabilities: PORTS.union(USERS),
    passes_on: CapabilitySet::empty(),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(FAMILIES),
        Calls::Processes,
        Calls::Users,
    ],
};
/// The same where the network says the prefix: it hears routers for that process.
pub const HEARING_KEEPER: Role = Role {
    capabilities: KEEPER.capabilities.union(HEARING),
    passes_on: CapabilitySet::empty(),
    calls: KEEPER.calls,
};
/// The process of a DNS64 beside a translator: sockets of the Internet, and no files. Its user is no longer root where its keeper
/// has [`USERS`].
pub const DNS64_PROCESS: Role = Role {
    capabilities: CapabilitySet::empty(),
    passes_on: CapabilitySet::empty(),
    calls: &[Calls::Thread, Calls::EventLoop, Calls::Internet],
};
/// A DNS64 alone with configured prefixes.
pub const DNS64: Role = Role {
    capabilities: PORTS,
    passes_on: CapabilitySet::empty(),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(&[AF_UNIX, AF_INET, AF_INET6]),
    ],
};
/// A DNS64 alone that learns its prefix from the network.
pub const HEARING_DNS64: Role = Role {
    capabilities: PORTS.union(HEARING),
    passes_on: CapabilitySet::empty(),
    calls: &[
        Calls::Thread,
        Calls::Threads,
        Calls::EventLoop,
        Calls::Files,
        Calls::Sockets(FAMILIES),
    ],
};

/// The user of a process that needs nothing of the host's, unless this one has none to give: then it is not root, or a unit or
/// container has taken [`USERS`] from it. The package makes such a user (`packaging/debian/diolkos.sysusers`); otherwise it is
/// the one that owns nothing.
pub fn lesser_user() -> Option<u32> {
    let has = thread_rights::capabilities(None).ok()?.effective;
    let may = rustix::process::geteuid().is_root() && has.contains(USERS);
    may.then(|| {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        user_of(&users).unwrap_or(NOBODY)
    })
}

/// The package's user in passwd(5).
fn user_of(passwd: &str) -> Option<u32> {
    let mut lines = passwd.lines().map(|line| line.split(':'));
    let mut its = lines.find(|fields| fields.clone().next() == Some("diolkos"))?;
    its.nth(2)?.parse().ok().filter(|user| *user != 0)
}

/// Keeps what this process has in memory from others: no core is written, and no other process of the same user can trace it.
/// It knows who asked for what, and secrets. Where somebody looks for an error (`DIOLKOS_SECCOMP=off`), nothing is done.
pub fn seal() -> Result<(), Failure> {
    if confinement::is_off()? {
        return Ok(());
    }
    let sealed = set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into);
    sealed
        .and_then(|()| limit::no_core())
        .map_err(|error: std::io::Error| Failure::run_time(format!("cannot forbid cores: {error}")))
}

impl Role {
    /// Whether it starts programs, which inherit what the thread has.
    pub fn starts_programs(&self) -> bool {
        self.calls.iter().any(|c| matches!(c, Calls::Processes))
    }
}

/// Gives up everything that this thread, and those that it starts, do not need for their work; nothing comes back, by no
/// program that is started either. With CAP_SETPCAP, which units of systemd do not give, it says so to the kernel a second time:
/// the bounding set is emptied.
pub fn keep(role: Role) -> Result<(), Failure> {
    let give_up = || {
        thread_rights::set_no_new_privs(true)?;
        let has = thread_rights::capabilities(None)?;
        if has.effective.contains(CapabilitySet::SETPCAP) {
            for one in CapabilitySet::all().difference(role.passes_on).iter() {
                match thread_rights::remove_capability_from_bounding_set(one) {
                    // An older kernel does not know it.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let left = CapabilitySets {
            effective: has.effective & role.capabilities,
            permitted: has.permitted & role.capabilities,
            inheritable: has.inheritable & role.passes_on,
        };
        thread_rights::set_capabilities(None, left)
    };
    give_up()
        .map_err(|error: Errno| Failure::run_time(format!("cannot drop capabilities: {error}")))?;
    confine(role.calls)
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
    fn the_user_of_the_package_is_never_root() {
        let others = "root:x:0:0:root:/root:/bin/sh\ndiolkosx:x:7:7::/:\n";
        let with = |line: &str| user_of(&format!("{others}{line}\n"));
        assert_eq!(
            with("diolkos:x:998:997:diolkos DNS64:/:/usr/sbin/nologin"),
            Some(998)
        );
        for line in [
            "",
            "diolkos:x:0:0::/:",
            "diolkos:x::",
            "diolkos",
            "a:diolkos:1:1",
        ] {
            assert_eq!(with(line), None, "{line}");
        }
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
