// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of system calls, by purpose.
//!
//! Where C libraries and kernels use different calls for one purpose, all of them are listed. x86_64 has old forms of some
//! calls, which later architectures lack.

use libc::c_long;
use seccompiler::{
    BackendError, SeccompCmpArgLen::Dword, SeccompCmpArgLen::Qword, SeccompCmpOp, SeccompCondition,
    SeccompRule,
};

/// Calls for one kind of work.
#[derive(Clone, Copy, Debug)]
pub enum Calls {
    /// The calls that every thread needs: for its descriptors, memory that is not executable, locks, time, signals, and its own
    /// end.
    Thread,
    /// A thread's own name and rights, and the start of other threads.
    Threads,
    /// Waiting for many descriptors at once.
    EventLoop,
    /// Files and folders, and limits of the process.
    Files,
    /// Sockets of these families, and operations on them.
    Sockets(&'static [i32]),
    /// Messages on existing sockets.
    Messages,
    /// Reading and changing BPF maps whose descriptors the thread has.
    Maps,
    /// Everything that BPF offers.
    Programs,
}

/// Calls that are allowed with any arguments.
const THREAD: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_fcntl,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

const THREADS: &[c_long] = &[
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_seccomp,
    libc::SYS_set_tid_address,
    libc::SYS_sched_setaffinity,
    // The filter answers it with ENOSYS.
    libc::SYS_clone3,
];

const EVENT_LOOP: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup3,
];

/// aarch64 has no older call by which a C library could rename a file, and libc has no name for this one
/// (asm-generic/unistd.h).
#[cfg(not(target_arch = "x86_64"))]
const RENAMEAT: c_long = 38;
#[cfg(target_arch = "x86_64")]
const RENAMEAT: c_long = libc::SYS_renameat;

const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_fadvise64,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_copy_file_range,
    libc::SYS_flock,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    RENAMEAT,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    // Sets an access control list, so that a group can use the control socket.
    libc::SYS_setxattr,
    libc::SYS_umask,
    libc::SYS_getcwd,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    // Identity of the process, and its share of the machine's resources.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Calls of x86_64 only; [`FILES`] has their counterparts under other names.
#[cfg(target_arch = "x86_64")]
const OLD_FILES: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_getpgrp,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FILES: &[c_long] = &[];

const MESSAGES: &[c_long] = &[
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
];

/// The calls for sockets besides [`MESSAGES`].
const SOCKETS: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    libc::SYS_ioctl,
];

/// Operations of prctl(2): names of threads and memory, timer slack, rights, and the signal on the parent's end.
const OWN_AFFAIRS: &[i32] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_SET_VMA,
    libc::PR_SET_PDEATHSIG,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_READ,
    libc::PR_CAP_AMBIENT,
    PR_GET_AUXV,
];

/// Not in libc: linux/prctl.h.
const PR_GET_AUXV: i32 = 0x4155_5856;

/// Commands of bpf(2) for maps, from linux/bpf.h: BPF_MAP_LOOKUP_ELEM, …UPDATE…, …DELETE…, …GET_NEXT_KEY,
/// BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_LOOKUP_AND_DELETE_ELEM, and lookup, lookup and delete, update and delete in batches.
const OF_MAPS: &[i32] = &[1, 2, 3, 4, 15, 21, 24, 25, 26, 27];

/// The flags of clone(2) that make namespaces.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;
const SHARED_THREAD: u64 = libc::CLONE_THREAD as u64;

/// A call, and the arguments with which it is allowed.
type Conditional = (c_long, Result<Vec<SeccompRule>, BackendError>);

impl Calls {
    /// Calls that are allowed with any arguments.
    pub(super) fn always(self) -> Vec<c_long> {
        let lists: &[&[c_long]] = match self {
            Calls::Thread => &[THREAD],
            Calls::Threads => &[THREADS],
            Calls::EventLoop => &[EVENT_LOOP],
            Calls::Files => &[FILES, OLD_FILES],
            Calls::Sockets(_) => &[SOCKETS, MESSAGES],
            Calls::Messages => &[MESSAGES],
            Calls::Maps => &[],
            // libbpf reserves the descriptors of future maps with memory files.
            Calls::Programs => &[&[libc::SYS_bpf, libc::SYS_memfd_create]],
        };
        lists.concat()
    }

    /// Calls that are allowed with some arguments only.
    pub(super) fn where_arguments_are(self) -> Vec<Conditional> {
        match self {
            Calls::Thread => vec![
                // Memory cannot become executable.
                (libc::SYS_mmap, without(2, libc::PROT_EXEC as u64)),
                (libc::SYS_mprotect, without(2, libc::PROT_EXEC as u64)),
                (libc::SYS_prctl, one_of(0, OWN_AFFAIRS)),
                // Only signals of this process to itself, for abort(3).
                (
                    libc::SYS_tgkill,
                    one_of(0, &[std::process::id().cast_signed()]),
                ),
            ],
            Calls::Threads => vec![(
                libc::SYS_clone,
                masked(0, NEW_NAMESPACES | SHARED_THREAD, SHARED_THREAD),
            )],
            // Only limits of this process, not of others.
            Calls::Files => vec![(libc::SYS_prlimit64, one_of(0, &[0]))],
            Calls::Sockets(families) => vec![(libc::SYS_socket, one_of(0, families))],
            Calls::Maps => vec![(libc::SYS_bpf, one_of(0, OF_MAPS))],
            Calls::EventLoop | Calls::Messages | Calls::Programs => Vec::new(),
        }
    }
}

/// Allows the call if the argument has one of these values.
fn one_of(argument: u8, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |value: &i32| {
        let value = u64::from(value.cast_unsigned());
        let is_it = SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![is_it])
    };
    values.iter().map(rule).collect()
}

/// Allows the call if the argument has none of these bits.
fn without(argument: u8, bits: u64) -> Result<Vec<SeccompRule>, BackendError> {
    masked(argument, bits, 0)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<Vec<SeccompRule>, BackendError> {
    let is_so = SeccompCondition::new(argument, Qword, SeccompCmpOp::MaskedEq(mask), value)?;
    Ok(vec![SeccompRule::new(vec![is_so])?])
}
