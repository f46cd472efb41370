// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command line without its hidden parts. `--help` and manual pages leave these out; `clap_complete` does not.

use clap::{ArgGroup, Command};

/// The part of a command line that a shell may offer: no hidden subcommands, no hidden options, at any depth.
///
/// It is for completions only. It keeps names, sentences, options and what excludes what; it parses nothing.
pub fn visible(command: &Command) -> Command {
    let options: Vec<_> = command
        .get_arguments()
        .filter(|option| !option.is_hide_set())
        .collect();
    let groups = command.get_groups().map(|group| {
        let of_group = group
            .get_args()
            .filter(|id| options.iter().any(|option| option.get_id() == *id));
        ArgGroup::new(group.get_id().clone())
            .args(of_group.cloned())
            .multiple(true)
    });
    let subcommands = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(visible);

    let mut shown = Command::new(command.get_name().to_owned())
        .args(options.iter().copied().cloned())
        .groups(groups)
        .subcommands(subcommands)
        .visible_aliases(
            command
                .get_visible_aliases()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
        .disable_help_flag(command.is_disable_help_flag_set())
        .disable_version_flag(command.is_disable_version_flag_set())
        .disable_help_subcommand(command.is_disable_help_subcommand_set());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown
}
