// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Scripts rely on it, so it stays compatible. Each command has a file for its options.

mod bind;
mod clat;
mod cluster;
mod dns64;
mod endpoint;
mod follow;
mod lookup;
mod options;
mod protocol;
mod reload;
mod run;
mod session;
mod show;
mod status;
mod stop;
mod trace;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use bind::Bind;
pub use clat::Clat;
pub use cluster::{Cluster, Reset};
pub use diolkos_offline::Translate;
pub use dns64::Dns64;
pub use follow::Follow;
pub use lookup::Lookup;
pub use reload::Reload;
pub use run::Run;
pub use session::Session;
pub use show::{Show, What};
pub use status::Status;
pub use stop::Stop;
pub use trace::Trace;

/// Translates between IPv4 and IPv6.
#[derive(Parser, Debug)]
#[command(name = "diolkos", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed at run time, 2 wrong usage or configuration, \
                        3 a privilege or a kernel feature is missing, 4 (`show status`, `cluster status`) it runs but is not ready, or something is wrong."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the client side of 464XLAT (RFC 6877) in the foreground: IPv4 for this host over an IPv6-only uplink
    Clat(Clat),
    /// Run a stateless translator for a router (RFC 7915) in the foreground
    Siit(Run),
    /// Run a stateful translator for a router (RFC 6146) in the foreground
    Nat64(Run),
    /// Run a DNS64 (RFC 6147) in the foreground: AAAA records for names that have A records only
    Dns64(Dns64),
    /// Run the translator of a configuration file in the foreground, or its DNS64 if it has nothing else
    Run(Run),
    /// Check a configuration file and print it in canonical form
    Check {
        /// The file, TOML
        file: PathBuf,
    },
    /// Translate a capture file, without a network and without privileges
    Translate(Translate),
    /// Look up, without a running diolkos, which source of a NAT64 has a fixed port, or which ports a source has
    Lookup(Lookup),
    /// Ask a running diolkos in this network namespace
    Show(Show),
    /// Print whether packets can pass, and if not, why: the same as `show status`
    Status(Status),
    /// Ask a running diolkos what would become of a packet, and why; no packet is sent and nothing changes
    Trace(Trace),
    /// Add or delete a binding of a running NAT64
    #[command(subcommand)]
    Bind(Bind),
    /// End a session of a running NAT64
    #[command(subcommand)]
    Session(Session),
    /// Manage a running node of a cluster of NAT64 gateways
    #[command(subcommand)]
    Cluster(Cluster),
    /// Print the status of a running diolkos, and print it again at each change, until diolkos ends
    Follow(Follow),
    /// Reload the configuration file of a running diolkos without losing a packet
    Reload(Reload),
    /// End a translator or a DNS64 for good, and remove what one with `--state` has left in the kernel
    Stop(Stop),
}
