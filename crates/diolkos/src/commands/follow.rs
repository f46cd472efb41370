// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos follow`: prints the status of the running program at each change.

use super::output::{json, print_now, unless_closed};
use crate::cli;
use diolkos_control::translator;
use diolkos_service::failure::Failure;

/// Runs until the program ends, or until the reader of standard output has closed it.
pub fn run(options: &cli::Follow) -> Result<(), Failure> {
    let mut done = Ok(());
    translator::follow(&options.device, |status| {
        let text = match options.json {
            true => json(&status),
            false => status.table(),
        };
        done = print_now(&text);
        done.is_ok()
    })?;
    unless_closed(done)
}
