// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the driver program of a SIIT on frames, with the kernel's routes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use super::frame::{run_once, Action};
use crate::load::keep;
use crate::{siit, FastPathError, SiitRules};

/// The driver program of a SIIT (`bpf/xdp/translate.h`), not attached. Frames arrive on the loopback device of this
/// network namespace.
#[derive(Debug)]
pub struct DriverRun(OwnedFd);

impl DriverRun {
    /// Index of the card on which frames arrive.
    pub const CARD: u32 = 1;

    /// Loads the program with these rules, as the daemon does.
    pub fn siit(rules: &SiitRules) -> Result<DriverRun, FastPathError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = siit::open(&mut storage, rules)?;
        open.progs.siit_egress.set_autoload(false);
        let loaded = siit::load(open, rules)?;
        let program = loaded.progs.siit_xdp.as_fd();
        Ok(DriverRun(keep(program)?))
    }

    /// Runs the program on a frame. Returns its result, and the frame after it.
    pub fn frame(&self, frame: &[u8]) -> io::Result<(Action, Vec<u8>)> {
        let (result, frame) = run_once(&self.0, frame, None)?;
        Ok((Action::of_driver(result), frame))
    }
}
