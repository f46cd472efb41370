// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos dns64`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::endpoint::endpoint;
use diolkos_config::{Level, Prefix, Upstream};

/// Options of `dns64`; each goes before the same key of a configuration file.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: diolkos dns64 --listen [::1]:5353 --upstream 192.0.2.53 --pref64 64:ff9b::/96\n\
                        Ports below 1024 need CAP_NET_BIND_SERVICE, `--pref64 auto` needs CAP_NET_RAW; nothing else needs a privilege.\n\
                        Counters: diolkos show counters --device dns64"
)]
pub struct Dns64 {
    /// Where to listen, by UDP and TCP; may be given several times [default: [::1]:53 and 127.0.0.1:53]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = endpoint)]
    pub listen: Vec<SocketAddr>,
    /// A recursive resolver to ask, the preferred one first; may be given several times [port: 53]. By TLS only, and only if its
    /// certificate has the name: tls://ADDRESS[:PORT]#NAME [port: 853]
    #[arg(
        long,
        value_name = "ADDRESS[:PORT]",
        required_unless_present = "config"
    )]
    pub upstream: Vec<Upstream>,
    /// Translation prefix (RFC 6052); may be given several times; `auto` learns it from the network of the uplink
    /// (RFC 8781, RFC 7050) and follows its changes [default: 64:ff9b::/96]
    #[arg(long, value_name = "auto|PREFIX")]
    pub pref64: Vec<Prefix>,
    /// The interface whose network announces the prefix, for `--pref64 auto`
    #[arg(long, value_name = "INTERFACE")]
    pub uplink: Option<String>,
    /// Name of this DNS64 for `show --device` [default: dns64]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A configuration file for everything else
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log: Option<Level>,
}
