// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the operator says of a stateful NAT64 (RFC 6146), beyond what holds for every translator.

mod check;
mod endpoint;
#[cfg(feature = "file")]
mod file;
mod limits;
mod mapping;
mod numbered;
mod overlap;
mod owners;

pub use diolkos_xlat::verdict::Gateway;
pub use endpoint::{Endpoint4, Endpoint6};
pub use limits::{share, Lendable, Level, LevelKind, Limits, LEVELS, MAX_SITES};
pub use mapping::{Figures, Mapping, PortRange};
pub use owners::{Owners, MOST_GATEWAYS};

use diolkos_xlat::config::Config;
#[cfg(feature = "file")]
use diolkos_xlat::config::{auto, network};
#[cfg(feature = "file")]
use file::seconds;
use ipnet::{Ipv4Net, Ipv6Net};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A transport with a binding table of its own (RFC 6146 section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
#[repr(u8)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP queries; the identifier stands for the port.
    Icmp,
}

impl Protocol {
    /// Every protocol, in the order of its index.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];

    /// Index into an array of three.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that configuration and output use.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Icmp => "icmp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A part of the pool of IPv4 transport addresses. Port 0 of TCP and UDP is never used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Pool4 {
    /// An address, or a prefix with all its addresses.
    #[cfg_attr(
        feature = "file",
        serde(
            rename = "address",
            deserialize_with = "network::network",
            serialize_with = "network::serialize_short"
        ),
        schemars(schema_with = "file::address_schema")
    )]
    pub net: Ipv4Net,
    /// Its ports, or query identifiers.
    #[cfg_attr(
        feature = "file",
        serde(default = "file::ports::unprivileged", with = "file::ports"),
        schemars(schema_with = "file::ports::schema")
    )]
    pub ports: RangeInclusive<u16>,
    /// For which protocols.
    #[cfg_attr(feature = "file", serde(default = "file::all_protocols"))]
    pub protocols: Vec<Protocol>,
}

/// A binding that the operator made: packets pass in both directions without anybody having begun. Its IPv4 address need not
/// lie in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Binding {
    /// Of which table.
    pub protocol: Protocol,
    /// As the IPv4 side sees the node.
    pub v4: Endpoint4,
    /// The node.
    pub v6: Endpoint6,
}

/// Blocks of ports that sources get, so that a log needs a line for each block only (RFC 6888 REQ-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortBlocks {
    /// Ports of a block, for each protocol: a power of two between 64 and 4096.
    pub ports: u16,
    /// Blocks that one source can have.
    pub per_source: u16,
    /// Bits of the prefix that is one source, as in [`Limits`].
    pub source_prefix_len: u8,
}

/// Fixed ports for each source (RFC 7422).
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Deterministic {
    /// The prefixes of those who may use the pool, in the order in which they get ports. One source is `source_prefix_len`
    /// bits of them.
    pub sources: Vec<Ipv6Net>,
    /// Ports of each source, a multiple of 64; auto: as many as the pool has.
    #[cfg_attr(
        feature = "file",
        serde(default, with = "auto::number"),
        schemars(schema_with = "auto::number::schema")
    )]
    pub ports_per_source: Option<u32>,
    /// Percent of each address's ports that sources get in blocks (`ports_per_block`) once their own are used up.
    #[cfg_attr(feature = "file", serde(default))]
    pub overflow_share: u8,
}

/// Which packets from the IPv4 side a binding lets in (RFC 4787 section 5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Filtering {
    /// From everybody.
    #[default]
    EndpointIndependent,
    /// From IPv4 addresses to which the node behind the binding has sent.
    AddressDependent,
}

/// How long something lives without a packet (RFC 6146 section 4). A file has whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Timeouts {
    /// UDP.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub udp: Duration,
    /// TCP whose both sides have spoken.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub tcp_established: Duration,
    /// TCP that begins or ends.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub tcp_transitory: Duration,
    /// A SYN from the IPv4 side that nobody has answered yet.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub tcp_incoming_syn: Duration,
    /// ICMP queries.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub icmp: Duration,
    /// The fragments of one packet.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub fragments: Duration,
    /// A block of ports of which none is used any more, with its source.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub port_block: Duration,
}

impl Default for Timeouts {
    /// Of RFC 6146 section 4, in this order: `UDP_DEFAULT`, `TCP_EST`, `TCP_TRANS`, `TCP_INCOMING_SYN`, `ICMP_DEFAULT`,
    /// `FRAGMENT_MIN`. It knows no blocks of ports.
    fn default() -> Self {
        Timeouts {
            udp: Duration::from_secs(5 * 60),
            tcp_established: Duration::from_secs(2 * 3600 + 4 * 60),
            tcp_transitory: Duration::from_secs(4 * 60),
            tcp_incoming_syn: Duration::from_secs(6),
            icmp: Duration::from_secs(60),
            fragments: Duration::from_secs(2),
            port_block: Duration::from_secs(120),
        }
    }
}

/// The longest timeout.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Everything that a stateful NAT64 depends on.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Nat64Config {
    /// What holds for every translator. A NAT64 has no mapping table (`eam`) and is no CLAT.
    pub translator: Config,
    /// The pool. The same address may stand in it several times, with other ports or protocols.
    pub pool4: Vec<Pool4>,
    /// Bindings of the operator.
    pub bindings: Vec<Binding>,
    /// Whether sources get blocks of ports.
    pub blocks: Option<PortBlocks>,
    /// Whether sources have fixed ports, by which everybody who has the configuration knows whose a port was. Blocks
    /// are then those of the overflow.
    pub deterministic: Option<Deterministic>,
    /// Whether other gateways serve the same hosts, each with addresses of its own, whose bindings go on here if a gateway fails.
    pub owners: Option<Owners>,
    /// Who may send to a binding.
    pub filtering: Filtering,
    /// Give a node the port that it uses itself, if it is free (RFC 4787 section 4.2.1). What
    /// others can then guess is only as good as the node's choice.
    pub port_preservation: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Limits.
    pub limits: Limits,
}

/// Addresses of the largest pool: each costs a bit in every table of it.
pub const MAX_POOL_ADDRESSES: u64 = 1 << 16;

/// Entries of the largest table.
pub const MAX_ENTRIES: u32 = 1 << 30;
