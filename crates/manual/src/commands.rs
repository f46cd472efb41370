// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages and completions of programs, from their command lines.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use crate::visible::visible;

/// Writes `program.1` and a page for each of its commands, and the files that shells complete its command line by: below
/// `folder`, in `man`, `bash`, `zsh` and `fish`, under the names that these look for.
pub fn write(command: Command, folder: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let man = folder.join("man");
    fs::create_dir_all(&man)?;
    // The page of `help` would say no more than this one.
    clap_mangen::generate_to(command.clone().disable_help_subcommand(true), &man)?;
    let mut offered = visible(&command);
    for (shell, below, file) in [
        (Shell::Bash, "bash", name.clone()),
        (Shell::Zsh, "zsh", format!("_{name}")),
        (Shell::Fish, "fish", format!("{name}.fish")),
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut offered, &name, &mut script);
        let below = folder.join(below);
        fs::create_dir_all(&below)?;
        fs::write(below.join(OsStr::new(&file)), script)?;
    }
    Ok(())
}
