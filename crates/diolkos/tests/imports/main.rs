// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a folder use each other in one direction: there is no circle.

mod paths;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use paths::Named;

/// The files of `src`, each by the module that it is, and whether others are below it.
struct File {
    module: Vec<String>,
    is_folder: bool,
    named: Named,
}

/// All files.
fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("a folder")
                    .map(|e| e.expect("an entry").path()),
            );
            continue;
        }
        let below = path.strip_prefix(&root).expect("it is below");
        let below = below.with_extension("");
        let parts = below.iter().map(|part| part.to_string_lossy().into_owned());
        let mut module: Vec<String> = parts.collect();
        if module == ["main"] {
            continue;
        }
        let is_folder = module.last().is_some_and(|last| last == "mod") || module == ["lib"];
        if is_folder {
            module.pop();
        }
        let text = fs::read_to_string(&path).expect("text");
        found.push(File {
            named: Named::of(&text, &module),
            module,
            is_folder,
        });
    }
    found
}

/// The modules of a folder, and which of the same folder each uses. A module that is a folder counts as one. What the
/// folder itself imports from one of them is used through it.
fn uses(folder: &File, files: &[File]) -> BTreeMap<String, BTreeSet<String>> {
    let depth = folder.module.len();
    let below = |file: &&File| file.module.len() > depth && file.module.starts_with(&folder.module);
    let mut uses: BTreeMap<String, BTreeSet<String>> = files
        .iter()
        .filter(below)
        .map(|file| (file.module[depth].clone(), BTreeSet::new()))
        .collect();
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    let next = |path: &[String]| {
        let rest = path.strip_prefix(folder.module.as_slice())?;
        rest.first().cloned()
    };
    let imports = folder.named.imports.iter();
    let through: BTreeMap<&String, String> = imports
        .filter_map(|(name, path)| Some((name, next(path).filter(|m| modules.contains(m))?)))
        .collect();
    for file in files.iter().filter(below) {
        let own = &file.module[depth];
        let its = uses.get_mut(own).expect("it is there");
        for name in file.named.all().filter_map(|path| next(path)) {
            let module = match modules.contains(&name) {
                true => Some(&name),
                false => through.get(&name),
            };
            its.extend(module.filter(|module| *module != own).cloned());
        }
        let all = file.named.imports.iter();
        if all
            .clone()
            .any(|(name, path)| name == "*" && *path == folder.module)
        {
            its.extend(through.values().filter(|module| *module != own).cloned());
        }
    }
    uses
}

#[test]
fn no_circle() {
    let files = files();
    let folders = files.iter().filter(|file| file.is_folder);
    let mut circles = Vec::new();
    let mut seen = 0;
    for folder in folders {
        let mut left = uses(folder, &files);
        seen += left.values().map(BTreeSet::len).sum::<usize>();
        // Whoever uses nobody that is left goes, and so does whoever nobody uses.
        loop {
            let names: BTreeSet<String> = left.keys().cloned().collect();
            let used: BTreeSet<String> = left.values().flatten().cloned().collect();
            left.retain(|name, uses| used.contains(name) && !uses.is_disjoint(&names));
            left.values_mut()
                .for_each(|uses| uses.retain(|to| names.contains(to)));
            if left.len() == names.len() {
                break;
            }
        }
        if !left.is_empty() {
            circles.push(format!("{}: {left:#?}", folder.module.join("::")));
        }
    }
    assert!(seen > 100, "only {seen} uses are seen");
    assert!(circles.is_empty(), "circles: {}", circles.join("\n"));
}
