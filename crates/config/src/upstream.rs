// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolvers that a DNS64 asks: by plain DNS, or by DNS over TLS (RFC 7858).

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use rustls_pki_types::ServerName;
use serde::{Deserialize, Serialize};

use super::resolver::{Resolver, DNS};

/// Marks a resolver that is asked by TLS.
const TLS: &str = "tls://";
/// The port of DNS over TLS (RFC 7858 section 3.1).
const DNS_OVER_TLS: u16 = 853;

/// A resolver that a DNS64 asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upstream {
    /// Its address and port.
    pub address: SocketAddr,
    /// The name that its certificate has to have (RFC 8310 section 8.1); `None`: it is asked by plain DNS. Without a name, anybody
    /// on the way could answer, so there is no TLS without.
    pub tls: Option<ServerName<'static>>,
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Upstream, String> {
        let Some(rest) = text.strip_prefix(TLS) else {
            let Resolver(address) = text.parse()?;
            return Ok(Upstream { address, tls: None });
        };
        let Some((address, name)) = rest.split_once('#').filter(|(_, name)| !name.is_empty())
        else {
            return Err(format!(
                "`{text}` does not say which name the resolver's certificate must have: write it at the end, as \
                 tls://192.0.2.53#dns.example"
            ));
        };
        let Ok(Resolver(mut at)) = address.parse() else {
            return Err(format!(
                "`{address}` in `{text}` is not the address of a resolver: write an IP address, or one with a port, as \
                 tls://192.0.2.53:853#dns.example"
            ));
        };
        if address.parse::<SocketAddr>().is_err() {
            at.set_port(DNS_OVER_TLS);
        }
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            format!("`{name}` in `{text}` is not a name that a certificate can have: write one such as dns.example")
        })?;
        Ok(Upstream {
            address: at,
            tls: Some(name),
        })
    }
}

impl TryFrom<String> for Upstream {
    type Error = String;

    fn try_from(text: String) -> Result<Upstream, String> {
        text.parse()
    }
}

impl From<Upstream> for String {
    fn from(upstream: Upstream) -> String {
        upstream.to_string()
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = match &self.tls {
            None => DNS,
            Some(_) => {
                f.write_str(TLS)?;
                DNS_OVER_TLS
            }
        };
        match self.address.port() == usual {
            true => self.address.ip().fmt(f)?,
            false => self.address.fmt(f)?,
        }
        match &self.tls {
            None => Ok(()),
            Some(name) => write!(f, "#{}", name.to_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_printed_as_it_is_read() {
        for (text, address, printed) in [
            ("192.0.2.53", "192.0.2.53:53", "192.0.2.53"),
            (
                "[2001:db8::53]:5300",
                "[2001:db8::53]:5300",
                "[2001:db8::53]:5300",
            ),
            (
                "tls://2001:db8::53#dns.example",
                "[2001:db8::53]:853",
                "tls://2001:db8::53#dns.example",
            ),
            (
                "tls://[2001:db8::53]:853#dns.example",
                "[2001:db8::53]:853",
                "tls://2001:db8::53#dns.example",
            ),
            (
                "tls://192.0.2.53:53#dns.example",
                "192.0.2.53:53",
                "tls://192.0.2.53:53#dns.example",
            ),
            (
                "tls://192.0.2.53#192.0.2.53",
                "192.0.2.53:853",
                "tls://192.0.2.53#192.0.2.53",
            ),
        ] {
            let upstream: Upstream = text.parse().expect(text);
            assert_eq!(upstream.address.to_string(), address);
            assert_eq!(upstream.to_string(), printed);
            assert_eq!(upstream.tls.is_some(), text.starts_with(TLS));
            assert_eq!(printed.parse(), Ok(upstream));
        }
    }

    #[test]
    fn nobody_is_asked_by_tls_without_a_name() {
        for (text, said) in [
            ("tls://192.0.2.53", "does not say which name"),
            ("tls://192.0.2.53#", "does not say which name"),
            (
                "tls://#dns.example",
                "`` in `tls://#dns.example` is not the address",
            ),
            (
                "tls://dns.example#dns.example",
                "`dns.example` in `tls://dns.example#dns.example` is not the address",
            ),
            (
                "tls://192.0.2.53#dns example",
                "is not a name that a certificate can have",
            ),
            (
                "tls://192.0.2.53#a#b",
                "is not a name that a certificate can have",
            ),
            ("192.0.2.53#dns.example", "is not the address of a resolver"),
            ("https://192.0.2.53", "is not the address of a resolver"),
        ] {
            let error = text.parse::<Upstream>().expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }
}
