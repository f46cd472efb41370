// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one place where networks are read. Each may be a single node: "The prefix length MAY be omitted, in which case the
//! implementation MUST assume it to be 32 for IPv4 and 128 for IPv6" (RFC 7757 section 3.2).

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

/// A network of either family, or of one that is known.
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

impl Network for IpNet {
    type Node = IpAddr;
    const WHAT: &'static str = "a network or address";
}

/// Reads a network, or an address, which is a network of one node.
pub fn parse<N: Network>(text: &str) -> Result<N, String> {
    text.parse()
        .or_else(|_| text.parse().map(|node: N::Node| node.into()))
        .map_err(|_| format!("`{text}` is not {}", N::WHAT))
}

/// Writes a network so that it is read again: one of a single node as its address.
pub fn short(net: Ipv4Net) -> String {
    match net.prefix_len() {
        32 => net.addr().to_string(),
        _ => net.to_string(),
    }
}

/// Writes a value in a file as [`short`] does.
pub fn serialize_short<S: Serializer>(net: &Ipv4Net, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&short(*net))
}

/// Reads a value in a file as [`parse`] does.
pub fn network<'de, N: Network, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
    One::deserialize(deserializer).map(|One(net)| net)
}

/// The same of a list of them.
pub fn networks<'de, N: Network, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<N>, D::Error> {
    let list: Vec<One<N>> = Vec::deserialize(deserializer)?;
    Ok(list.into_iter().map(|One(net)| net).collect())
}

/// One element. It is parsed while it is visited, so that an error tells its place.
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
