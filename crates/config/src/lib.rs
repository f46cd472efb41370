// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration: the file, its defaults, its rules.
//!
//! The file is TOML; every key has a default. [`Settings`] prints itself in canonical form and parses its own print.
//!
//! file (→ pieces, if it is long; → mistake, if it is wrong) → settings → objections → translation (the form of `diolkos-xlat`)
//!
//! The crate knows the options of `diolkos-xlat` and the kernel's names for hooks, but changes nothing on the machine. Other
//! crates use [`Settings`] with its parts, [`load`] and [`parse`], [`fixed_keys`] (the keys that a reload must not change) and
//! [`port_owner`] (the program that uses a port of the configuration).

mod announce;
mod auto;
mod clat;
mod cluster;
mod control;
mod dns64;
mod dns64_names;
mod dns64_prefix;
mod domain_name;
mod error;
mod file;
pub mod fixed_keys;
pub mod key;
mod log;
mod metrics;
mod mistake;
mod mode;
pub mod nat64;
mod objections;
mod pcp;
mod pieces;
mod placing;
pub mod port_owner;
mod position;
mod print;
mod resolver;
mod schema;
mod siit;
mod switch;
mod tcp_mss;
mod text;
mod translation;
mod translator;
mod upstream;
mod wan;
mod warnings;
mod zero_checksum;

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use key::section;

pub use announce::Announce;
pub use auto::{Mtu, Networks, Prefix, V4Address, V6Address};
pub use clat::{Clat, OtherClat, CONTINUITY, FIRST_METRIC, FIRST_V4};
pub use cluster::{given, Cluster, Node};
pub use control::Control;
pub use diolkos_xlat::config::{network, Eam, Icmp, TrafficClass};
pub use dns64::{Dns64, QueryLog};
pub use domain_name::DomainName;
pub use error::ConfigurationError;
pub use file::{device, load, parse};
pub use log::{Collector, Destination, Facility, Level, Log, Transport};
pub use metrics::{Metrics, MetricsAddress};
pub use mode::{Datapath, Hook, Mode, Placement};
pub use nat64::Nat64;
pub use objections::NO_SHARING_WITH_TC;
pub use pcp::Pcp;
pub use resolver::Resolver;
pub use schema::schema;
pub use siit::Siit;
pub use tcp_mss::TcpMss;
pub use translation::AutoValues;
pub use translator::Translator;
pub use upstream::Upstream;
pub use warnings::warn;
pub use zero_checksum::ZeroChecksum;

section! {
    /// Everything a configuration file can say.
    pub struct Settings {
        /// How packets are translated, and where.
        translator: Translator = Default::default(), Each;
        /// The explicit address mapping table (RFC 7757), of a SIIT.
        eam: Vec<Eam> = Default::default(), Live;
        /// ICMP errors: those originated here, and those of routers whose address has no counterpart.
        icmp: Icmp = Default::default(), Live;
        /// The addresses and routes of a CLAT (RFC 6877).
        clat: Clat = Default::default(), Each;
        /// The routes that lead to a SIIT (RFC 7915).
        siit: Siit = Default::default(), Each;
        /// A stateful NAT64 (RFC 6146).
        nat64: Nat64 = Default::default(), Each;
        /// Several gateways that share the pool of a NAT64.
        cluster: Option<Cluster> = Default::default(), Rejoin;
        /// Interfaces whose neighbours a router answers.
        announce: Vec<Announce> = Default::default(), Live;
        /// The DNS64 (RFC 6147), which may also be alone.
        dns64: Option<Dns64> = Default::default(), Dns64;
        /// Who may ask the running program.
        control: Control = Default::default(), Each;
        /// Figures for a monitoring system.
        metrics: Metrics = Default::default(), Each;
        /// What is logged.
        log: Log = Default::default(), Each;
    }
    not in the file {
        /// This process serves `[dns64]`: the file has nothing else, or the command is `dns64`.
        no_translator: bool = Default::default();
        /// The command starts a translator and nothing beside it.
        only_translator: bool = Default::default();
    }
}

/// RFC 6052 section 2.1.
pub const WELL_KNOWN_PREFIX: Ipv6Net =
    match Ipv6Net::new(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96) {
        Ok(net) => net,
        Err(_) => panic!("96 is a prefix length"),
    };
