// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program as a shell calls it, without rights: exit codes, and what goes to which stream.

use std::process::{Command, Output};

fn diolkos(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diolkos"));
    command.args(words).output().expect("the program starts")
}

#[test]
fn the_version_is_that_of_the_package() {
    let done = diolkos(&["--version"]);
    let expected = format!("diolkos {}\n", env!("CARGO_PKG_VERSION"));
    assert!(done.status.success());
    assert_eq!(String::from_utf8_lossy(&done.stdout), expected);
}

#[test]
fn a_command_that_does_not_exist_is_a_mistake_of_usage() {
    let done = diolkos(&["translate-everything"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(done.stdout.is_empty() && !done.stderr.is_empty());
}

#[test]
fn a_file_that_does_not_exist_is_named_in_one_line() {
    let done = diolkos(&["check", "/nonexistent/nat64.toml"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_ne!(done.status.code(), Some(0));
    assert!(
        said.starts_with("diolkos: ") && said.contains("/nonexistent/nat64.toml"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}
