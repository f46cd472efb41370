// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses and numbers that the operator sets to a value, or to `auto` to let the program choose.

pub mod number;

use ipnet::Ipv6Net;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address, or `auto`. The documentation of each key defines what `auto` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[serde(bound = "T: Address")]
pub enum OrAuto<T: Address> {
    /// The program chooses.
    #[default]
    Auto,
    /// The given value.
    Fixed(T),
}

/// An address of either family, or a prefix.
pub trait Address: Copy + FromStr + ToString {
    /// The name of the type in messages, with an article.
    const WHAT: &'static str;
}

impl Address for Ipv4Addr {
    const WHAT: &'static str = "an IPv4 address";
}

impl Address for Ipv6Addr {
    const WHAT: &'static str = "an IPv6 address";
}

impl Address for Ipv6Net {
    const WHAT: &'static str = "an IPv6 prefix";
}

impl<T: Address> OrAuto<T> {
    /// Returns the address if it is fixed.
    pub fn fixed(self) -> Option<T> {
        match self {
            OrAuto::Auto => None,
            OrAuto::Fixed(address) => Some(address),
        }
    }
}

impl<T: Address> FromStr for OrAuto<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<OrAuto<T>, String> {
        if text == "auto" {
            return Ok(OrAuto::Auto);
        }
        text.parse()
            .map(OrAuto::Fixed)
            .map_err(|_| format!("`{text}` is neither {} nor `auto`", T::WHAT))
    }
}

impl<T: Address> TryFrom<String> for OrAuto<T> {
    type Error = String;

    fn try_from(text: String) -> Result<OrAuto<T>, String> {
        text.parse()
    }
}

impl<T: Address> From<OrAuto<T>> for String {
    fn from(value: OrAuto<T>) -> String {
        match value {
            OrAuto::Auto => "auto".to_owned(),
            OrAuto::Fixed(address) => address.to_string(),
        }
    }
}

/// Serializes None as `auto`.
pub fn serialize<T: Address, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value
        .map_or(OrAuto::Auto, OrAuto::Fixed)
        .serialize(serializer)
}

/// Deserializes `auto` as None.
pub fn deserialize<'de, T: Address, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    OrAuto::deserialize(deserializer).map(OrAuto::fixed)
}

impl<T: Address> JsonSchema for OrAuto<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::WHAT.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_or_auto(&json_schema!({ "type": "string", "title": bare(T::WHAT) }))
    }
}

/// Returns the schema that accepts such a value or `auto`.
pub fn schema_or_auto(schema: &Schema) -> Schema {
    json_schema!({ "anyOf": [{ "const": "auto" }, schema] })
}

/// Removes the article from a name.
fn bare(what: &str) -> &str {
    what.split_once(' ').map_or(what, |(_, name)| name)
}
