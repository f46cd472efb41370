// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks that may be a single node: "The prefix length MAY be omitted, in which case the implementation MUST assume it
//! to be 32 for IPv4 and 128 for IPv6" (RFC 7757 section 3.2).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A network of either family.
pub trait Network: FromStr + From<Self::Node> {
    /// A node in it.
    type Node: FromStr;
    /// For messages.
    const WHAT: &'static str;
}

impl Network for Ipv4Net {
    type Node = Ipv4Addr;
    const WHAT: &'static str = "an IPv4 network or address";
}

impl Network for Ipv6Net {
    type Node = Ipv6Addr;
    const WHAT: &'static str = "an IPv6 network or address";
}

/// Reads a network, or an address, which is a network of one node.
pub fn network_or_node<'de, N: Network, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<N, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .or_else(|_| text.parse().map(|node: N::Node| node.into()))
        .map_err(|_| D::Error::custom(format!("`{text}` is not {}", N::WHAT)))
}
