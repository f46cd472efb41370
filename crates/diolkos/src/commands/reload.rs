// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos reload`: makes the running program reload its configuration file.

use crate::cli;
use diolkos_control::translator::{self, Answer, Request};
use diolkos_service::failure::Failure;

/// Makes the running program reload its configuration file.
pub fn run(options: cli::Reload) -> Result<(), Failure> {
    match translator::ask(&options.which.device()?, Request::Reload)? {
        Answer::Reloaded => Ok(()),
        other => Err(translator::unexpected(&other).into()),
    }
}
