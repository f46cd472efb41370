// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/configuration.md and diolkos.toml(5) contain every key of the configuration's types, with all that its entry says.

use std::collections::BTreeSet;

use diolkos_manual::keys::{sections, Section};
use diolkos_manual::page;

fn all() -> Vec<Section> {
    sections(diolkos::manual::configuration().as_value())
}

#[test]
fn the_page_is_made_of_the_types() {
    let page = include_str!("../../../docs/configuration.md");
    let made = diolkos_manual::reference();
    let lines = page.lines().zip(made.lines());
    let other = lines.clone().find(|(page, made)| page != made);
    assert_eq!(other, None, "`make reference` writes docs/configuration.md");
    assert_eq!(page, made, "`make reference` writes docs/configuration.md");
}

#[test]
fn the_page_has_a_key_with_all_that_its_entry_says() {
    let made = diolkos_manual::reference();
    for row in [
        "| `lowest_ipv6_mtu` | `1280` | The least IPv6 MTU behind the translator, bytes.",
        "| `device` | `\"diolkos0\"` | Name of the TUN device. *A change needs a restart.* |",
        "| `udp` | `300` | UDP sessions. *In a cluster, a change needs `diolkos cluster roll`.* |",
        "| `interface` | required | The interface's name.",
        "| `facility` |  | With `syslog`: of which facility;",
    ] {
        assert!(made.contains(row), "{row}");
    }
    let keys: usize = all().iter().map(|section| section.keys.len()).sum();
    assert!(keys > 110, "only {keys} keys are found");
    let rows = made.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), keys);
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
            assert!(key.reload.is_some(), "{name}: may it change at a reload?");
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
