// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file format of values with another type in the configuration: times in seconds, and port
//! ranges.

use super::Protocol;
use schemars::{json_schema, Schema, SchemaGenerator};

pub(super) fn address_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "title": "IPv4 address or network" })
}

/// The default of a part of the pool: all protocols.
pub(super) fn all_protocols() -> Vec<Protocol> {
    Protocol::ALL.to_vec()
}

/// Times in whole seconds: `300`.
pub(super) mod seconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    /// Serializes a time in whole seconds; fractions of a second are lost.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(time.as_secs())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}

/// A range of ports, or one port: `1024-65535`, `4000`.
pub(super) mod ports {
    use schemars::{json_schema, Schema, SchemaGenerator};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::ops::RangeInclusive;

    /// The default: all ports that are not well-known (RFC 6335 section 6).
    pub fn unprivileged() -> RangeInclusive<u16> {
        1024..=65535
    }

    pub fn serialize<S: Serializer>(
        ports: &RangeInclusive<u16>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", ports.start(), ports.end()))
    }

    /// Deserializes a range that is not empty.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<RangeInclusive<u16>, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| {
            let message = format!("`{text}` is not a range of ports such as 1024-65535");
            Error::custom(message)
        })
    }

    fn parse(text: &str) -> Option<RangeInclusive<u16>> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some(first..=last)
    }

    pub fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": "port, or range of ports" })
    }
}
