// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/configuration.md and diolkos.toml(5) contain every key of the configuration's types, with its default.

use std::collections::BTreeSet;

use diolkos_manual::keys::{sections, Section};
use diolkos_manual::page;
use serde_json::Value;

/// The program does not start with the defaults of these keys, so the page shows other values.
const NEED_A_VALUE: [&str; 6] = [
    "dns64.upstream",
    "cluster.ca",
    "cluster.certificate",
    "cluster.etcd",
    "cluster.key",
    "cluster.name",
];

fn all() -> Vec<Section> {
    sections(diolkos::manual::configuration().as_value())
}

/// The examples of the page.
fn documented() -> Vec<Value> {
    let page = include_str!("../../../docs/configuration.md");
    let blocks = page.split("```toml\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks
        .map(|block| toml::from_str(block).expect("TOML"))
        .collect()
}

/// The tables of a section in one example.
fn tables<'a>(example: &'a Value, section: &str) -> Vec<&'a Value> {
    let mut found = vec![example];
    for name in section.split('.') {
        let below = found.into_iter().filter_map(|table| table.get(name));
        found = below
            .flat_map(|value| match value {
                Value::Array(tables) => tables.iter().collect(),
                _ => vec![value],
            })
            .collect();
    }
    found
}

#[test]
fn the_page_names_every_key_and_its_default() {
    let examples = documented();
    let mut wrong = Vec::new();
    let mut keys = 0;
    for section in all() {
        for key in &section.keys {
            keys += 1;
            let name = format!("{}.{}", section.name, key.name);
            let tables = examples.iter().flat_map(|e| tables(e, &section.name));
            let shown: Vec<&Value> = tables.filter_map(|table| table.get(&key.name)).collect();
            let default = key.default.as_ref().filter(|default| !default.is_null());
            if shown.is_empty() {
                wrong.push(format!("{name} is missing"));
            } else if default.is_some_and(|d| !shown.contains(&d))
                && !NEED_A_VALUE.contains(&name.as_str())
            {
                wrong.push(format!(
                    "{name} is {shown:?}, and {default:?} is the default"
                ));
            }
        }
    }
    assert!(keys > 80, "only {keys} keys are found");
    assert!(
        wrong.is_empty(),
        "docs/configuration.md:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_key_has_a_sentence_and_a_value() {
    for section in all() {
        assert!(!section.about.is_empty(), "[{}]", section.name);
        for key in section.keys {
            let name = format!("{}.{}", section.name, key.name);
            assert!(key.about.ends_with('.'), "{name}: {:?}", key.about);
            assert!(!key.about.contains("[`"), "{name} links to code");
            assert!(!key.kind.is_empty(), "{name}");
        }
    }
}

#[test]
fn sections_are_those_of_the_file() {
    let found: BTreeSet<(String, bool)> = all().into_iter().map(|s| (s.name, s.repeated)).collect();
    for (name, repeated) in [
        ("translator", false),
        ("eam", true),
        ("nat64", false),
        ("nat64.timeouts", false),
        ("nat64.pool4", true),
        ("nat64.static", true),
        ("dns64.range", true),
        ("announce", true),
    ] {
        assert!(found.contains(&(name.to_owned(), repeated)), "{name}");
    }
}

#[test]
fn the_manual_page_has_every_section_and_key() {
    let sections = all();
    let page = page::configuration(&sections, "1.2.3");
    assert!(page.contains("diolkos 1.2.3"));
    for section in &sections {
        assert!(page.contains(&format!("[{}]", section.name)));
        for key in &section.keys {
            let bold = format!("\\fB{}\\fR", key.name);
            assert!(page.contains(&bold), "{bold}");
        }
    }
}
