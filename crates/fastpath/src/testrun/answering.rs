// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the answering program on frames.

use std::io;
use std::os::fd::OwnedFd;

use super::frame::{run_frame, Action, CONTEXT};
use crate::{answer, FastPathError, Served};

/// The answering program (`bpf/answer.bpf.c`), not attached, and the addresses that it answers for. Frames arrive on
/// the loopback device, which has index 1.
#[derive(Debug)]
pub struct AnswerRun {
    program: OwnedFd,
    /// The addresses.
    pub served: Served,
}

impl AnswerRun {
    /// Index of the interface on which frames arrive.
    pub const IFINDEX: u32 = 1;

    /// Loads the program, as the daemon does.
    pub fn load() -> Result<AnswerRun, FastPathError> {
        let (program, served) = answer::load()?;
        Ok(AnswerRun { program, served })
    }

    /// Runs the program on a frame. Returns its result, and the frame after it.
    pub fn frame(&self, frame: &[u8]) -> io::Result<(Action, Vec<u8>)> {
        run_frame(&self.program, frame, &[0; CONTEXT])
    }
}
