// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter of the system calls that a thread may make (seccomp(2)).
//!
//! [`calls`] (groups of calls) → [`Filter`] (compiled for this machine) → [`Filter::install`]. A thread keeps its filter for
//! good, and so do the threads that it starts; a further filter can only forbid more.

mod calls;

use std::collections::BTreeMap;
use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

use crate::clock;

pub use calls::Calls;
pub use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX};

/// The treatment of a call that is not allowed. The kernel logs it in both cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Otherwise {
    /// It fails with EPERM.
    Refuse,
    /// It succeeds.
    Log,
}

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Filter {
    allowed: BpfProgram,
    /// Answers clone3(2) with ENOSYS: its flags are in memory, which no filter can read. The C library then uses clone(2).
    unseen: BpfProgram,
}

impl Filter {
    /// A filter that allows these calls. Fails on an architecture without a list.
    pub fn of(allowed: &[Calls], otherwise: Otherwise) -> io::Result<Filter> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        let unconditional: Vec<i64> = allowed.iter().flat_map(|calls| calls.always()).collect();
        for (number, rule) in allowed.iter().flat_map(|calls| calls.where_arguments_are()) {
            rules
                .entry(number)
                .or_default()
                .extend(rule.map_err(invalid)?);
        }
        // A call without rules is allowed with any arguments.
        rules.extend(unconditional.into_iter().map(|number| (number, Vec::new())));
        let otherwise = match otherwise {
            Otherwise::Refuse => SeccompAction::Errno(libc::EPERM as u32),
            Otherwise::Log => SeccompAction::Log,
        };
        let allowed = compiled(rules, otherwise, SeccompAction::Allow)?;
        let unseen = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
        let unseen = compiled(unseen, SeccompAction::Allow, unknown)?;
        Ok(Filter { allowed, unseen })
    }

    /// Restricts this thread, and the threads that it starts, to the allowed calls. `no_new_privs` must be set.
    pub fn install(&self) -> io::Result<()> {
        // The first use of the clock opens files: the offset of a time namespace, and the location of the kernel's fast clock.
        // Both are kept.
        clock::monotonic();
        install(&self.unseen, 0)?;
        install(&self.allowed, libc::SECCOMP_FILTER_FLAG_LOG)
    }
}

fn compiled(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> io::Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(invalid)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, machine).map_err(invalid)?;
    filter.try_into().map_err(invalid)
}

fn invalid(error: seccompiler::BackendError) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, error.to_string())
}

/// Installs a program. The library can install filters too, but does not make the kernel log, and makes it slow the thread down
/// (before Linux 5.16) as if it ran untrusted code.
fn install(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<()> {
    let filter = program.as_ptr().cast_mut().cast::<libc::sock_filter>();
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter,
    };
    // SAFETY: the library's instruction has the layout of the kernel's, as libc's has. The kernel copies them, and writes nothing.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    /// Runs `work` on a thread with this filter.
    fn confined<T: Send + 'static>(
        allowed: &'static [Calls],
        otherwise: Otherwise,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let thread = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).expect("always possible");
            let filter = Filter::of(allowed, otherwise).expect("there is a list");
            filter.install().expect("the kernel has filters");
            work()
        });
        thread.join().expect("it ended")
    }

    fn errno(result: libc::c_long) -> i32 {
        match result {
            -1 => io::Error::last_os_error().raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        const ALL: &[Calls] = &[
            Calls::Thread,
            Calls::EventLoop,
            Calls::Files,
            Calls::Programs,
            Calls::Sockets(&[libc::AF_UNIX]),
        ];
        let [traced, mounted, unshared, replaced] = confined(ALL, Otherwise::Refuse, || {
            // SAFETY: if one of them were made, none would read or write memory: all pointers are null.
            unsafe {
                [
                    errno(libc::syscall(
                        libc::SYS_ptrace,
                        libc::PTRACE_TRACEME,
                        0,
                        0,
                        0,
                    )),
                    errno(libc::syscall(libc::SYS_mount, 0, 0, 0, 0, 0)),
                    errno(libc::syscall(libc::SYS_unshare, 0)),
                    errno(libc::syscall(libc::SYS_execve, 0, 0, 0)),
                ]
            }
        });
        assert_eq!([traced, mounted, unshared, replaced], [libc::EPERM; 4]);
    }

    #[test]
    fn arguments_count() {
        const READER: &[Calls] = &[Calls::Thread, Calls::Maps];
        let [lookup, load, executable, writable] = confined(READER, Otherwise::Refuse, || {
            // SAFETY: the kernel refuses a null attribute; the mappings are of no use to anybody else.
            unsafe {
                let map = |rights| {
                    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    errno(
                        libc::mmap(std::ptr::null_mut(), 1, rights, private, -1, 0) as libc::c_long
                    )
                };
                [
                    errno(libc::syscall(libc::SYS_bpf, 1, 0, 0)),
                    errno(libc::syscall(libc::SYS_bpf, 5, 0, 0)),
                    map(libc::PROT_READ | libc::PROT_EXEC),
                    map(libc::PROT_READ | libc::PROT_WRITE),
                ]
            }
        });
        // The kernel itself refuses the lookup, without privileges also with EPERM.
        assert!([libc::EINVAL, libc::EFAULT, libc::EPERM].contains(&lookup));
        assert_eq!([load, executable, writable], [libc::EPERM, libc::EPERM, 0]);
    }

    #[test]
    fn only_sockets_of_named_families_are_opened() {
        const LOG: &[Calls] = &[Calls::Thread, Calls::Sockets(&[libc::AF_UNIX])];
        let [unix, inet] = confined(LOG, Otherwise::Refuse, || {
            [
                UnixDatagram::unbound().map(|_| ()),
                UdpSocket::bind("127.0.0.1:0").map(|_| ()),
            ]
        });
        assert!(unix.is_ok());
        let refused = inet.expect_err("the family is not named");
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn threads_can_be_started_and_processes_cannot() {
        const LOOP: &[Calls] = &[Calls::Thread, Calls::Threads, Calls::Files];
        let (thread, process) = confined(LOOP, Otherwise::Refuse, || {
            let thread = std::thread::Builder::new().spawn(|| 7);
            let thread = thread.map(|thread| thread.join().expect("it ended"));
            (
                thread.ok(),
                std::process::Command::new("/bin/true").status(),
            )
        });
        assert_eq!(thread, Some(7));
        let refused = process.expect_err("no process may be started");
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn a_filter_that_logs_lets_calls_pass() {
        let made = confined(&[Calls::Thread], Otherwise::Log, || {
            UdpSocket::bind("127.0.0.1:0").map(|_| ())
        });
        assert!(made.is_ok());
    }
}
