// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos-cni`: a chained CNI plugin (CNI 1.1.0) that gives a pod with IPv6 only a CLAT. It runs `diolkos clat` in the pod's
//! network namespace, as a process of the node, so the pod needs no rights and no container for it.
//!
//! environment, standard input → call, config → commands → attachment, clat → result or error on standard output
//!
//! What must never happen, whatever a runtime does and wherever it kills this program:
//!
//! * A CLAT outlives its attachment. The record of an attachment is written before its CLAT starts and removed before the CLAT is
//!   ended, and a CLAT starts only if it finds its record ([`attachment`]).
//! * An attachment has two CLATs: each holds the attachment's lock for as long as it runs.
//! * An attachment takes another one's CLAT for its own: what answers for the device must be the process that holds the lock.
//! * The node itself gets a CLAT: a namespace that is this process's own is refused.
//! * ADD succeeds although IPv4 does not pass: it waits until the CLAT is ready, and otherwise removes it.
//! * Text of the runtime becomes a path or an option unchecked ([`call`]).

mod attachment;
mod call;
mod chain;
mod clat;
mod commands;
mod config;
mod error;
mod result;

use std::env;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use call::Environment;

const USAGE: &str = "\
diolkos-cni is a CNI plugin: container runtimes call it with CNI_COMMAND in its environment and a configuration on standard input.
usage: diolkos-cni chain FOLDER KEYS [PROGRAMS]
           make it the last plugin of the list in FOLDER (/etc/cni/net.d); KEYS is its key \"clat\", JSON. With PROGRAMS, only if it is
           in that folder, and so is the first plugin of the list
       diolkos-cni unchain FOLDER
           take it out of all lists
       diolkos-cni --version";
/// The most bytes of standard input that are read. Configurations with the result of other plugins have a few thousand.
const LONGEST: u64 = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match &arguments[..] {
        // The second half of ADD, which becomes the CLAT.
        [run, base] if run == clat::RUN => return clat::become_clat(Path::new(base)),
        [chain, folder, keys, programs @ ..] if chain == "chain" && programs.len() <= 1 => {
            let programs = programs.first().map(Path::new);
            // What is no text is no JSON, and told as such.
            let keys = keys.to_string_lossy();
            return told(chain::chain(Path::new(folder), &keys, programs));
        }
        [unchain, folder] if unchain == "unchain" => {
            return told(chain::unchain(Path::new(folder)));
        }
        [version] if version == "--version" => {
            println!("diolkos-cni {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        [] if env::var_os("CNI_COMMAND").is_some() => {}
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    let mut input = Vec::new();
    // An error leaves an input that is not whole, and is told as such.
    let _ = io::stdin().take(LONGEST).read_to_end(&mut input);
    let done = commands::run(&Environment::of_process(), &input);
    match done {
        Ok(answer) => {
            if let Some(answer) = answer {
                println!("{answer}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{}", error.told(&input));
            ExitCode::FAILURE
        }
    }
}

/// Tells a person what was done.
fn told(done: Result<String, error::CniError>) -> ExitCode {
    match done {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("diolkos-cni: {error}");
            ExitCode::FAILURE
        }
    }
}
