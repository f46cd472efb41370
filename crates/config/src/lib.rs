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
mod cluster;
mod control;
mod dns64;
mod dns64_prefix;
mod file;
pub mod fixed_keys;
mod log;
mod metrics;
mod mistake;
pub mod nat64;
mod objections;
mod pieces;
pub mod port_owner;
mod position;
mod print;
mod resolver;
mod schema;
mod switch;
mod text;
mod translation;
mod warnings;
mod zero_checksum;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use ipnet::{Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use diolkos_xlat::config::auto::number;
use network::networks;

pub use announce::Announce;
pub use auto::{Mtu, Networks, Prefix, V4Address, V6Address};
pub use cluster::{given, Cluster, Node};
pub use control::Control;
pub use diolkos_xlat::config::{network, Eam, Icmp, TrafficClass};
pub use dns64::Dns64;
pub use file::{device, load, parse};
pub use log::{Collector, Destination, Facility, Level, Log, Transport};
pub use metrics::{Metrics, Place};
pub use nat64::Nat64;
pub use objections::NO_SHARING_WITH_TC;
pub use resolver::Resolver;
pub use schema::schema;
pub use translation::Found;
pub use warnings::warn;
pub use zero_checksum::ZeroChecksum;

/// Everything a configuration file can say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How packets are translated, and where.
    pub translator: Translator,
    /// The explicit address mapping table (RFC 7757), of a SIIT.
    pub eam: Vec<Eam>,
    /// ICMP errors: those originated here, and those of routers whose address has no counterpart.
    pub icmp: Icmp,
    /// The addresses and routes of a CLAT (RFC 6877).
    pub clat: Clat,
    /// The routes that lead to a SIIT (RFC 7915).
    pub siit: Siit,
    /// A stateful NAT64 (RFC 6146).
    pub nat64: Nat64,
    /// Several gateways that share the pool of a NAT64.
    pub cluster: Option<Cluster>,
    /// Interfaces whose neighbours a router answers.
    pub announce: Vec<Announce>,
    /// The DNS64 (RFC 6147), which may also be alone.
    pub dns64: Option<Dns64>,
    /// Who may ask the running program.
    pub control: Control,
    /// Figures for a monitoring system.
    pub metrics: Metrics,
    /// What is logged.
    pub log: Log,
    /// This process serves `[dns64]`: the file has nothing else, or the command is `dns64`.
    #[serde(skip)]
    pub no_translator: bool,
    /// The command starts a translator and nothing beside it.
    #[serde(skip)]
    pub only_translator: bool,
}

/// What the program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Customer-side translator of 464XLAT.
    #[default]
    Clat,
    /// Stateless translator for a router.
    Siit,
    /// Stateful translator for a router.
    Nat64,
}

impl Mode {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Clat => "clat",
            Mode::Siit => "siit",
            Mode::Nat64 => "nat64",
        }
    }
}

/// Which path packets may take.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// `tc` where the kernel and the privileges allow it, else `tun`.
    #[default]
    Auto,
    /// The slow path alone: every packet crosses the TUN device.
    Tun,
    /// The eBPF fast path at tc, with the slow path for what it declines.
    Tc,
    /// A P4 switch (`diolkos-switch`) of a router, with the slow path for what it declines and while it is not there.
    P4,
}

impl Datapath {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Datapath::Auto => "auto",
            Datapath::Tun => "tun",
            Datapath::Tc => "tc",
            Datapath::P4 => "p4",
        }
    }
}

/// Where the fast path hooks in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Over the TUN device, to which routes lead.
    #[default]
    Device,
    /// Also at the ingress of the interfaces of a router, before any routing.
    Inline,
    /// The same, and what can be is sent out of another of the interfaces without the kernel's forwarding.
    Direct,
    /// The same, and what can be is translated and sent by the interfaces' drivers (native XDP).
    Xdp,
    /// `xdp` where all of the interfaces can do it and none is a virtual Ethernet, else `direct`.
    Auto,
}

impl Placement {
    /// Returns true if packets may be sent without the kernel's forwarding.
    pub fn sends(self) -> bool {
        match self {
            Placement::Device | Placement::Inline => false,
            Placement::Direct | Placement::Xdp | Placement::Auto => true,
        }
    }

    /// Returns true if drivers may translate.
    pub fn has_drivers(self) -> bool {
        matches!(self, Placement::Xdp | Placement::Auto)
    }
}

/// How tc programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// `tcx` where the kernel has it (6.6 and later), else `clsact`.
    #[default]
    Auto,
    /// Links that die with the process.
    Tcx,
    /// Filters on the clsact queueing discipline.
    Clsact,
}

/// How packets are translated, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Translator {
    /// What the program is.
    pub mode: Mode,
    /// Which path packets may take.
    pub datapath: Datapath,
    /// Where the fast path hooks in.
    pub placement: Placement,
    /// How tc programs are attached.
    pub hook: Hook,
    /// With the datapath `p4`: the control socket of the switch.
    pub switch: PathBuf,
    /// With the datapath `p4`: the interfaces on which the kernel gets what the switch declines, in the order of its
    /// `--port` options.
    pub switch_ports: Vec<String>,
    /// Name of the TUN device.
    pub device: String,
    /// Readers of the TUN device; 0: one for each CPU, at most 4.
    pub queues: usize,
    /// Of a CLAT: its uplink, one interface; empty: that of the IPv6 default route. Of a router: where the program switches forwarding on while it runs, and where
    /// every placement but `device` translates packets. Empty: forwarding is switched on everywhere, and packets are
    /// translated at the TUN device alone.
    pub interfaces: Vec<String>,
    /// Translation prefixes (RFC 6052: /32, /40, /48, /56, /64 or /96). A CLAT has one, that of its PLAT; with `"auto"`, its
    /// default, it learns the prefix from its network (RFC 8781, RFC 7050) and follows its changes. The default of a router
    /// is 64:ff9b::/96.
    pub pref64: Networks<Ipv6Net>,
    /// The least IPv6 MTU behind the translator, bytes. IPv4 packets without DF are fragmented to fit it (RFC 7915 section 4).
    pub lowest_ipv6_mtu: u32,
    /// MTU of the next hop on the IPv4 side, bytes. `"auto"`: the device's, which is that of the largest interface.
    pub mtu4: Mtu,
    /// MTU of the next hop on the IPv6 side, bytes. `"auto"`: as `mtu4`; of a CLAT, the uplink's.
    pub mtu6: Mtu,
    /// What becomes of UDP over IPv4 without a checksum, which IPv6 does not allow. `"auto"`: `"drop"` of a CLAT and a SIIT
    /// (RFC 7915 section 4.5), `"compute"` of a NAT64 (RFC 6146 section 3.4).
    pub udp_zero_checksum: ZeroChecksum,
    /// Of a CLAT or a SIIT: UDP over IPv4 without a checksum, from or to one of these ports, passes to IPv6 without a
    /// checksum, as tunnels send it (RFC 8200 section 8.1, RFC 6936). This goes before `udp_zero_checksum`.
    pub udp_zero_checksum_ports: Vec<u16>,
    /// What becomes of TOS and traffic class (RFC 7915 sections 4.1 and 5.1).
    pub traffic_class: TrafficClass,
    /// Let 64:ff9b::/96 carry IPv4 that is not globally reachable (against RFC 6052 section 3.1).
    pub allow_private_with_wkp: bool,
}

impl Default for Translator {
    fn default() -> Translator {
        Translator {
            mode: Mode::default(),
            datapath: Datapath::default(),
            placement: Placement::default(),
            hook: Hook::default(),
            switch: PathBuf::from("/run/diolkos-switch.socket"),
            switch_ports: Vec::new(),
            device: "diolkos0".to_owned(),
            queues: 0,
            interfaces: Vec::new(),
            pref64: Networks::Auto,
            lowest_ipv6_mtu: 1280,
            mtu4: Mtu::Auto,
            mtu6: Mtu::Auto,
            udp_zero_checksum: ZeroChecksum::default(),
            udp_zero_checksum_ports: Vec::new(),
            traffic_class: TrafficClass::default(),
            allow_private_with_wkp: false,
        }
    }
}

/// RFC 6052 section 2.1.
pub const WELL_KNOWN_PREFIX: Ipv6Net =
    match Ipv6Net::new(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96) {
        Ok(net) => net,
        Err(_) => panic!("96 is a prefix length"),
    };

/// The addresses and routes of a CLAT (RFC 6877).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Clat {
    /// The IPv4 address of the TUN device (RFC 7335). `"auto"`: the first of 192.0.0.1 to 192.0.0.6 that no other CLAT of this
    /// host has.
    pub v4: V4Address,
    /// The IPv6 address into which it is translated. `"auto"`: made from `v6_prefix`; where that is `"auto"` and the uplink has
    /// addresses but no /64, as `"shared"`. `"shared"`: an internal one, which the kernel masquerades, so that the CLAT
    /// shares the address of this host.
    pub v6: V6Address,
    /// A prefix that the network routes to this node, as by DHCPv6-PD: the address is made from it, or lies in it.
    /// `"auto"`: the uplink's /64.
    pub v6_prefix: Prefix,
    /// What is reached through the translator.
    #[serde(deserialize_with = "networks")]
    pub routes: Vec<Ipv4Net>,
    /// Preference of these routes; a native IPv4 route with a lower metric wins. `"auto"`: 2048, or the next one that is free.
    #[serde(with = "number")]
    #[schemars(schema_with = "number::schema")]
    pub metric: Option<u32>,
    /// What to do while another program's CLAT serves this host, such as NetworkManager's.
    pub other_clat: OtherClat,
    /// Who is asked for the prefix where `translator.pref64` is auto; empty: the resolvers of /etc/resolv.conf.
    pub resolvers: Vec<Resolver>,
}

/// What a CLAT does while another program's CLAT serves this host.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum OtherClat {
    /// Steps aside: it has no IPv4 routes until the other one is gone.
    #[default]
    Yield,
    /// Goes on. The IPv4 default route with the lower metric wins.
    TakeOver,
}

impl Default for Clat {
    fn default() -> Clat {
        Clat {
            v4: V4Address::Auto,
            v6: V6Address::Auto,
            v6_prefix: Prefix::Auto,
            routes: vec![Ipv4Net::default()],
            metric: None,
            other_clat: OtherClat::Yield,
            resolvers: Vec::new(),
        }
    }
}

/// The first address for a CLAT (RFC 7335).
pub const FIRST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Addresses that only translators and tunnels to IPv4 use on a host (RFC 7335 section 3).
pub const CONTINUITY: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 29);
/// Metric of a CLAT's routes: any native IPv4 route of a network manager wins.
pub const FIRST_METRIC: u32 = 2048;

impl Clat {
    /// The IPv4 address; before one is chosen, the address of a CLAT that is alone on its host.
    pub fn v4(&self) -> Ipv4Addr {
        self.v4.fixed().unwrap_or(FIRST_V4)
    }

    /// The metric; before one is chosen, the metric of a CLAT that is alone on its host.
    pub fn metric(&self) -> u32 {
        self.metric.unwrap_or(FIRST_METRIC)
    }

    /// Returns true if the IPv6 address is made from the uplink's prefix, and follows it.
    pub fn follows_uplink(&self) -> bool {
        (self.v6, self.v6_prefix) == (V6Address::Auto, Prefix::Auto)
    }
}

/// The routes that lead to a SIIT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Siit {
    /// IPv4 prefixes whose packets are translated; auto: those of `eam`, whose nodes are on the IPv6 side.
    pub routes4: Networks<Ipv4Net>,
    /// IPv6 prefixes whose packets are translated; auto: `translator.pref64`.
    pub routes6: Networks<Ipv6Net>,
    /// Preference of these routes; a route to the same prefix with a lower metric wins.
    pub metric: u32,
    /// The part of `routes4` that also leads to the translator in IPv6; only the machine can tell it.
    #[serde(skip)]
    pub loops4: Vec<Ipv4Net>,
}

impl Default for Siit {
    fn default() -> Siit {
        Siit {
            routes4: Networks::Auto,
            routes6: Networks::Auto,
            metric: 1024,
            loops4: Vec::new(),
        }
    }
}
