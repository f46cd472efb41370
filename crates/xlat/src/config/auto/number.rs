// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A number that the operator sets, or `auto` for no number: another limit applies. Use it through `serde(with)`.

use super::schema_or_auto;
use schemars::{json_schema, Schema, SchemaGenerator};
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;

/// Serializes None as `auto`.
pub fn serialize<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_str("auto"),
        Some(number) => serializer.serialize_u32(*number),
    }
}

/// Deserializes `auto` as None.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    deserializer.deserialize_any(NumberVisitor)
}

/// Returns the schema of such a value.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    schema_or_auto(&json_schema!({ "type": "integer", "title": "number" }))
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or \"auto\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<u32>, E> {
        match text {
            "auto" => Ok(None),
            other => Err(E::custom(format!(
                "`{other}` is neither a number nor `auto`"
            ))),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<u32>, E> {
        in_range(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<u32>, E> {
        in_range(number)
    }
}

fn in_range<N, E>(number: N) -> Result<Option<u32>, E>
where
    N: Copy + fmt::Display + TryInto<u32>,
    E: Error,
{
    let most = u32::MAX;
    let number = number
        .try_into()
        .map_err(|_| E::custom(format!("{number} is not between 0 and {most}")))?;
    Ok(Some(number))
}
