// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the operator says, and whether it contradicts itself.

#[cfg(feature = "file")]
pub mod auto;
pub mod check;
#[cfg(feature = "file")]
pub mod network;
mod overlap;

use crate::addr::rfc6052::U_OCTET;
use ipnet::{Ipv4Net, Ipv6Net};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Everything that translation depends on. The names are those of the configuration file.
///
/// A CLAT (RFC 6877) is one `pref64` and one [`Eam`] of a /32 and a /128.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Translation prefixes (RFC 6052). All are recognised; IPv4 addresses are embedded in the
    /// first.
    pub pref64: Vec<Ipv6Net>,
    /// The explicit address mapping table (RFC 7757). It goes before `pref64`.
    pub eam: Vec<Eam>,
    /// Be a CLAT (RFC 6877): the IPv4 nodes on our side are those of the mapping table and no others, for `pref64` stands
    /// for the IPv4 Internet behind the PLAT. An IPv4 source or an IPv6 destination outside of the table is unmapped.
    pub clat: bool,
    /// The smallest MTU, in bytes, on any IPv6 path: an IPv4 packet that may be fragmented is cut
    /// to fit it (RFC 7915 section 4.1).
    pub lowest_ipv6_mtu: u32,
    /// MTU in bytes of the next hop on the IPv4 side.
    pub mtu4: u32,
    /// MTU in bytes of the next hop on the IPv6 side.
    pub mtu6: u32,
    /// What becomes of an IPv4 UDP datagram without checksum. None: what the RFC of the mode says, which is
    /// [`UdpZeroChecksum::Compute`] for a NAT64 (RFC 6146 section 3.4) and [`UdpZeroChecksum::Drop`] for a stateless
    /// translator (RFC 7915 section 4.5).
    pub udp_zero_checksum: Option<UdpZeroChecksum>,
    /// Of a stateless translator: UDP ports, from or to which datagrams without checksum pass to IPv6 without checksum
    /// (RFC 8200 section 8.1, RFC 6936), fragments too. They go before `udp_zero_checksum`.
    pub udp_zero_checksum_ports: Vec<u16>,
    /// Type of service and traffic class (RFC 7915 sections 4.1 and 5.1).
    pub traffic_class: TrafficClass,
    /// Let 64:ff9b::/96 carry IPv4 addresses that are not global, which RFC 6052 section 3.1
    /// forbids.
    pub allow_private_with_wkp: bool,
    /// IPv4 networks for which the routes of both families lead to the translator, apart from explicit mappings. A packet
    /// to such an address would come back, whichever family it is translated to, until its hop limit runs out.
    pub loops4: Vec<Ipv4Net>,
    /// Take a hop: TTL and hop limit of the translated packet are one less, and of a packet that has none left, the sender is
    /// told (RFC 7915 sections 4.1 and 5.1). False where the router around the translator takes its hops, and tells.
    pub takes_hop: bool,
    /// ICMP errors.
    pub icmp: Icmp,
}

/// One explicit address mapping (RFC 7757): a node's address keeps its place in the network. Both networks have host bits
/// zero, and the IPv6 suffix is at least as long as the IPv4 suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Eam {
    /// The nodes' IPv4 network; without a length, one node (RFC 7757 section 3.2).
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::network"))]
    pub v4: Ipv4Net,
    /// The nodes' IPv6 network, or one node.
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::network"))]
    pub v6: Ipv6Net,
}

/// What becomes of an IPv4 UDP datagram without checksum, which IPv6 allows for tunnels only (RFC 8200 section 8.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum UdpZeroChecksum {
    /// It is dropped.
    #[default]
    Drop,
    /// Its checksum is computed, which costs a look at every byte. A NAT64 reassembles fragments for it (RFC 6146
    /// section 3.4); a stateless translator drops them all the same (RFC 7915 section 4.5).
    Compute,
}

/// What becomes of TOS and traffic class (RFC 7915 sections 4.1 and 5.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum TrafficClass {
    /// All 8 bits are copied.
    #[default]
    Copy,
    /// Zero in translated packets.
    Zero,
}

/// ICMP errors: those originated here, and those of routers whose address has no counterpart.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Icmp {
    /// Source of the ICMPv4 errors originated here; auto: the first of `source_pool4`, else 192.0.0.8 (RFC 7600).
    #[cfg_attr(
        feature = "file",
        serde(with = "auto"),
        schemars(with = "auto::OrAuto<Ipv4Addr>")
    )]
    pub address4: Option<Ipv4Addr>,
    /// Source of the ICMPv6 errors originated here; auto: the first of `source_pool6`, else the CLAT's own address or a
    /// global one of the router's, else `address4` in the first prefix.
    #[cfg_attr(
        feature = "file",
        serde(with = "auto"),
        schemars(with = "auto::OrAuto<Ipv6Addr>")
    )]
    pub address6: Option<Ipv6Addr>,
    /// Sources for errors of IPv6 routers without an IPv4 address (RFC 6791); empty: 192.0.0.8.
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::networks"))]
    pub source_pool4: Vec<Ipv4Net>,
    /// Sources for errors of IPv4 routers without an IPv6 address; empty: `address6`.
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::networks"))]
    pub source_pool6: Vec<Ipv6Net>,
    /// Name such an IPv6 router in an extension of its error (RFC 6791 section 4, RFC 5837).
    pub name_routers: bool,
    /// Errors originated per second in each family, in the long run (RFC 4443 section 2.4(f)); 0: none.
    pub rate: u32,
    /// Errors that may be originated at once after a quiet time.
    pub burst: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            pref64: Vec::new(),
            eam: Vec::new(),
            clat: false,
            lowest_ipv6_mtu: 1280,
            mtu4: 1500,
            mtu6: 1500,
            udp_zero_checksum: None,
            udp_zero_checksum_ports: Vec::new(),
            traffic_class: TrafficClass::default(),
            allow_private_with_wkp: false,
            loops4: Vec::new(),
            takes_hop: true,
            icmp: Icmp::default(),
        }
    }
}

impl Default for Icmp {
    fn default() -> Self {
        Icmp {
            address4: None,
            address6: None,
            source_pool4: Vec::new(),
            source_pool6: Vec::new(),
            name_routers: true,
            rate: 1000,
            burst: 50,
        }
    }
}

/// One thing that is wrong with a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The key it is about, as a path: `eam[2].v6`, `icmp.source_pool6[0]`, `mtu4`.
    pub key: String,
    /// What is wrong, as the rest of a sentence that begins with the value.
    pub message: String,
}

/// A configuration that contradicts itself or an RFC: all its problems, in the order of [`Config`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { key, message }) in self.problems.iter().enumerate() {
            write!(f, "{}{key}: {message}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Looks for contradictions: prefixes of a wrong length, bits set where none may be, networks
    /// that are mapped twice, pools whose addresses already mean something, MTUs that
    /// cannot be.
    pub fn check(&self) -> Result<(), ConfigError> {
        let problems = check::problems(self);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// What is in force and is probably a mistake, or against an RFC, in the order of [`Config`].
    pub fn warnings(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (at, prefix) in self.pref64.iter().enumerate() {
            if prefix.addr().to_bits() & U_OCTET != 0 {
                found.push(Problem {
                    key: format!("pref64[{at}]"),
                    message: format!(
                        "{prefix} has bits 64 to 71 set, but RFC 6052 section 2.2 requires zero: other implementations may refuse it"
                    ),
                });
            }
        }
        found.extend(overlap::one_sided(&self.eam));
        found
    }
}
