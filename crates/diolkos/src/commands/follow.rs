// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos follow`: the status of the running program, at each change.

use super::output::{json, print_now, unless_closed};
use crate::cli;
use crate::control;
use diolkos_service::failure::Failure;

/// Until the program ends, or nobody reads any more.
pub fn run(options: &cli::Follow) -> Result<(), Failure> {
    let mut done = Ok(());
    control::follow(&options.device, |status| {
        let text = match options.json {
            true => json(&status),
            false => status.table(),
        };
        done = print_now(&text);
        done.is_ok()
    })?;
    unless_closed(done)
}
