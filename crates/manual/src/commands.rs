// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes manual pages and shell completions of programs, from their command lines.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use crate::pages;
use crate::values;

/// Writes the manual pages of this section for a program and for each of its commands, and its shell completions. They are
/// written below `folder` in `man`, `bash`, `zsh` and `fish`, under the names that man and the shells look for.
pub fn write(command: Command, section: &str, folder: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let man = folder.join("man");
    fs::create_dir_all(&man)?;
    for (file, page) in pages::of(&command, section)? {
        fs::write(man.join(file), page)?;
    }
    for (shell, below, file) in [
        (Shell::Bash, "bash", name.clone()),
        (Shell::Zsh, "zsh", format!("_{name}")),
        (Shell::Fish, "fish", format!("{name}.fish")),
    ] {
        let below = folder.join(below);
        fs::create_dir_all(&below)?;
        fs::write(below.join(OsStr::new(&file)), script(&command, shell))?;
    }
    Ok(())
}

/// The completion script of a program for a shell.
pub fn script(command: &Command, shell: Shell) -> String {
    let name = command.get_name();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command.clone(), name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match name {
        "diolkos" => values::added(shell, &script),
        _ => script,
    }
}
