// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos-manual FOLDER` writes manual pages and completions into a folder, from which packages and `make install` take them.

use std::env;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let [folder] = &env::args_os().skip(1).collect::<Vec<_>>()[..] else {
        eprintln!("usage: diolkos-manual FOLDER");
        return ExitCode::from(2);
    };
    match diolkos_manual::write(Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let folder = folder.to_string_lossy();
            eprintln!("diolkos-manual: cannot write below {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}
