// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos`: translation between IPv4 and IPv6 on Linux. This crate is the program: the command line, its commands, and the
//! process in which a service runs. Everything else is in crates below it, each of which knows only those below itself:
//!
//! ```text
//! diolkos    command line, commands, process
//! offline    captures        clat    CLAT        router    SIIT and NAT64: life, routes, announcements
//! resolver   DNS64, search for the prefix        cluster   the node of a cluster, joined to the tables
//! control    socket, metrics, service loop       gateway   tables of a NAT64, their copy in the fast path, state file
//! datapath   slow path, choice of the fast path  bindlog   log of bindings
//! kernel     netlink, sysctls   config   the file   figures   what is told
//! service    supervision, privileges, locks, failures
//! fastpath   compiles, loads and feeds bpf/
//! xlat nat64 dns64 pref64 node   no I/O; mesh etcd sys: connections, records, the kernel's edge
//! ```
//!
//! cli → commands → config → process → clat, router, dns64; commands → offline; commands → control, which asks a running program.
//!
//! [`main`] is the program, which `src/main.rs` calls; [`manual`] is for the crate that writes manual pages. Other crates use
//! nothing else.

mod cli;
mod commands;
mod error;
mod files;
mod lookup;
mod process;
mod stop;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;

/// The source of the manual pages and of shell completions.
pub mod manual {
    use clap::CommandFactory;

    pub use diolkos_config::schema as configuration;

    /// The command line.
    pub fn command() -> clap::Command {
        crate::cli::Cli::command()
    }
}

/// The program, from its command line to its exit code.
pub fn main() -> ExitCode {
    let done = commands::run(Cli::parse().command);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A configuration may have several mistakes, one on each line.
            for line in failure.to_string().lines() {
                eprintln!("diolkos: {line}");
            }
            ExitCode::from(failure.exit() as u8)
        }
    }
}
