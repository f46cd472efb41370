// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values that the operator may fix or leave to the program: a value, or `auto`.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use diolkos_xlat::config::auto::OrAuto;
use ipnet::Ipv6Net;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::network::{self, networks, Network};

/// The IPv4 address of a CLAT, or `auto`.
pub type V4Address = OrAuto<Ipv4Addr>;

/// The IPv6 address of a CLAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum V6Address {
    /// Derived from a prefix; without a prefix, the CLAT shares the host's own address.
    #[default]
    Auto,
    /// An internal address, which the kernel masquerades: the CLAT shares the host's address.
    Shared,
    /// This address.
    Fixed(Ipv6Addr),
}

impl V6Address {
    /// The address, if it is fixed.
    pub fn fixed(self) -> Option<Ipv6Addr> {
        match self {
            V6Address::Auto | V6Address::Shared => None,
            V6Address::Fixed(address) => Some(address),
        }
    }
}

impl FromStr for V6Address {
    type Err = String;

    fn from_str(text: &str) -> Result<V6Address, String> {
        match text {
            "auto" => Ok(V6Address::Auto),
            "shared" => Ok(V6Address::Shared),
            other => other.parse().map(V6Address::Fixed).map_err(|_| {
                format!("`{other}` is neither an IPv6 address nor `auto` nor `shared`")
            }),
        }
    }
}

impl TryFrom<String> for V6Address {
    type Error = String;

    fn try_from(text: String) -> Result<V6Address, String> {
        text.parse()
    }
}

impl From<V6Address> for String {
    fn from(value: V6Address) -> String {
        match value {
            V6Address::Auto => "auto".to_owned(),
            V6Address::Shared => "shared".to_owned(),
            V6Address::Fixed(address) => address.to_string(),
        }
    }
}

/// A translation prefix, or `auto`.
pub type Prefix = OrAuto<Ipv6Net>;

/// The MTU of a side's next hop, bytes, or `"auto"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mtu {
    /// The MTU of the device; 1500 without a device (offline).
    #[default]
    Auto,
    /// This MTU.
    Bytes(u32),
}

impl Mtu {
    /// The MTU, with the value that `auto` stands for.
    pub fn or(self, auto: u32) -> u32 {
        match self {
            Mtu::Auto => auto,
            Mtu::Bytes(bytes) => bytes,
        }
    }
}

impl Serialize for Mtu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Mtu::Auto => serializer.serialize_str("auto"),
            Mtu::Bytes(bytes) => serializer.serialize_u32(*bytes),
        }
    }
}

impl<'de> Deserialize<'de> for Mtu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mtu, D::Error> {
        deserializer.deserialize_any(MtuVisitor)
    }
}

struct MtuVisitor;

impl Visitor<'_> for MtuVisitor {
    type Value = Mtu;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes or \"auto\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Mtu, E> {
        match text {
            "auto" => Ok(Mtu::Auto),
            other => Err(E::custom(format!(
                "`{other}` is neither a number of bytes nor `auto`"
            ))),
        }
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Mtu, E> {
        u32::try_from(bytes)
            .map(Mtu::Bytes)
            .map_err(|_| E::custom(format!("{bytes} is not a number of bytes")))
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Mtu, E> {
        u32::try_from(bytes)
            .map(Mtu::Bytes)
            .map_err(|_| E::custom(format!("{bytes} is not a number of bytes")))
    }
}

/// A list of networks, or `"auto"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Networks<N> {
    /// The networks follow from the rest of the configuration.
    #[default]
    Auto,
    /// These networks only.
    These(Vec<N>),
}

impl<N> Networks<N> {
    /// The networks if they are given; none for `auto`.
    pub fn given(&self) -> &[N] {
        match self {
            Networks::Auto => &[],
            Networks::These(networks) => networks,
        }
    }
}

impl From<Prefix> for Networks<Ipv6Net> {
    fn from(prefix: Prefix) -> Networks<Ipv6Net> {
        match prefix {
            OrAuto::Auto => Networks::Auto,
            OrAuto::Fixed(prefix) => Networks::These(vec![prefix]),
        }
    }
}

impl<N: Serialize> Serialize for Networks<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Networks::Auto => serializer.serialize_str("auto"),
            Networks::These(networks) => networks.serialize(serializer),
        }
    }
}

impl<'de, N: Network> Deserialize<'de> for Networks<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Networks<N>, D::Error> {
        deserializer.deserialize_any(NetworksVisitor(PhantomData))
    }
}

struct NetworksVisitor<N>(PhantomData<N>);

impl<'de, N: Network> Visitor<'de> for NetworksVisitor<N> {
    type Value = Networks<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of networks or \"auto\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Networks<N>, E> {
        match text {
            "auto" => Ok(Networks::Auto),
            other if network::parse::<N>(other).is_ok() => Err(E::custom(format!(
                "\"{other}\" is not a list; write [\"{other}\"]"
            ))),
            other => Err(E::custom(format!(
                "\"{other}\" is neither a list of networks nor \"auto\""
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Networks<N>, A::Error> {
        networks(SeqAccessDeserializer::new(seq)).map(Networks::These)
    }
}
