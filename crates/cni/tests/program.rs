// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program as runtimes and people call it, without a network. (Cargo builds a program for tests only where one like this is.)

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(command: Option<&str>, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_diolkos-cni"));
    program.env_clear().args(arguments).stdin(Stdio::null());
    command.map(|command| program.env("CNI_COMMAND", command));
    program.output().expect("it is built")
}

#[test]
fn a_runtime_gets_json_and_a_person_words() {
    let told = run(Some("VERSION"), &[]);
    assert!(told.status.success());
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(told["cniVersion"], "1.1.0");
    let refused = run(Some("MOVE"), &[]);
    assert_eq!(refused.status.code(), Some(1));
    let refused: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!(refused["code"], 4);
    for arguments in [&[][..], &["chain"], &["--help"]] {
        let usage = run(None, arguments);
        assert_eq!(usage.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&usage.stderr).contains("usage:"));
    }
}
