// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operator's settings, and the check that they do not contradict each other.

#[cfg(feature = "file")]
pub mod auto;
pub mod check;
#[cfg(feature = "file")]
pub mod network;
mod overlap;

use crate::addr::rfc6052::U_OCTET;
use crate::wire::{IPV4_LEN, IPV6_LEN};
use ipnet::{Ipv4Net, Ipv6Net};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// All settings of a translator. Field names match the keys of the configuration file.
///
/// A CLAT (RFC 6877) is one `pref64` and one [`Eam`] of a /32 and a /128.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Translation prefixes (RFC 6052). All are recognised; IPv4 addresses are embedded in the
    /// first.
    pub pref64: Vec<Ipv6Net>,
    /// The explicit address mapping table (RFC 7757). It takes precedence over `pref64`.
    pub eam: Vec<Eam>,
    /// Act as a CLAT (RFC 6877). Only IPv4 nodes in the mapping table are on this side, because `pref64` stands for the
    /// IPv4 Internet behind the PLAT. An IPv4 source or an IPv6 destination outside the table is unmapped.
    pub clat: bool,
    /// The smallest MTU, in bytes, on any IPv6 path: an IPv4 packet that may be fragmented is cut
    /// to fit it (RFC 7915 section 4.1).
    pub lowest_ipv6_mtu: u32,
    /// MTU in bytes of the next hop on the IPv4 side.
    pub mtu4: u32,
    /// MTU in bytes of the next hop on the IPv6 side.
    pub mtu6: u32,
    /// How to treat an IPv4 UDP datagram without checksum. None selects the default of the mode's RFC:
    /// [`UdpZeroChecksum::Compute`] for a NAT64 (RFC 6146 section 3.4), [`UdpZeroChecksum::Drop`] for a stateless
    /// translator (RFC 7915 section 4.5).
    pub udp_zero_checksum: Option<UdpZeroChecksum>,
    /// For a stateless translator: UDP ports for which datagrams without checksum, and their fragments, pass to IPv6
    /// without checksum (RFC 8200 section 8.1, RFC 6936). They take precedence over `udp_zero_checksum`.
    pub udp_zero_checksum_ports: Vec<u16>,
    /// How to translate type of service and traffic class (RFC 7915 sections 4.1 and 5.1).
    pub traffic_class: TrafficClass,
    /// Let 64:ff9b::/96 carry IPv4 addresses that are not global, which RFC 6052 section 3.1
    /// forbids.
    pub allow_private_with_wkp: bool,
    /// IPv4 networks whose addresses both families route to the translator, except those with explicit mappings. A
    /// packet to such an address would loop until its hop limit expires, regardless of the family to which it is
    /// translated.
    pub loops4: Vec<Ipv4Net>,
    /// Decrement TTL and hop limit. If none is left, send Time Exceeded to the sender (RFC 7915 sections 4.1 and 5.1).
    /// False if the router around the translator decrements and reports.
    pub takes_hop: bool,
    /// The largest maximum segment size, in bytes, that a TCP SYN may announce behind the translation (RFC 9293 section
    /// 3.7.1); None leaves it as it is.
    pub tcp_mss: Option<u16>,
    /// ICMP errors.
    pub icmp: Icmp,
}

/// One explicit address mapping (RFC 7757), which keeps the host part of an address. Both networks have zero host bits,
/// and the IPv6 suffix is at least as long as the IPv4 suffix.
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
    /// The nodes' IPv6 network, or one node. It leaves at least as many bits to hosts as `v4` (RFC 7757 section 3.2). Where several
    /// mappings match, the longest prefix decides (section 3.3).
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::network"))]
    pub v6: Ipv6Net,
}

/// How to treat an IPv4 UDP datagram without checksum, which IPv6 allows only for tunnels (RFC 8200 section 8.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum UdpZeroChecksum {
    /// The datagram is dropped.
    #[default]
    Drop,
    /// The checksum is computed, which reads every byte. A NAT64 reassembles fragments for this purpose (RFC 6146
    /// section 3.4). A stateless translator still drops fragments (RFC 7915 section 4.5).
    Compute,
}

/// How to translate TOS and traffic class (RFC 7915 sections 4.1 and 5.1).
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
    /// The field of a translated packet is zero.
    Zero,
}

/// The smallest maximum segment size to which a SYN is lowered, in bytes: what a peer sends that announces none (RFC
/// 9293 section 3.7.1).
pub const LEAST_MSS: u16 = 536;

/// The largest maximum segment size, in bytes, whose segments fit packets of these lengths in both families. The headers
/// have no options, as the option is defined (RFC 6691 section 2).
pub fn mss_of(mtu4: u32, mtu6: u32) -> u16 {
    const TCP_LEN: usize = 20;
    let data = |mtu: u32, header: usize| mtu.saturating_sub((header + TCP_LEN) as u32);
    let least = data(mtu4, IPV4_LEN).min(data(mtu6, IPV6_LEN));
    u16::try_from(least).unwrap_or(u16::MAX).max(LEAST_MSS)
}

/// Settings for ICMP errors: those originated here, and those of routers whose address cannot be mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Icmp {
    /// Source of the ICMPv4 errors originated here. With `auto`: the first address of `source_pool4`, else 192.0.0.8
    /// (RFC 7600).
    #[cfg_attr(
        feature = "file",
        serde(with = "auto"),
        schemars(with = "auto::OrAuto<Ipv4Addr>")
    )]
    pub address4: Option<Ipv4Addr>,
    /// Source of the ICMPv6 errors originated here. With `auto`: the first address of `source_pool6`, else the CLAT's
    /// own address or a global address of the router, else `address4` in the first prefix.
    #[cfg_attr(
        feature = "file",
        serde(with = "auto"),
        schemars(with = "auto::OrAuto<Ipv6Addr>")
    )]
    pub address6: Option<Ipv6Addr>,
    /// Sources for errors of IPv6 routers without an IPv4 address (RFC 6791). If empty, 192.0.0.8 is used.
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::networks"))]
    pub source_pool4: Vec<Ipv4Net>,
    /// Sources for errors of IPv4 routers without an IPv6 address. If empty, `address6` is used.
    #[cfg_attr(feature = "file", serde(deserialize_with = "network::networks"))]
    pub source_pool6: Vec<Ipv6Net>,
    /// Add the address of such an IPv6 router to its error, as an extension (RFC 6791 section 4, RFC 5837).
    pub name_routers: bool,
    /// Long-term rate of originated errors per second in each family (RFC 4443 section 2.4(f)); 0 disables them. Packet Too
    /// Big and Fragmentation Needed are counted apart, for each of 64 groups of sources.
    pub rate: u32,
    /// Number of errors that may be originated at once after an idle period. The last half is for groups of sources that have
    /// provoked few.
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
            tcp_mss: None,
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

/// One problem in a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The path of the key: `eam[2].v6`, `icmp.source_pool6[0]`, `mtu4`.
    pub key: String,
    /// The problem, as the rest of a sentence that begins with the value.
    pub message: String,
}

/// A configuration that contradicts itself or an RFC, with all its problems in the order of [`Config`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The problems; at least one.
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
    /// Checks for contradictions: prefixes of a wrong length, bits set that must be zero, networks mapped twice, pools
    /// whose addresses are already in use, impossible MTUs.
    pub fn check(&self) -> Result<(), ConfigError> {
        let problems = check::problems(self);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// Returns settings that take effect but are probably a mistake or against an RFC, in the order of [`Config`].
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
