// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both programs, run by the kernel on frames that never were on a wire (BPF_PROG_TEST_RUN), for tests.

use std::io;
use std::os::fd::BorrowedFd;

use diolkos_sys::bpf::TestRun;

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
    let call = TestRun {
        data_in: frame,
        data_out: &mut data_out,
        repeat: 1,
        ..Default::default()
    };
    let (returned, len) = call.run(program)?;
    data_out.truncate(len);
    let action = match returned {
        1 => Action::Drop,
        2 => Action::Pass,
        4 => Action::Redirect,
        other => Action::Other(other),
    };
    Ok((action, data_out))
}
