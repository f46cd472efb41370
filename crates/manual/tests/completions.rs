// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shells offer what `--help` lists: every command, and no hidden one.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgGroup, Command, CommandFactory};
use clap_complete::Shell;
use diolkos_manual::visible::visible;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

fn script(shell: Shell, mut command: Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8(script).expect("UTF-8")
}

#[test]
fn no_shell_offers_what_is_hidden() {
    let command = diolkos::manual::command();
    let hidden = ["dns64-process", "end-with"];
    for shell in SHELLS {
        let all = script(shell, command.clone());
        let offered = script(shell, visible(&command));
        for name in hidden {
            // Otherwise the test looks for a name that is no longer there, or clap_complete needs no help.
            assert!(all.contains(name), "{shell}: {name}");
            assert!(!offered.contains(name), "{shell}: {name}");
        }
    }
}

/// Names of subcommands and long options, at any depth.
fn names(command: &Command) -> BTreeSet<String> {
    let options = command.get_arguments().filter(|one| !one.is_hide_set());
    let mut found: BTreeSet<String> = options
        .filter_map(|option| option.get_long().map(str::to_owned))
        .collect();
    for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        found.insert(below.get_name().to_owned());
        found.extend(names(below));
    }
    found
}

#[test]
fn every_shell_offers_the_rest() {
    let command = diolkos::manual::command();
    let names = names(&command);
    assert!(names.contains("clat-manager") && names.contains("pref64"));
    for shell in SHELLS {
        let offered = script(shell, visible(&command));
        for name in &names {
            assert!(offered.contains(name.as_str()), "{shell}: {name}");
        }
    }
}

/// With every property that a completion depends on.
fn without_hidden_parts() -> Command {
    Command::new("ferry")
        .version("1")
        .about("Carries goods")
        .arg(
            Arg::new("fast")
                .long("fast")
                .short('f')
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("slow")
                .long("slow")
                .conflicts_with("speed")
                .action(ArgAction::SetTrue),
        )
        .group(ArgGroup::new("speed").arg("fast"))
        .subcommand(
            Command::new("load")
                .visible_alias("stow")
                .about("Takes goods on")
                .arg(
                    Arg::new("side")
                        .long("side")
                        .value_parser(["left", "right"]),
                )
                .arg(Arg::new("goods").num_args(1..)),
        )
        .subcommand(Command::new("cast-off").disable_help_flag(true))
}

#[test]
fn a_command_line_without_hidden_parts_is_offered_as_it_is() {
    for command in [without_hidden_parts(), diolkos_pktgen::cli::Cli::command()] {
        for shell in SHELLS {
            assert_eq!(
                script(shell, visible(&command)),
                script(shell, command.clone())
            );
        }
    }
}
