// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard output.

use std::io::{self, Write};

use crate::error;
use diolkos_service::failure::Failure;

/// Prints the answer of a command.
pub fn print(text: String) -> Result<(), Failure> {
    unless_closed(io::stdout().write_all(text.as_bytes()))
}

/// Prints one of several answers and flushes it, so that a reader of a pipe sees it at once.
pub fn print_now(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Ignores the error that the reader of a pipe has closed it, which is no failure of the command.
pub fn unless_closed(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error::run_time(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// A value as one line of JSON.
pub fn json(value: &impl serde::Serialize) -> String {
    format!("{}\n", serde_json::json!(value))
}
