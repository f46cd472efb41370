// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both programs, run by the kernel on frames that never were on a wire (BPF_PROG_TEST_RUN), for tests.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys as bpf;

/// What a program can return (`linux/bpf.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The frame is dropped.
    Drop,
    /// The kernel gets it.
    Pass,
    /// It goes to another interface.
    Redirect,
    /// Something that no program of ours returns unless it fails.
    Other(u32),
}

/// One frame through a program: what it returned, and the frame behind it.
pub(super) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<(Action, Vec<u8>)> {
    let mut data_out = vec![0; frame.len()];
    let mut options = bpf::bpf_test_run_opts {
        sz: size_of::<bpf::bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: data_out.as_mut_ptr().cast(),
        data_size_out: data_out.len() as u32,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: the descriptor is open; the pointers are valid for the lengths next to them until the call returns.
    let error = unsafe { bpf::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(-error));
    }
    data_out.truncate(options.data_size_out as usize);
    let action = match options.retval {
        1 => Action::Drop,
        2 => Action::Pass,
        4 => Action::Redirect,
        other => Action::Other(other),
    };
    Ok((action, data_out))
}
