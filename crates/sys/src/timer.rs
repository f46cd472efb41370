// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A timer of one CPU, as a perf event.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_sys as bpf;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// A timer that expires every `period_ns` nanoseconds on one CPU, and samples nothing. Closing it stops it.
pub fn on_cpu(cpu: usize, period_ns: u64) -> io::Result<OwnedFd> {
    let mut attributes = bpf::perf_event_attr {
        type_: bpf::PERF_TYPE_SOFTWARE,
        size: size_of::<bpf::perf_event_attr>() as u32,
        config: u64::from(bpf::PERF_COUNT_SW_CPU_CLOCK),
        __bindgen_anon_1: bpf::perf_event_attr__bindgen_ty_1 {
            sample_period: period_ns,
        },
        ..Default::default()
    };
    attributes.set_exclude_user(1);
    attributes.set_exclude_kernel(1);
    // SAFETY: the attributes are valid for their size; every process on one CPU, no group.
    owned(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu as libc::c_int,
            -1,
            CLOSE_ON_EXEC,
        )
    })
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the new descriptor is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}
