// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos clat`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args;
use ipnet::Ipv4Net;

use super::options::Common;
use diolkos_config::{network, OtherClat, Prefix, Resolver, V6Address};

/// Options of `clat`; each goes before the same key of a configuration file.
#[derive(Args, Debug)]
pub struct Clat {
    /// The interface that leads to the IPv6 network [default: that of the IPv6 default route]
    #[arg(long, value_name = "INTERFACE")]
    pub uplink: Option<String>,
    /// Translation prefix of the PLAT (RFC 6052: /32, /40, /48, /56, /64 or /96); `auto` learns it from the network
    /// (RFC 8781, RFC 7050) and follows its changes [default: auto]
    #[arg(long, value_name = "auto|PREFIX")]
    pub pref64: Option<Prefix>,
    /// Resolver to ask for the prefix with `--pref64 auto`; may be given several times [default: those of /etc/resolv.conf]
    #[arg(long = "resolver", value_name = "ADDRESS[:PORT]")]
    pub resolvers: Vec<Resolver>,
    /// IPv4 address of this host, on the TUN device [default: 192.0.0.1, or the next that no other CLAT has]
    #[arg(long, value_name = "ADDRESS")]
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address it is translated into; `auto` makes one from the uplink's /64, or shares the host's address if there is
    /// no /64; `shared` shares it in any case [default: auto]
    #[arg(long, value_name = "auto|shared|ADDRESS")]
    pub v6: Option<V6Address>,
    /// A prefix that the network routes to this node, as by DHCPv6-PD (/16 to /96): the address is made from it, and no
    /// neighbour on the uplink is answered for it; `auto`: the uplink's /64 [default: auto]
    #[arg(long, value_name = "auto|PREFIX")]
    pub v6_prefix: Option<Prefix>,
    /// IPv4 destinations to reach through the translator; may be given several times [default: 0.0.0.0/0]
    #[arg(long = "route", value_name = "PREFIX", value_parser = network::parse::<Ipv4Net>)]
    pub routes: Vec<Ipv4Net>,
    /// Metric of these routes; a native IPv4 route with a lower one wins [default: 2048, or the next that is free]
    #[arg(long, value_name = "NUMBER")]
    pub metric: Option<u32>,
    /// While another program's CLAT serves this host, such as NetworkManager's: have no IPv4 routes, or go on [default: yield]
    #[arg(long, value_enum, value_name = "yield|take-over")]
    pub other_clat: Option<OtherClat>,
    /// Name of the TUN device [default: diolkos0]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// The group whose members may read status and figures by the control socket [default: none]
    #[arg(long, value_name = "GROUP")]
    pub control_group: Option<String>,
    /// A configuration file for everything else
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The process that has started this one: this one ends when that one ends
    #[arg(long, value_name = "PROCESS", hide = true)]
    pub end_with: Option<u32>,
    /// Options of every translator
    #[command(flatten)]
    pub common: Common,
}
