// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos`: translation between IPv4 and IPv6 on Linux.
//!
//! cli → commands → config → clat, router → (nat64, announce, net, slow path, fast path) → control → varlink
//!
//! cli → commands → config → dns64 → (pref64, net) → control
//!
//! cli → commands → config → offline
//!
//! cli → commands → trace → control: what would become of a packet; the service follows it through its slow path's engine
//!
//! The program is [`main`]; `src/main.rs` only calls it, so that what reads bytes from elsewhere can also be reached
//! by `fuzz/`, through [`readers`].

mod accept_local;
mod announce;
mod clat;
mod clats;
mod cli;
mod cluster;
mod commands;
mod companion;
mod control;
mod datapath;
mod dns64;
mod dns_over_tcp;
mod events;
mod expiry;
mod files;
mod labels;
mod lookup;
mod metrics;
mod nat64;
mod offline;
mod packet_summary;
mod pref64;
mod process;
mod router;
mod service;
mod slowpath;
mod stop;
mod trace;
mod varlink;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;

/// Readers of what others wrote: files and packets. Nothing else of this crate is for use from outside.
pub mod readers {
    pub use crate::nat64::store::format as state;
    pub use crate::nat64::store::Moment;
    pub use crate::offline::capture::Capture;
    pub use crate::offline::link::network_layer;
    pub use crate::offline::pcap::{Precision, ReadError, Reader, Record, Writer};
    pub use crate::slowpath::join::{flow, part, Train};
    pub use crate::slowpath::offload::{read as offload, write as offload_header, Received};
}

/// What the manual pages and the completions of shells are written from.
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
            // A configuration may have several mistakes, one a line.
            for line in failure.to_string().lines() {
                eprintln!("diolkos: {line}");
            }
            ExitCode::from(failure.kind as u8)
        }
    }
}
