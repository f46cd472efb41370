// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a folder use each other in one direction: there is no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders that are looked through, below `src`.
const FOLDERS: [&str; 5] = ["clat", "dns64", "nat64", "net", "router"];

/// The modules of a folder, and which of the same folder each uses. A module that is a folder counts as one.
fn uses(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(folder);
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let below = path.strip_prefix(&root).expect("it is below").components();
            let first = below.map(|part| part.as_os_str().to_string_lossy().into_owned());
            let first = first.into_iter().next().expect("a name");
            let module = first.trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(&path).expect("text");
            // In a folder, `super` is the module itself.
            let depth = path
                .strip_prefix(&root)
                .expect("it is")
                .components()
                .count();
            let text = match depth {
                1 => text.replace("super::", &format!("crate::{folder}::")),
                _ => text,
            };
            *texts.entry(module).or_default() += &text;
        }
    }
    texts.remove("mod");
    let modules: BTreeSet<String> = texts.keys().cloned().collect();
    let used = |text: &str, own: &str| {
        let is_used = |other: &&String| {
            let path = format!("crate::{folder}::{other}::");
            *other != own && text.contains(&path)
        };
        modules.iter().filter(is_used).cloned().collect()
    };
    let with_uses = |(module, text): (&String, &String)| (module.clone(), used(text, module));
    texts.iter().map(with_uses).collect()
}

#[test]
fn no_circle() {
    for folder in FOLDERS {
        let mut left = uses(folder);
        assert!(left.len() > 3, "{folder} has modules");
        assert!(
            left.values().any(|used| !used.is_empty()),
            "they use each other"
        );
        // Whoever uses nobody that is left goes.
        loop {
            let names: BTreeSet<String> = left.keys().cloned().collect();
            left.retain(|_, used| used.intersection(&names).next().is_some());
            if left.len() == names.len() {
                break;
            }
        }
        assert!(left.is_empty(), "a circle in {folder}: {left:?}");
    }
}
