// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages and shell completions, from the types that parse command lines and configuration files.
//!
//! ```text
//!   command lines ─┬─► pages ◄─ examples ───► commands ─► NAME.8
//!                  └─► values ──────────────► commands ─► completions
//!   types of the configuration ─► keys ─┬─► page ───────► diolkos.toml.5
//!                                       └─► reference ──► docs/configuration.md
//! ```

pub mod commands;
pub mod examples;
pub mod keys;
pub mod page;
pub mod pages;
mod reference;
mod values;

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;

/// The section of administration commands, most of which only root can use (hier(7), man(1)).
pub const ADMINISTRATION: &str = "8";

/// Writes all of them below `folder`, in `man`, `bash`, `zsh` and `fish`.
pub fn write(folder: &Path) -> io::Result<()> {
    commands::write(diolkos::manual::command(), ADMINISTRATION, folder)?;
    commands::write(diolkos_pktgen::cli::Cli::command(), "1", folder)?;
    let page = page::configuration(&sections(), env!("CARGO_PKG_VERSION"));
    fs::write(folder.join("man/diolkos.toml.5"), page)
}

/// The page docs/configuration.md.
pub fn reference() -> String {
    reference::page(&sections())
}

fn sections() -> Vec<keys::Section> {
    keys::sections(diolkos::manual::configuration().as_value())
}
