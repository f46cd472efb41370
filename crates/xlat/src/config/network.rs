// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses networks; no other code does. A network may be a single node: "The prefix length MAY be omitted, in which
//! case the implementation MUST assume it to be 32 for IPv4 and 128 for IPv6" (RFC 7757 section 3.2).

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

/// A network of either family, or of a fixed one.
pub trait Network: FromStr + From<Self::Node> {
    /// The address of a node in the network.
    type Node: FromStr;
    /// The name of the type in messages.
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

impl Network for IpNet {
    type Node = IpAddr;
    const WHAT: &'static str = "a network or address";
}

/// Parses a network, or an address, which stands for a network of one node.
pub fn parse<N: Network>(text: &str) -> Result<N, String> {
    text.parse()
        .or_else(|_| text.parse().map(|node: N::Node| node.into()))
        .map_err(|_| format!("`{text}` is not {}", N::WHAT))
}

/// Formats a network so that [`parse`] accepts it; a single node is written as its address.
pub fn short(net: Ipv4Net) -> String {
    match net.prefix_len() {
        32 => net.addr().to_string(),
        _ => net.to_string(),
    }
}

/// Serializes a value as [`short`] formats it.
pub fn serialize_short<S: Serializer>(net: &Ipv4Net, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&short(*net))
}

/// Deserializes a value as [`parse`] reads it.
pub fn network<'de, N: Network, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
    One::deserialize(deserializer).map(|One(net)| net)
}

/// Deserializes a list of networks, each as [`parse`] reads it.
pub fn networks<'de, N: Network, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<N>, D::Error> {
    let list: Vec<One<N>> = Vec::deserialize(deserializer)?;
    Ok(list.into_iter().map(|One(net)| net).collect())
}

/// One element. It is parsed inside its visitor, so that an error names its position.
struct One<N>(N);

impl<'de, N: Network> Deserialize<'de> for One<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<One<N>, D::Error> {
        deserializer.deserialize_str(OneVisitor(PhantomData))
    }
}

struct OneVisitor<N>(PhantomData<N>);

impl<N: Network> Visitor<'_> for OneVisitor<N> {
    type Value = One<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(N::WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<One<N>, E> {
        parse(text).map(One).map_err(E::custom)
    }
}
