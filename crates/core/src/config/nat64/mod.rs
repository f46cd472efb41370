// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the operator says of a stateful NAT64 (RFC 6146), beyond what holds for every translator.

mod check;
mod limits;
mod mapping;
mod numbered;

pub use limits::{share, Lendable, Level, LevelKind, Limits, LEVELS, MAX_SITES};
pub use mapping::{Figures, Mapping, PortRange};

use super::Config;
use ipnet::{Ipv4Net, Ipv6Net};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A transport with a binding table of its own (RFC 6146 section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP queries (echo); the identifier stands for the port.
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

/// An IPv4 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Endpoint4 {
    /// The node.
    pub addr: Ipv4Addr,
    /// Port or query identifier.
    pub port: u16,
}

/// An IPv6 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Endpoint6 {
    /// The node.
    pub addr: Ipv6Addr,
    /// Port or query identifier.
    pub port: u16,
}

impl fmt::Display for Endpoint4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.addr, self.port)
    }
}

impl fmt::Display for Endpoint6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:{}", self.addr, self.port)
    }
}

/// A part of the pool of IPv4 transport addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool4 {
    /// Its addresses, all of the network.
    pub net: Ipv4Net,
    /// Its ports or query identifiers. Port 0 of TCP and UDP is never used.
    pub ports: RangeInclusive<u16>,
    /// For which protocols.
    pub protocols: Vec<Protocol>,
}

/// A binding that the operator made: packets pass in both directions without anybody having begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binding {
    /// Of which table.
    pub protocol: Protocol,
    /// As the IPv4 side sees the node. Need not lie in the pool.
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
    /// For so long after its last use a block stays with its source.
    pub idle: Duration,
}

/// Fixed ports for each source, by which everybody who has the configuration knows whose a port was (RFC 7422).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deterministic {
    /// The prefixes of those who may use the pool: sources of [`Limits::source_prefix_len`] bits, in the order in which they
    /// are numbered.
    pub sources: Vec<Ipv6Net>,
    /// Ports of each source, for each protocol: a multiple of 64. None: as many as the pool has.
    pub ports_per_source: Option<u32>,
    /// Percent of the ports of each address that are given in blocks ([`Nat64Config::blocks`]) to sources that need more.
    pub overflow_share: u8,
}

/// Which packets from the IPv4 side a binding lets in (RFC 4787 section 5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Filtering {
    /// From everybody.
    #[default]
    EndpointIndependent,
    /// From IPv4 addresses to which the node behind the binding has sent.
    AddressDependent,
}

/// How long a session lives without a packet (RFC 6146 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// `UDP_DEFAULT`.
    pub udp: Duration,
    /// `TCP_EST`.
    pub tcp_established: Duration,
    /// `TCP_TRANS`.
    pub tcp_transitory: Duration,
    /// `TCP_INCOMING_SYN`: how long a SYN from the IPv4 side is kept without an answer.
    pub tcp_incoming_syn: Duration,
    /// `ICMP_DEFAULT`.
    pub icmp: Duration,
    /// `FRAGMENT_MIN`: how long the fragments of one packet may take.
    pub fragments: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            udp: Duration::from_secs(5 * 60),
            tcp_established: Duration::from_secs(2 * 3600 + 4 * 60),
            tcp_transitory: Duration::from_secs(4 * 60),
            tcp_incoming_syn: Duration::from_secs(6),
            icmp: Duration::from_secs(60),
            fragments: Duration::from_secs(2),
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
    /// Whether sources have fixed ports. Blocks are then those of the overflow.
    pub deterministic: Option<Deterministic>,
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
