// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transport addresses.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

/// An IPv4 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(from = "SocketAddrV4", into = "SocketAddrV4")
)]
pub struct Endpoint4 {
    /// The node.
    pub addr: Ipv4Addr,
    /// Port or query identifier.
    pub port: u16,
}

/// An IPv6 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(from = "SocketAddrV6", into = "SocketAddrV6")
)]
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

impl From<SocketAddrV4> for Endpoint4 {
    fn from(socket: SocketAddrV4) -> Endpoint4 {
        Endpoint4 {
            addr: *socket.ip(),
            port: socket.port(),
        }
    }
}

impl From<Endpoint4> for SocketAddrV4 {
    fn from(Endpoint4 { addr, port }: Endpoint4) -> SocketAddrV4 {
        SocketAddrV4::new(addr, port)
    }
}

impl From<SocketAddrV6> for Endpoint6 {
    /// A node of a NAT64 has no link-local address, so that a zone says nothing about it.
    fn from(socket: SocketAddrV6) -> Endpoint6 {
        Endpoint6 {
            addr: *socket.ip(),
            port: socket.port(),
        }
    }
}

impl From<Endpoint6> for SocketAddrV6 {
    fn from(Endpoint6 { addr, port }: Endpoint6) -> SocketAddrV6 {
        SocketAddrV6::new(addr, port, 0, 0)
    }
}
