// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration files: one that is right reads its own print and makes a translator; one that is wrong is refused with
//! places that are in the file.

use crate::seeds;
use diolkos_config::{parse as settings, Settings};
use std::fs;

/// The target: a file.
pub fn run(file: &[u8]) {
    let Ok(text) = std::str::from_utf8(file) else {
        return; // Refused when the file is read.
    };
    // Long files are read in pieces, which must not show.
    let whole = toml::from_str::<Settings>(text);
    match settings(text, "x.toml", |_| ()) {
        Ok(right) => {
            // That is no key of the file: it follows from its sections.
            let no_translator = right.no_translator;
            let whole = whole.map(|whole| Settings {
                no_translator,
                ..whole
            });
            // So does what a DNS64 without a prefix takes from the translator beside it, and what the mode decides.
            let whole = whole.map(|mut whole| {
                whole.settle_prefix_of_router(|| {
                    let table = text.parse::<toml::Table>().unwrap_or_default();
                    let translator = table.get("translator");
                    translator.is_some_and(|section| section.get("pref64").is_some())
                });
                whole.settle_prefix_of_dns64();
                whole.settle_zero_checksum();
                whole
            });
            assert_eq!(whole.as_ref(), Ok(&right));
            let print = right.canonical().expect("what was read prints");
            let again = settings(&print, "print", |_| ())
                .unwrap_or_else(|error| panic!("{error}\n{print}"));
            assert_eq!(again, right, "{print}");
            assert_eq!(again.canonical().expect("as before"), print);
        }
        Err(failure) => {
            let message = failure.to_string();
            for line in message.lines() {
                has_place(text, line);
            }
        }
    }
}

/// `x.toml:LINE:COLUMN: sentence`, both counted from 1, the column at most one behind the line.
fn has_place(text: &str, message: &str) {
    let place = message.strip_prefix("x.toml:").and_then(|rest| {
        let (line, rest) = rest.split_once(':')?;
        let (column, sentence) = rest.split_once(": ")?;
        Some((
            line.parse::<usize>().ok()?,
            column.parse::<usize>().ok()?,
            sentence,
        ))
    });
    let (line, column, sentence) = place.unwrap_or_else(|| panic!("no place: {message:?}"));
    let shown = text
        .split('\n')
        .nth(line - 1)
        .unwrap_or_else(|| panic!("no such line: {message:?}"));
    assert!(
        (1..=shown.chars().count() + 1).contains(&column),
        "no such column: {message:?}"
    );
    assert!(!sentence.is_empty(), "{message:?}");
}

/// The examples of the README, and a file for each way of being wrong.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let readme = fs::read_to_string(seeds::root().join("README.md")).expect("the README");
    let examples = readme
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let mut seeds: Vec<_> = examples
        .enumerate()
        .map(|(at, example)| (format!("example-{at}"), example.as_bytes().to_vec()))
        .collect();
    let eam = "[[eam]]\nv4 = \"192.0.2.0/24\"\nv6 = \"2001:db8::/121\"\n";
    for (name, text) in [
        ("empty", String::new()),
        ("mappings", "[translator]\nmode = \"siit\"\n[[eam]]\nv4 = \"192.0.2.1\"\nv6 = \"2001:db8::1\"\n[[eam]]\nv6 = \"2001:db8::2/128\"\nv4 = \"192.0.2.2/32\"\n[icmp]\nrate = 7\n".to_owned()),
        ("cut-off", "[translator".to_owned()),
        ("unknown-key", "[translator]\nmod = \"clat\"\n".to_owned()),
        ("wrong-type", "[translator]\nmtu4 = -1\nqueues = 65\n".to_owned()),
        ("wrong-values", format!("[translator]\nmode = \"siit\"\npref64 = [\"2001:db8::/72\", \"::/96\"]\n{eam}{eam}")),
        ("characters", "# äöπ\n[log]\nlevel = \"\\u00e4\"\n".to_owned()),
        ("networks", "[translator]\nmode = \"siit\"\n[siit]\nroutes4 = [\"192.0.2.1/24\"]\nroutes6 = \"auto\"\n".to_owned()),
    ] {
        seeds.push((name.to_owned(), text.into_bytes()));
    }
    seeds
}
