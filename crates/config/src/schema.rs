// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a configuration file as data: names, values, defaults, the doc comments of their types, and what a change of each
//! needs. The manual page diolkos.toml(5) and docs/configuration.md are generated from them.
//!
//! Types with a parser of their own describe here the values that a file may contain. `title` is the name of such a value for
//! people.

use std::borrow::Cow;

use diolkos_xlat::config::auto::schema_or_auto;
use diolkos_xlat::config::LEAST_MSS;
use schemars::generate::SchemaSettings;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};

use super::auto::{Mtu, Networks, V6Address};
use super::metrics::MetricsAddress;
use super::resolver::Resolver;
use super::{DomainName, Settings, TcpMss, Upstream};

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
    TcpMss: json_schema!({ "anyOf": [
        { "type": "integer", "format": "uint16", "minimum": LEAST_MSS, "title": "number of bytes" },
        { "const": "mtu" }, { "const": "off" },
    ] });
    Resolver: json_schema!({ "type": "string", "title": "IP address, with a port if it is not 53" });
    Upstream: json_schema!({
        "type": "string",
        "title": "IP address, with a port if it is not 53, or tls://ADDRESS#NAME, with a port if it is not 853",
    });
    DomainName: json_schema!({ "type": "string", "title": "domain name" });
    MetricsAddress: json_schema!({ "type": "string", "title": "IP address and port, or path of a Unix socket" });
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Map, Value};

    use super::*;

    fn sections() -> Map<String, Value> {
        let schema = schema();
        let sections = schema.as_value()["properties"].as_object();
        sections.expect("the file has sections").clone()
    }

    /// The keys of a section that is one table, which may be left out.
    fn keys(section: &Value) -> Option<&Map<String, Value>> {
        let either = section["anyOf"].as_array().into_iter().flatten();
        let mut parts = either.chain([section]);
        parts.find_map(|part| part.get("properties")?.as_object())
    }

    /// The settings of a file that has the optional sections, without keys.
    fn whole() -> Settings {
        let file = json!({ "cluster": {}, "dns64": {} });
        serde_json::from_value(file).expect("it is right")
    }

    #[test]
    fn the_parser_reads_every_key_and_its_default_changes_nothing() {
        let mut count = 0;
        for (name, section) in sections() {
            let Some(keys) = keys(&section) else { continue };
            for (key, value) in keys {
                let Some(default) = value.get("default") else {
                    continue;
                };
                let mut file = json!({ "cluster": {}, "dns64": {} });
                file[&name] = json!({ key: default });
                let read: Settings = serde_json::from_value(file).expect(key);
                assert_eq!(read, whole(), "{name}.{key}");
                count += 1;
            }
            let unknown = json!({ &*name: { "no_such_key": 1 } });
            let error = serde_json::from_value::<Settings>(unknown).expect_err("it is refused");
            assert!(error.to_string().contains("unknown field"), "{error}");
        }
        assert!(count > 85, "only {count} keys have a default");
    }

    #[test]
    fn what_is_printed_stands_in_the_schema_with_its_default() {
        let printed = serde_json::to_value(whole()).expect("it is JSON");
        let sections = sections();
        for (name, table) in printed.as_object().expect("sections") {
            let section = sections.get(name).expect(name);
            let Some(keys) = keys(section) else { continue };
            for (key, value) in table.as_object().expect("a table") {
                let stated = keys.get(key).unwrap_or_else(|| panic!("{name}.{key}"));
                assert_eq!(stated.get("default"), Some(value), "{name}.{key}");
            }
        }
    }
}
