// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[nat64]`: the pool, bindings, filtering, timeouts and limits of a stateful NAT64 (RFC 6146).

use std::fmt;
use std::net::{SocketAddrV4, SocketAddrV6};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use diolkos_core::config::nat64 as core;
use ipnet::{Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{network, Found, Limit, Networks, Settings};

/// A stateful NAT64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Nat64 {
    /// IPv4 prefixes that lead to the translator; auto: `pool4` and the addresses of `static`.
    pub routes4: Networks<Ipv4Net>,
    /// IPv6 prefixes that lead to it; auto: `translator.pref64`.
    pub routes6: Networks<Ipv6Net>,
    /// Preference of these routes; a route to the same prefix with a lower metric wins.
    pub metric: u32,
    /// Which packets from the IPv4 side a binding lets in (RFC 4787 section 5).
    pub filtering: Filtering,
    /// Give a node the port that it uses itself, if it is free.
    pub port_preservation: bool,
    /// Give a source ports in blocks of so many, 64 to 4096, so that a log needs a line for each block only; 0: port by port.
    pub ports_per_block: u16,
    /// Blocks of ports that one source can have.
    pub max_blocks_per_source: u16,
    /// Sessions in total.
    pub max_sessions: u32,
    /// Bindings in total.
    pub max_bindings: u32,
    /// Sessions of one source; auto: shares alone decide.
    pub max_sessions_per_source: Limit,
    /// Bindings of one source; auto: shares alone decide.
    pub max_bindings_per_source: Limit,
    /// Bits of the IPv6 prefix that is one source.
    pub source_prefix_len: u8,
    /// Bits of the wider prefixes that are one site, two at most.
    pub site_prefix_lens: Vec<u8>,
    /// Percent of the sessions, the bindings and the ports that the others leave, for one IPv6 address.
    pub host_share: u8,
    /// The same for one source.
    pub source_share: u8,
    /// The same for one site.
    pub site_share: u8,
    /// Percent of the sessions that the IPv4 side may open.
    pub outside_share: u8,
    /// Raise an alarm when so many percent of a table, of the pool or of a share are in use; 0: never.
    pub alarm_percent: u8,
    /// Where sessions are kept while the program does not run; empty: nowhere.
    pub state: PathBuf,
    /// How often that file is written while the program runs, seconds. What the operator changes is written at once.
    pub state_interval: u64,
    /// How long sessions live without a packet.
    pub timeouts: Timeouts,
    /// Fixed ports for each source, so that no log is needed (RFC 7422); without it, ports are dynamic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<Deterministic>,
    /// The IPv4 addresses and ports of the nodes.
    pub pool4: Vec<Pool4>,
    /// Bindings of the operator, in both directions.
    #[serde(rename = "static")]
    pub bindings: Vec<Static>,
}

impl Default for Nat64 {
    fn default() -> Nat64 {
        let limits = core::Limits::default();
        Nat64 {
            routes4: Networks::Auto,
            routes6: Networks::Auto,
            metric: 1024,
            filtering: Filtering::default(),
            port_preservation: false,
            ports_per_block: 0,
            max_blocks_per_source: 8,
            max_sessions: limits.sessions,
            max_bindings: limits.bindings,
            max_sessions_per_source: Limit::Auto,
            max_bindings_per_source: Limit::Auto,
            source_prefix_len: limits.source_prefix_len,
            site_prefix_lens: limits.site_prefix_lens.to_vec(),
            host_share: limits.host_share,
            source_share: limits.source_share,
            site_share: limits.site_share,
            outside_share: limits.outside_share,
            alarm_percent: 80,
            state: PathBuf::new(),
            state_interval: 60,
            timeouts: Timeouts::default(),
            deterministic: None,
            pool4: Vec::new(),
            bindings: Vec::new(),
        }
    }
}

impl Nat64 {
    /// The file in which sessions are kept while the program does not run, if they are.
    pub fn state(&self) -> Option<&Path> {
        Some(self.state.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// As many as are supported; more are objected to.
    fn site_prefix_lens(&self) -> [u8; core::MAX_SITES] {
        let mut lens = self.site_prefix_lens.iter();
        [(); core::MAX_SITES].map(|()| lens.next().copied().unwrap_or(0))
    }
}

/// Which packets from the IPv4 side a binding lets in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filtering {
    /// From everybody.
    #[default]
    EndpointIndependent,
    /// From IPv4 addresses to which the node behind the binding has sent.
    AddressDependent,
}

/// How long sessions live without a packet, seconds (RFC 6146 section 4, which also sets the least).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// UDP.
    pub udp: u64,
    /// TCP whose both sides have spoken.
    pub tcp_established: u64,
    /// TCP that begins or ends.
    pub tcp_transitory: u64,
    /// A SYN from the IPv4 side that nobody has answered yet.
    pub tcp_incoming_syn: u64,
    /// ICMP queries.
    pub icmp: u64,
    /// The fragments of one packet.
    pub fragments: u64,
    /// A block of ports of which none is used any more, with its source.
    pub port_block: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let core = core::Timeouts::default();
        Timeouts {
            udp: core.udp.as_secs(),
            tcp_established: core.tcp_established.as_secs(),
            tcp_transitory: core.tcp_transitory.as_secs(),
            tcp_incoming_syn: core.tcp_incoming_syn.as_secs(),
            icmp: core.icmp.as_secs(),
            fragments: core.fragments.as_secs(),
            port_block: 120,
        }
    }
}

/// Fixed ports for each source (RFC 7422).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deterministic {
    /// The prefixes of those who may use the pool, in the order in which they get ports. One source is `source_prefix_len`
    /// bits of them.
    pub sources: Vec<Ipv6Net>,
    /// Ports of each source, a multiple of 64; auto: as many as the pool has.
    #[serde(default)]
    pub ports_per_source: Limit,
    /// Percent of each address's ports that sources get in blocks (`ports_per_block`) once their own are used up.
    #[serde(default)]
    pub overflow_share: u8,
}

/// A part of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool4 {
    /// An address, or a prefix with all its addresses.
    pub address: Addresses,
    /// Its ports, or query identifiers.
    #[serde(default)]
    pub ports: Ports,
    /// For which protocols.
    #[serde(default = "all_protocols")]
    pub protocols: Vec<Protocol>,
}

fn all_protocols() -> Vec<Protocol> {
    vec![Protocol::Tcp, Protocol::Udp, Protocol::Icmp]
}

/// A transport with a binding table of its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP queries; the identifier stands for the port.
    Icmp,
}

impl From<Protocol> for core::Protocol {
    fn from(protocol: Protocol) -> core::Protocol {
        match protocol {
            Protocol::Tcp => core::Protocol::Tcp,
            Protocol::Udp => core::Protocol::Udp,
            Protocol::Icmp => core::Protocol::Icmp,
        }
    }
}

/// One binding of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Static {
    /// Of which table.
    pub protocol: Protocol,
    /// As the IPv4 side sees the node.
    pub v4: SocketAddrV4,
    /// The node.
    pub v6: SocketAddrV6,
}

impl From<Static> for core::Binding {
    fn from(binding: Static) -> core::Binding {
        core::Binding {
            protocol: binding.protocol.into(),
            v4: core::Endpoint4 {
                addr: *binding.v4.ip(),
                port: binding.v4.port(),
            },
            v6: core::Endpoint6 {
                addr: *binding.v6.ip(),
                port: binding.v6.port(),
            },
        }
    }
}

/// An IPv4 address or prefix, written as either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Addresses(pub Ipv4Net);

impl TryFrom<String> for Addresses {
    type Error = String;

    fn try_from(text: String) -> Result<Addresses, String> {
        network::parse(&text).map(Addresses)
    }
}

impl From<Addresses> for String {
    fn from(Addresses(net): Addresses) -> String {
        match net.prefix_len() {
            32 => net.addr().to_string(),
            _ => net.to_string(),
        }
    }
}

/// A range of ports, as `1024-65535`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports(pub RangeInclusive<u16>);

impl Default for Ports {
    fn default() -> Ports {
        Ports(1024..=65535)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.start(), self.0.end())
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Ports(first..=last)),
            _ => Err(format!(
                "`{text}` is not a range of ports such as 1024-65535"
            )),
        }
    }
}

impl TryFrom<String> for Ports {
    type Error = String;

    fn try_from(text: String) -> Result<Ports, String> {
        text.parse()
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> String {
        ports.to_string()
    }
}

impl Settings {
    /// The configuration as the stateful translator takes it.
    pub fn stateful(&self, found: Found) -> core::Nat64Config {
        let n = &self.nat64;
        let pool4 = n.pool4.iter().map(|part| core::Pool4 {
            net: part.address.0,
            ports: part.ports.0.clone(),
            protocols: part.protocols.iter().map(|&p| p.into()).collect(),
        });
        let t = &n.timeouts;
        core::Nat64Config {
            translator: self.translation(found),
            pool4: pool4.collect(),
            bindings: n.bindings.iter().map(|&binding| binding.into()).collect(),
            blocks: (n.ports_per_block > 0).then(|| core::PortBlocks {
                ports: n.ports_per_block,
                per_source: n.max_blocks_per_source,
                source_prefix_len: n.source_prefix_len,
                idle: Duration::from_secs(t.port_block),
            }),
            deterministic: n.deterministic.as_ref().map(|wanted| core::Deterministic {
                sources: wanted.sources.clone(),
                ports_per_source: match wanted.ports_per_source {
                    Limit::Auto => None,
                    Limit::Most(ports) => Some(ports),
                },
                overflow_share: wanted.overflow_share,
            }),
            filtering: match n.filtering {
                Filtering::EndpointIndependent => core::Filtering::EndpointIndependent,
                Filtering::AddressDependent => core::Filtering::AddressDependent,
            },
            port_preservation: n.port_preservation,
            timeouts: core::Timeouts {
                udp: Duration::from_secs(t.udp),
                tcp_established: Duration::from_secs(t.tcp_established),
                tcp_transitory: Duration::from_secs(t.tcp_transitory),
                tcp_incoming_syn: Duration::from_secs(t.tcp_incoming_syn),
                icmp: Duration::from_secs(t.icmp),
                fragments: Duration::from_secs(t.fragments),
            },
            limits: core::Limits {
                sessions: n.max_sessions,
                bindings: n.max_bindings,
                sessions_per_source: n.max_sessions_per_source.or(u32::MAX),
                bindings_per_source: n.max_bindings_per_source.or(u32::MAX),
                source_prefix_len: n.source_prefix_len,
                site_prefix_lens: n.site_prefix_lens(),
                host_share: n.host_share,
                source_share: n.source_share,
                site_share: n.site_share,
                outside_share: n.outside_share,
                ..core::Limits::default()
            },
        }
    }
}
