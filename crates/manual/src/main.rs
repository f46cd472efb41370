// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos-manual FOLDER` writes manual pages and completions into a folder, from which packages and `make install` take them.
//! `diolkos-manual --reference` prints the page docs/configuration.md.

use std::env;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: diolkos-manual FOLDER | --reference";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let folder = match &arguments[..] {
        [one] if one == "--help" || one == "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [one] if one == "--reference" => {
            print!("{}", diolkos_manual::reference());
            return ExitCode::SUCCESS;
        }
        // A folder whose name begins with a hyphen is ./-NAME.
        [folder] if !folder.as_encoded_bytes().starts_with(b"-") => folder,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
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
