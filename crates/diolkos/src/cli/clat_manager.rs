// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos clat-manager`.

use clap::{Args, Subcommand};
use ipnet::Ipv4Net;

use diolkos_config::{network, Level, OtherClat, Prefix, Resolver, V6Address};

/// Options of `clat-manager`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClatManager {
    /// What a running manager is to do; without it, run the manager
    #[command(subcommand)]
    pub order: Option<ClatOrder>,
    /// The group whose members may read the status of the manager and its CLATs by the control sockets [default: none]
    #[arg(
        long,
        value_name = "GROUP",
        default_value = "",
        hide_default_value = true
    )]
    pub control_group: String,
    /// What to log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log: Option<Level>,
}

/// What a running manager of CLATs is to do.
#[derive(Subcommand, Debug)]
pub enum ClatOrder {
    /// Start a CLAT for an uplink, unless it runs with the same options; this does not wait until IPv4 can pass
    Up {
        /// The interface that leads to the IPv6 network
        interface: String,
        /// Translation prefix of the PLAT; `auto` learns it from the network
        #[arg(long, value_name = "auto|PREFIX", default_value = "auto", value_parser = prefix)]
        pref64: String,
        /// Its IPv6 address; `shared` shares that of this host [default: auto]
        #[arg(long, value_name = "auto|shared|ADDRESS", value_parser = v6)]
        v6: Option<String>,
        /// A prefix that the network routes to this node [default: auto, the uplink's /64]
        #[arg(long, value_name = "auto|PREFIX", value_parser = prefix)]
        v6_prefix: Option<String>,
        /// IPv4 destinations to reach through it; may be given several times [default: 0.0.0.0/0]
        #[arg(long = "route", value_name = "PREFIX", value_parser = network::parse::<Ipv4Net>)]
        routes: Vec<Ipv4Net>,
        /// Where to translate packets: by the eBPF fast path at tc, or by the TUN device alone [default: auto]
        #[arg(long, value_name = "DATAPATH", value_parser = ["auto", "tun", "tc"])]
        datapath: Option<String>,
        /// Resolver to ask for the prefix; may be given several times [default: those of /etc/resolv.conf]
        #[arg(long = "resolver", value_name = "ADDRESS[:PORT]")]
        resolvers: Vec<Resolver>,
        /// Metric of the IPv4 default route [default: 2048, and one more for each CLAT before this one]
        #[arg(long, value_name = "NUMBER")]
        metric: Option<u32>,
        /// While another program's CLAT serves this host, such as NetworkManager's: have no IPv4 routes, or go on [default:
        /// yield]
        #[arg(long, value_enum, value_name = "yield|take-over")]
        other_clat: Option<OtherClat>,
    },
    /// End the CLAT of an uplink; without one, nothing is done
    Down {
        /// The interface
        interface: String,
    },
    /// List all CLATs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Again at each change, until the manager ends
        #[arg(long)]
        follow: bool,
    },
}

/// The text of an address, `auto` or `shared`.
fn v6(text: &str) -> Result<String, String> {
    text.parse::<V6Address>().map(|_| text.to_owned())
}

/// The text of a prefix, or `auto`.
fn prefix(text: &str) -> Result<String, String> {
    text.parse::<Prefix>().map(|_| text.to_owned())
}
