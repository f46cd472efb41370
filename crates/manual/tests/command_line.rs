// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A question about usage is answered, and makes no folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The exit code, the first word of each stream, and the number of files that were made.
fn run(arguments: &[&str]) -> (Option<i32>, bool, bool, usize) {
    let name = format!("command-line{}", arguments.join(""));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_diolkos-manual"));
    let done = command.args(arguments).current_dir(&folder).output();
    let done = done.expect("it runs");
    let made = fs::read_dir(&folder).expect("the folder").count();
    let _ = fs::remove_dir_all(&folder);
    let told = |stream: &[u8]| stream.starts_with(b"usage: diolkos-manual FOLDER");
    (
        done.status.code(),
        told(&done.stdout),
        told(&done.stderr),
        made,
    )
}

#[test]
fn usage_is_printed() {
    for help in ["--help", "-h"] {
        assert_eq!(run(&[help]), (Some(0), true, false, 0), "{help}");
    }
    for wrong in [&["--halp"][..], &[], &["one", "two"]] {
        assert_eq!(run(wrong), (Some(2), false, true, 0), "{wrong:?}");
    }
    let (code, _, _, made) = run(&["folder"]);
    assert_eq!((code, made), (Some(0), 1));
}
