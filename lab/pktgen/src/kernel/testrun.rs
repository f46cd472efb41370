// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs both programs in the kernel on frames that were never on a wire (BPF_PROG_TEST_RUN), for tests.

use std::io;
use std::os::fd::BorrowedFd;

use diolkos_sys::bpf::TestRun;

/// The return code of a program (`linux/bpf.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The frame is dropped.
    Drop,
    /// The kernel receives the frame.
    Pass,
    /// The frame goes to another interface.
    Redirect,
    /// A return code that our programs return only on a failure.
    Other(u32),
}

/// Runs a program on one frame. Returns the return code and the resulting frame.
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
