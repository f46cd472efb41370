// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters for sessions and bindings. The program itself filters, so that it need not send millions of other entries.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{BindingView, SessionView};
use diolkos_xlat::config::network::{self, Network};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The properties that an entry must have. `None` matches every entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Its protocol.
    pub protocol: Option<Protocol>,
    /// The IPv6 node.
    pub node: Option<Side<Ipv6Net>>,
    /// The IPv4 peer; bindings have none.
    pub peer: Option<Side<Ipv4Net>>,
    /// The most entries to return.
    pub limit: Option<u32>,
}

/// A network, or an address with a port: `2001:db8::/64`, `2001:db8::2`, `[2001:db8::2]:4711`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<N> {
    /// The network or address.
    net: N,
    /// The port; `None`: every port.
    port: Option<u16>,
}

impl Selection {
    /// Returns true if the filter matches every entry.
    pub fn is_all(&self) -> bool {
        (self.protocol, self.node, self.peer) == (None, None, None)
    }

    /// Returns true if the filter matches a session.
    pub fn has_session(&self, view: &SessionView) -> bool {
        self.is_of(view.binding.protocol, view.binding.v6)
            && self.peer.is_none_or(|peer| peer.has4(view.peer))
    }

    /// Returns true if the filter matches a binding.
    pub fn has_binding(&self, view: &BindingView) -> bool {
        self.is_of(view.binding.protocol, view.binding.v6)
    }

    fn is_of(&self, protocol: Protocol, node: Endpoint6) -> bool {
        self.protocol.is_none_or(|wanted| wanted == protocol)
            && self.node.is_none_or(|wanted| wanted.has6(node))
    }
}

impl Side<Ipv6Net> {
    fn has6(&self, end: Endpoint6) -> bool {
        self.net.contains(&end.addr) && self.port.is_none_or(|port| port == end.port)
    }
}

impl Side<Ipv4Net> {
    fn has4(&self, end: Endpoint4) -> bool {
        self.net.contains(&end.addr) && self.port.is_none_or(|port| port == end.port)
    }
}

impl<N: Network + Copy + Into<IpNet>> FromStr for Side<N>
where
    N::Node: TryFromIp,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Side<N>, String> {
        let with_port = text.parse::<SocketAddr>().ok();
        let with_port =
            with_port.and_then(|socket| Some((N::Node::of(socket.ip())?, socket.port())));
        if let Some((node, port)) = with_port {
            return Ok(Side {
                net: N::from(node),
                port: Some(port),
            });
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let net: N = network::parse(bare.unwrap_or(text))
            .map_err(|why| format!("{why}, with or without a port"))?;
        let any: IpNet = net.into();
        match any == any.trunc() {
            true => Ok(Side { net, port: None }),
            false => Err(format!(
                "`{text}` has host bits set; write `{}`",
                any.trunc()
            )),
        }
    }
}

/// An address of one family.
pub trait TryFromIp: Sized {
    /// Converts an address; `None` if it is of the other family.
    fn of(address: IpAddr) -> Option<Self>;
}

impl TryFromIp for std::net::Ipv4Addr {
    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }
}

impl TryFromIp for std::net::Ipv6Addr {
    fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(address),
        }
    }
}

impl<N: Copy + Into<IpNet>> fmt::Display for Side<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net: IpNet = self.net.into();
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(net.addr(), port)),
            None => write!(f, "{net}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_read_in_every_form() {
        for (text, written) in [
            ("2001:db8::/64", "2001:db8::/64"),
            ("2001:db8::2", "2001:db8::2/128"),
            ("[2001:db8::2]", "2001:db8::2/128"),
            ("[2001:db8::2]:4711", "[2001:db8::2]:4711"),
        ] {
            let side: Side<Ipv6Net> = text.parse().expect(text);
            assert_eq!(side.to_string(), written);
            assert_eq!(written.parse(), Ok(side));
        }
        let side: Side<Ipv4Net> = "192.0.2.1:80".parse().expect("an endpoint");
        let end = |text: &str| text.parse::<Endpoint4>().expect(text);
        assert!(side.has4(end("192.0.2.1:80")) && !side.has4(end("192.0.2.1:81")));
    }

    #[test]
    fn an_error_says_what_to_write() {
        let why = |text: &str| text.parse::<Side<Ipv4Net>>().expect_err(text);
        assert_eq!(
            why("192.0.2.1/24"),
            "`192.0.2.1/24` has host bits set; write `192.0.2.0/24`"
        );
        assert_eq!(
            why("[2001:db8::2]:80"),
            "`[2001:db8::2]:80` is not an IPv4 network or address, with or without a port"
        );
    }
}
