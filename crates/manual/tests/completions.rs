// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shells offer every command that `--help` lists.

use std::collections::BTreeSet;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use diolkos_manual::commands;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

fn script(shell: Shell, mut command: Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8(script).expect("UTF-8")
}

/// `clap_complete` also offers hidden arguments.
#[test]
fn nothing_is_hidden() {
    fn has_hidden(command: &Command) -> bool {
        let mut below = command.get_subcommands();
        command.get_arguments().any(Arg::is_hide_set)
            || below.any(|one| one.is_hide_set() || has_hidden(one))
    }
    assert!(!has_hidden(&diolkos::manual::command()));
    assert!(!has_hidden(&diolkos_pktgen::cli::Cli::command()));
}

/// Names of subcommands and long options, at any depth.
fn names(command: &Command) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = command
        .get_arguments()
        .filter_map(|option| option.get_long().map(str::to_owned))
        .collect();
    for below in command.get_subcommands() {
        found.insert(below.get_name().to_owned());
        found.extend(names(below));
    }
    found
}

#[test]
fn every_shell_offers_everything() {
    let command = diolkos::manual::command();
    let names = names(&command);
    assert!(names.contains("dns64") && names.contains("pref64"));
    for shell in SHELLS {
        let offered = script(shell, command.clone());
        for name in &names {
            assert!(offered.contains(name.as_str()), "{shell}: {name}");
        }
    }
}

/// The completions that bash offers for a line that ends with these words.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    let machine = std::env::temp_dir().join(format!("diolkos-completion-{}", std::process::id()));
    let net = machine.join("net");
    let run = machine.join("run");
    for interface in ["eth0", "wan0", "diolkos3"] {
        std::fs::create_dir_all(net.join(interface)).expect("a folder");
    }
    std::fs::create_dir_all(run.join("7")).expect("a folder");
    let socket = run.join("7/dns64.sock");
    let _ = std::fs::remove_file(&socket);
    let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let script = commands::script(&diolkos::manual::command(), Shell::Bash)
        .replace("/sys/class/net", net.to_str().expect("UTF-8"))
        .replace("/run/diolkos", run.to_str().expect("UTF-8"));
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let ask = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _diolkos_with_values diolkos \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\" 2>/dev/null\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted.join(" ")
    );
    let done = std::process::Command::new("bash")
        .args(["--norc", "-c", &ask])
        .output()
        .expect("bash runs");
    let said = String::from_utf8(done.stdout).expect("UTF-8");
    let mut offered: Vec<String> = said.lines().map(str::to_owned).collect();
    offered.sort();
    offered
}

/// A single test, because all cases use the same simulated machine.
#[test]
fn bash_offers_what_the_machine_has() {
    let all = ["diolkos3", "eth0", "wan0"];
    for (words, offered) in [
        (&["diolkos", "clat", "--uplink", ""][..], &all[..]),
        (&["diolkos", "clat", "--uplink", "w"], &["wan0"]),
        (&["diolkos", "clat", "--uplink", "=", "e"], &["eth0"]),
        (&["diolkos", "clat", "--uplink", "="], &all),
        (&["diolkos", "dns64", "--uplink", ""], &all),
        (
            &["diolkos", "show", "status", "--device", ""],
            &["diolkos3", "dns64"],
        ),
        (&["diolkos", "trace", "--device", "dio"], &["diolkos3"]),
        (&["diolkos", "clat", "--pref64", ""], &["auto"]),
        // The generated function handles the rest.
        (&["diolkos", "show", "sess"], &["sessions"]),
        (&["diolkos", "sta"], &["status"]),
        (
            &["diolkos", "run", "--config", "/proc/self/com"],
            &["/proc/self/comm"],
        ),
        (
            &["diolkos", "show", "sessions", "--protocol", "i"],
            &["icmp"],
        ),
    ] {
        assert_eq!(offered_by_bash(words), offered, "{words:?}");
    }
}

#[test]
fn other_shells_know_the_same() {
    let command = diolkos::manual::command();
    let zsh = commands::script(&command, Shell::Zsh);
    assert!(zsh.contains(":INTERFACE:_net_interfaces'"));
    assert!(zsh.contains(":NAME:_diolkos_devices'"));
    assert!(zsh.contains(":auto|PREFIX:(auto)'"));
    assert!(zsh.starts_with("#compdef diolkos\n"));
    let fish = commands::script(&command, Shell::Fish);
    assert!(fish.contains("-l uplink -x -a"));
}
