// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos lookup`.

use std::path::PathBuf;

use clap::Args;
use diolkos_nat64::config::Protocol;

use super::protocol::protocol;

/// Options of `lookup`.
#[derive(Args, Debug)]
#[command(
    after_help = "Fixed ports ([nat64.deterministic]) and static bindings follow from the configuration; everything else stands in \
                        logs of bindings alone.\n\
                        Example: diolkos lookup --config nat64.toml 192.0.2.1 40000"
)]
pub struct Lookup {
    /// The configuration file of the NAT64
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The node of a cluster whose ports are meant; by default the one that has the IPv4 address
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Only this protocol; icmp: the port is a query identifier
    #[arg(long, value_parser = protocol())]
    pub protocol: Option<Protocol>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// An IPv4 address of the pool, or an IPv6 address of a node, whose ports are then listed
    pub address: std::net::IpAddr,
    /// The port of the IPv4 address
    pub port: Option<u16>,
}
