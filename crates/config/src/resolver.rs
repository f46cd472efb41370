// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolvers in the command line and in files.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of DNS.
pub const DNS: u16 = 53;

/// A resolver: an address, and a port if it is not 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resolver(pub SocketAddr);

impl FromStr for Resolver {
    type Err = String;

    fn from_str(text: &str) -> Result<Resolver, String> {
        let with_port = text.parse::<SocketAddr>().ok();
        let without = || text.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, DNS));
        with_port.or_else(without).map(Resolver).ok_or_else(|| {
            format!("`{text}` is not the address of a resolver: write an IP address, or one with a port, as 192.0.2.1:53")
        })
    }
}

impl TryFrom<String> for Resolver {
    type Error = String;

    fn try_from(text: String) -> Result<Resolver, String> {
        text.parse()
    }
}

impl From<Resolver> for String {
    fn from(resolver: Resolver) -> String {
        resolver.to_string()
    }
}

impl fmt::Display for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            DNS => self.0.ip().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}
