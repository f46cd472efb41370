// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answering program, run on frames.

use std::io;
use std::os::fd::OwnedFd;

use super::frame::{run_frame, Action, CONTEXT};
use crate::{answer, FastPathError, Served};

/// The answering program (`bpf/answer.bpf.c`), attached nowhere, and what it answers for: on the loopback device, whose
/// index is 1.
#[derive(Debug)]
pub struct AnswerRun {
    program: OwnedFd,
    /// The addresses.
    pub served: Served,
}

impl AnswerRun {
    /// The interface on which frames arrive.
    pub const IFINDEX: u32 = 1;

    /// Loads the program, as the daemon does.
    pub fn load() -> Result<AnswerRun, FastPathError> {
        let (program, served) = answer::load()?;
        Ok(AnswerRun { program, served })
    }

    /// Gives a frame to the program: what it returned, and the frame behind it.
    pub fn frame(&self, frame: &[u8]) -> io::Result<(Action, Vec<u8>)> {
        run_frame(&self.program, frame, &[0; CONTEXT])
    }
}
