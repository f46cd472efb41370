// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a configuration file as data: names, values, defaults and the doc comments of their types. The manual page
//! diolkos.toml(5) is generated from them, and docs/configuration.md is checked against them.
//!
//! Types with a parser of their own describe here the values that a file may contain. `title` is the name of such a value for
//! people.

use std::borrow::Cow;

use diolkos_xlat::config::auto::schema_or_auto;
use schemars::generate::SchemaSettings;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};

use super::auto::{Mtu, Networks, V6Address};
use super::metrics::MetricsAddress;
use super::resolver::Resolver;
use super::Settings;

/// JSON Schema of a configuration file, without references.
pub fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Settings>()
}

impl<N: JsonSchema> JsonSchema for Networks<N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        // Not the name of the elements: a type of the same name inside another one counts as recursion.
        format!("{}_list", N::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema_or_auto(&Vec::<N>::json_schema(generator))
    }
}

/// Types that need no parameter: the name, and the schema.
macro_rules! told {
    ($($of:ty: $schema:expr;)*) => { $(
        impl JsonSchema for $of {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($of).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )* };
}

told! {
    V6Address: json_schema!({ "anyOf": [
        { "const": "auto" }, { "const": "shared" }, { "type": "string", "title": "IPv6 address" },
    ] });
    Mtu: schema_or_auto(&json_schema!({ "type": "integer", "title": "number of bytes" }));
    Resolver: json_schema!({ "type": "string", "title": "IP address, with a port if it is not 53" });
    MetricsAddress: json_schema!({ "type": "string", "title": "IP address and port, or path of a Unix socket" });
}
