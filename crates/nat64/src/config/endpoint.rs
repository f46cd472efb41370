// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transport addresses and their text form: `192.0.2.1:80` and `[2001:db8::1]:80`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::str::FromStr;

/// An IPv4 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(try_from = "String", into = "String")
)]
pub struct Endpoint4 {
    /// The address of the node.
    pub addr: Ipv4Addr,
    /// Port or query identifier.
    pub port: u16,
}

/// An IPv6 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[cfg_attr(
    feature = "file",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(try_from = "String", into = "String")
)]
pub struct Endpoint6 {
    /// The address of the node.
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

impl FromStr for Endpoint4 {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint4, String> {
        let parsed = text.parse::<SocketAddrV4>().map(Endpoint4::from);
        parsed.map_err(|_| why(text, "IPv4", "192.0.2.1:80", IpAddr::is_ipv4))
    }
}

impl FromStr for Endpoint6 {
    type Err = String;

    /// Zones are ignored, because a node of a NAT64 has no link-local address.
    fn from_str(text: &str) -> Result<Endpoint6, String> {
        let parsed = text.parse::<SocketAddrV6>().map(Endpoint6::from);
        parsed.map_err(|_| why(text, "IPv6", "[2001:db8::1]:80", IpAddr::is_ipv6))
    }
}

/// Explains why a text is not an address with a port.
fn why(text: &str, family: &str, example: &str, is_of_family: fn(&IpAddr) -> bool) -> String {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    match bare.unwrap_or(text).parse::<IpAddr>() {
        Ok(address) if is_of_family(&address) && address.is_ipv4() => {
            format!("`{text}` has no port; write `{address}:PORT`")
        }
        Ok(address) if is_of_family(&address) => {
            format!("`{text}` has no port; write `[{address}]:PORT`")
        }
        _ => format!("`{text}` is not an {family} address with a port; write it as in `{example}`"),
    }
}

impl TryFrom<String> for Endpoint4 {
    type Error = String;

    fn try_from(text: String) -> Result<Endpoint4, String> {
        text.parse()
    }
}

impl TryFrom<String> for Endpoint6 {
    type Error = String;

    fn try_from(text: String) -> Result<Endpoint6, String> {
        text.parse()
    }
}

impl From<Endpoint4> for String {
    fn from(endpoint: Endpoint4) -> String {
        endpoint.to_string()
    }
}

impl From<Endpoint6> for String {
    fn from(endpoint: Endpoint6) -> String {
        endpoint.to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_write() {
        let of4 = |text: &str| text.parse::<Endpoint4>().expect_err(text);
        let of6 = |text: &str| text.parse::<Endpoint6>().expect_err(text);
        assert_eq!(
            of4("192.0.2.1"),
            "`192.0.2.1` has no port; write `192.0.2.1:PORT`"
        );
        assert_eq!(
            of6("2001:db8::1:80"),
            "`2001:db8::1:80` has no port; write `[2001:db8::1:80]:PORT`"
        );
        assert_eq!(
            of6("[2001:db8::1]"),
            "`[2001:db8::1]` has no port; write `[2001:db8::1]:PORT`"
        );
        assert_eq!(
            of4("192.0.2.1:65536"),
            "`192.0.2.1:65536` is not an IPv4 address with a port; write it as in `192.0.2.1:80`"
        );
        assert_eq!(
            of6("192.0.2.1:80"),
            "`192.0.2.1:80` is not an IPv6 address with a port; write it as in `[2001:db8::1]:80`"
        );
    }
}
