// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a stateful NAT64 (RFC 6146), in addition to those of every translator.

mod check;
mod endpoint;
#[cfg(feature = "file")]
mod file;
mod limits;
mod mapping;
mod mappings;
mod numbered;
mod overlap;
mod owners;
mod pools;
mod wan;

pub use diolkos_xlat::verdict::Gateway;
pub use endpoint::{Endpoint4, Endpoint6};
pub use limits::{share, Lendable, Level, LevelKind, Limits, LEVELS, MAX_SITES};
pub use mapping::{Figures, Mapping, PortRange};
pub use mappings::Mappings;
pub use owners::{Owners, MOST_GATEWAYS};
pub use pools::{PoolId, Pools, DEFAULT_POOL};
pub use wan::Wan;

use diolkos_xlat::config::Config;
#[cfg(feature = "file")]
use diolkos_xlat::config::{auto, network};
#[cfg(feature = "file")]
use file::seconds;
use ipnet::{Ipv4Net, Ipv6Net};
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A protocol with its own binding table (RFC 6146 section 3.1).
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
    /// ICMP queries; the identifier takes the role of the port.
    Icmp,
}

impl Protocol {
    /// All protocols, in index order.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];

    /// The index in an array of three elements.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in configuration and output.
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
    /// An address, or a prefix for all its addresses.
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
    /// The protocols that may use it.
    #[cfg_attr(feature = "file", serde(default = "file::all_protocols"))]
    pub protocols: Vec<Protocol>,
    /// The IPv6 prefixes whose nodes use it, and nothing else; the longest prefix counts. Without: all other nodes. Entries
    /// with the same prefixes are one pool. Refused in a cluster.
    #[cfg_attr(
        feature = "file",
        serde(default, skip_serializing_if = "Vec::is_empty")
    )]
    pub sources: Vec<Ipv6Net>,
    /// The interface whose own address packets have beyond it, with the same ports. `address` is then one that only this
    /// router knows, and the other ports of the interface stay the router's.
    #[cfg_attr(
        feature = "file",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub interface: Option<String>,
}

/// A static binding: packets pass in both directions without a prior packet. Its IPv4 address need not be in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Binding {
    /// The binding table.
    pub protocol: Protocol,
    /// The transport address of the node on the IPv4 side.
    pub v4: Endpoint4,
    /// The transport address of the node.
    pub v6: Endpoint6,
}

/// Port blocks for sources, so that a log needs one line for each block only (RFC 6888 REQ-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortBlocks {
    /// Ports of a block for each protocol: a power of two from 64 to 4096.
    pub ports: u16,
    /// Maximum number of blocks of one source.
    pub per_source: u16,
    /// Prefix length of one source, as in [`Limits`].
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
    /// The prefixes of the users of the pool, in the order in which they get ports. A source is a prefix of
    /// `source_prefix_len` bits in them. Entries of `pool4` with `sources` of their own are divided between these.
    #[cfg_attr(feature = "file", serde(default))]
    pub sources: Vec<Ipv6Net>,
    /// Ports of each source, a multiple of 64. With `auto`: as many as the pool allows.
    #[cfg_attr(
        feature = "file",
        serde(default, with = "auto::number"),
        schemars(schema_with = "auto::number::schema")
    )]
    pub ports_per_source: Option<u32>,
    /// Percentage of the ports of each address that is given in blocks (`ports_per_block`) to sources whose fixed ports
    /// are in use.
    #[cfg_attr(feature = "file", serde(default))]
    pub overflow_share: u8,
}

/// The packets from the IPv4 side that a binding accepts (RFC 4787 section 5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Filtering {
    /// From every address.
    #[default]
    EndpointIndependent,
    /// From IPv4 addresses to which the node of the binding has sent.
    AddressDependent,
}

/// Lifetimes without packets (RFC 6146 section 4). A configuration file has whole seconds.
///
/// Copies of bindings have the lifetimes of their owner, so all gateways of a cluster need the same: `x-reload` says so to
/// `diolkos-config`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Timeouts {
    /// UDP sessions.
    #[cfg_attr(
        feature = "file",
        serde(with = "seconds"),
        schemars(with = "u64", extend("x-reload" = "shared"))
    )]
    pub udp: Duration,
    /// TCP sessions with SYN packets from both sides.
    #[cfg_attr(
        feature = "file",
        serde(with = "seconds"),
        schemars(with = "u64", extend("x-reload" = "shared"))
    )]
    pub tcp_established: Duration,
    /// TCP sessions that are opening or closing.
    #[cfg_attr(
        feature = "file",
        serde(with = "seconds"),
        schemars(with = "u64", extend("x-reload" = "shared"))
    )]
    pub tcp_transitory: Duration,
    /// An unanswered SYN from the IPv4 side.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub tcp_incoming_syn: Duration,
    /// ICMP query sessions.
    #[cfg_attr(
        feature = "file",
        serde(with = "seconds"),
        schemars(with = "u64", extend("x-reload" = "shared"))
    )]
    pub icmp: Duration,
    /// The fragments of one packet.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub fragments: Duration,
    /// Time for which a source keeps a port block after its last port became unused.
    #[cfg_attr(feature = "file", serde(with = "seconds"), schemars(with = "u64"))]
    pub port_block: Duration,
}

impl Default for Timeouts {
    /// The values of RFC 6146 section 4, in this order: `UDP_DEFAULT`, `TCP_EST`, `TCP_TRANS`, `TCP_INCOMING_SYN`,
    /// `ICMP_DEFAULT`, `FRAGMENT_MIN`. The RFC has no port blocks.
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

/// All settings of a stateful NAT64.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Nat64Config {
    /// The settings of every translator. A NAT64 has no mapping table (`eam`) and is not a CLAT.
    pub translator: Config,
    /// The pool. An address may occur several times, with different ports or protocols.
    pub pool4: Vec<Pool4>,
    /// The address that the interface of a part has, once it is known.
    pub outside: Option<Ipv4Addr>,
    /// Static bindings.
    pub bindings: Vec<Binding>,
    /// Set if sources get port blocks.
    pub blocks: Option<PortBlocks>,
    /// Set if sources have fixed ports, which identify the user of a port without a log. Port blocks then come from the
    /// overflow.
    pub deterministic: Option<Deterministic>,
    /// Set if other gateways serve the same nodes, each with its own addresses, and bindings of a failed gateway
    /// continue here.
    pub owners: Option<Owners>,
    /// The packets that may use a binding.
    pub filtering: Filtering,
    /// Give a node the port that it uses itself, if it is free (RFC 4787 section 4.2.1). The port is then only as
    /// unpredictable as the node's choice.
    pub port_preservation: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Limits.
    pub limits: Limits,
}

/// Maximum number of addresses in a pool; each costs a bit in every table of it.
pub const MAX_POOL_ADDRESSES: u64 = 1 << 16;

/// Maximum number of entries in a table.
pub const MAX_ENTRIES: u32 = 1 << 30;
