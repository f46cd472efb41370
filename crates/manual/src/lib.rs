// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manual pages and the completions of shells, from the types that read command lines and configuration files.
//!
//! ```text
//!   command lines ─┬────────────────────────► commands ─► NAME.1
//!                  └─► visible ─────────────► commands ─► completions
//!   types of the configuration ─► keys ─► page ─────────► diolkos.toml.5
//! ```

mod commands;
pub mod keys;
pub mod page;
pub mod visible;

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;

/// Writes all of them below `folder`: `man`, `bash`, `zsh`, `fish`.
pub fn write(folder: &Path) -> io::Result<()> {
    commands::write(diolkos::manual::command(), folder)?;
    commands::write(diolkos_pktgen::cli::Cli::command(), folder)?;
    let sections = keys::sections(diolkos::manual::configuration().as_value());
    let page = page::configuration(&sections, env!("CARGO_PKG_VERSION"));
    fs::write(folder.join("man/diolkos.toml.5"), page)
}
