// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of options: numbers, rates, addresses, ports, places.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::frame::{Block, Mac, Ports};

/// An interface and its network namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Name or path of the namespace; `None`: the program's own.
    pub netns: Option<String>,
    /// Name of the interface in the namespace.
    pub interface: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (netns, interface) = match text.rsplit_once(':') {
            Some((netns, interface)) => (Some(netns.to_owned()), interface),
            None => (None, text),
        };
        if interface.is_empty() || netns.as_ref().is_some_and(String::is_empty) {
            return Err(
                "an interface, or a network namespace and an interface, like lab1:eth0".into(),
            );
        }
        Ok(Place {
            netns,
            interface: interface.to_owned(),
        })
    }
}

/// A number, optionally with the suffix k or M.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number(pub u64);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Number, String> {
        let value = scaled(text)?;
        if value < 1.0 || value.fract() != 0.0 || value > 1e18 {
            return Err("a whole number from 1 on, like 200, 10k or 1.5M".into());
        }
        Ok(Number(value as u64))
    }
}

/// Frames per second; `None`: as many as possible.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate(pub Option<f64>);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        if text == "max" {
            return Ok(Rate(None));
        }
        match scaled(text)? {
            rate if (0.001..=1e9).contains(&rate) => Ok(Rate(Some(rate))),
            _ => Err("frames a second, like 500, 20k or 1.5M; or max".into()),
        }
    }
}

fn scaled(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1e3),
        Some(digits) => (digits, 1e6),
        None => (text, 1.0),
    };
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    match digits.parse::<f64>() {
        // 1.1M is exactly 1100000.
        Ok(value) if plain => Ok((value * factor * 1e3).round() / 1e3),
        _ => Err("a number, like 500, 20k or 1.5M".into()),
    }
}

/// A time greater than zero, seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("seconds, like 10 or 0.5".into()),
    }
}

/// A time, which may be zero, milliseconds.
pub(super) fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.0..=1e9).contains(&ms) => Ok(ms),
        _ => Err("milliseconds, like 100 or 0.5".into()),
    }
}

/// The number of 4-tuples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flows {
    /// This many, in turn.
    Some(u64),
    /// A new one for each packet.
    Unique,
}

impl FromStr for Flows {
    type Err = String;

    fn from_str(text: &str) -> Result<Flows, String> {
        match text {
            "unique" => Ok(Flows::Unique),
            _ => Number::from_str(text).map(|n| Flows::Some(n.0)),
        }
    }
}

/// One address, or all addresses of a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Addresses(pub Block);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Addresses, String> {
        if let Ok(first) = text.parse::<IpAddr>() {
            return Ok(Addresses(Block { first, count: 1 }));
        }
        let net: IpNet = text
            .parse()
            .map_err(|_| "an address or a prefix, like 198.18.0.1 or 2001:2::/112")?;
        let bits = net.max_prefix_len() - net.prefix_len();
        if bits > 24 {
            return Err("a prefix of at most 16777216 addresses (/8, or /104 with IPv6)".into());
        }
        Ok(Addresses(Block {
            first: net.network(),
            count: 1 << bits,
        }))
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MacArgument(pub Mac);

impl FromStr for MacArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<MacArgument, String> {
        let pairs: Option<Vec<u8>> = text
            .split(':')
            .map(|pair| {
                let digits = pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
                digits.then(|| u8::from_str_radix(pair, 16).ok())?
            })
            .collect();
        pairs
            .and_then(|bytes| Mac::try_from(&bytes[..]).ok())
            .map(MacArgument)
            .ok_or_else(|| "six pairs of hexadecimal digits, like 02:00:00:00:00:01".into())
    }
}

/// A port, or a range of ports.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PortsArgument(pub Ports);

impl FromStr for PortsArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PortsArgument, String> {
        let wrong = || "a port or a range, like 5000 or 1024-65535".to_string();
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let low = low.parse().map_err(|_| wrong())?;
        let high = high.parse().map_err(|_| wrong())?;
        if low > high {
            return Err(wrong());
        }
        Ok(PortsArgument(Ports { low, high }))
    }
}

/// Flags of a TCP header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpFlags(pub u8);

impl FromStr for TcpFlags {
    type Err = String;

    fn from_str(text: &str) -> Result<TcpFlags, String> {
        let mut flags = 0;
        for letter in text.chars() {
            let bit = "FSRPA"
                .find(letter)
                .ok_or("letters of FIN, SYN, RST, PSH, ACK: F, S, R, P, A")?;
            flags |= 1 << bit;
        }
        Ok(TcpFlags(flags))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_k_and_m() {
        let number = |text: &str| text.parse::<Number>().map(|n| n.0);
        assert_eq!(
            ["7", "10k", "1.5M", "1.1M"].map(number),
            [7, 10_000, 1_500_000, 1_100_000].map(Ok)
        );
        for text in [
            "",
            "k",
            "-1",
            "0",
            "1.5",
            "1e3",
            "inf",
            "NaN",
            "1m",
            "99999999999999M",
        ] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_may_be_a_fraction_or_max() {
        let rate = |text: &str| text.parse::<Rate>().map(|r| r.0);
        assert_eq!(rate("max"), Ok(None));
        assert_eq!(rate("0.5"), Ok(Some(0.5)));
        assert_eq!(rate("1.48M"), Ok(Some(1_480_000.0)));
        assert!(rate("0").is_err());
        assert!(rate("10G").is_err());
    }

    #[test]
    fn a_prefix_is_all_of_its_addresses() {
        let block = |text: &str| {
            text.parse::<Addresses>()
                .map(|a| (a.0.first.to_string(), a.0.count))
        };
        assert_eq!(block("198.18.0.1"), Ok(("198.18.0.1".into(), 1)));
        assert_eq!(block("198.18.0.9/24"), Ok(("198.18.0.0".into(), 256)));
        assert_eq!(block("2001:2::/112"), Ok(("2001:2::".into(), 65536)));
        assert!(block("2001:2::/64").is_err());
        assert!(block("host").is_err());
    }

    #[test]
    fn places_ports_and_others() {
        let place = |text: &str| text.parse::<Place>();
        let netns = |text: &str| place(text).map(|p| (p.netns, p.interface));
        assert_eq!(netns("eth0"), Ok((None, "eth0".into())));
        assert_eq!(netns("lab1:eth0"), Ok((Some("lab1".into()), "eth0".into())));
        assert!(netns("lab1:").is_err());
        assert!(netns(":eth0").is_err());
        let ports = |text: &str| text.parse::<PortsArgument>().map(|p| (p.0.low, p.0.high));
        assert_eq!(ports("7"), Ok((7, 7)));
        assert_eq!(ports("1024-65535"), Ok((1024, 65535)));
        assert!(ports("9-1").is_err());
        assert!(ports("70000").is_err());
        assert_eq!("SA".parse::<TcpFlags>(), Ok(TcpFlags(0x12)));
        assert!("X".parse::<TcpFlags>().is_err());
        let mac = "02:00:00:00:00:fe".parse::<MacArgument>();
        assert_eq!(mac, Ok(MacArgument([2, 0, 0, 0, 0, 0xfe])));
        assert!("02:00:00:00:00".parse::<MacArgument>().is_err());
        assert!("02:00:00:00:00:+1".parse::<MacArgument>().is_err());
    }
}
