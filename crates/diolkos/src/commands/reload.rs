// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos reload`: the running program reads its configuration file again.

use crate::cli;
use crate::control::{self, Answer, Request};
use diolkos_service::failure::Failure;

/// Has the running program read its configuration file again.
pub fn run(options: cli::Reload) -> Result<(), Failure> {
    match control::ask(&options.which.device()?, Request::Reload)? {
        Answer::Reloaded => Ok(()),
        other => Err(control::unexpected(&other)),
    }
}
