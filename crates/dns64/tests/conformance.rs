// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the tests named in `CONFORMANCE.md` for DNS64 exist where the rows say, and that every test of a
//! requirement is named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HEADS: [&str; 2] = ["## RFC 6147", "## RFC 7050"];
/// Each test in this folder is one of a requirement.
const REQUIREMENTS: &str = "crates/dns64/src/rfc6147";
/// The folders of the test modules.
const TESTS: [&str; 3] = [
    "crates/dns64/src",
    "crates/pref64/src",
    "crates/pref64/tests",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the mark and the tests (`module::name`) of each row.
fn rows() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root().join("CONFORMANCE.md")).expect("it is there");
    let mut inside = false;
    let mut rows = Vec::new();
    for line in text.lines() {
        if line.starts_with("## ") {
            inside = HEADS.iter().any(|head| line.starts_with(head));
        }
        let is_row = line.starts_with('|') && !line.starts_with("| §") && !line.starts_with("|--");
        if !inside || !is_row {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{line}");
        let quoted = cells[4].split('`').skip(1).step_by(2);
        rows.push((cells[2].to_owned(), quoted.map(str::to_owned).collect()));
    }
    rows
}

#[test]
fn rows_name_tests_that_exist() {
    let rows = rows();
    assert!(rows.len() > 30, "rows are missing");
    for (mark, names) in &rows {
        let shows_nothing = mark == "✗" || mark == "–";
        assert_eq!(names.is_empty(), shows_nothing, "{names:?}");
        for name in names {
            let (module, test) = name.rsplit_once("::").expect("module::name");
            let file = format!("{}.rs", module.replace("::", "/"));
            let read = |folder: &&str| fs::read_to_string(root().join(folder).join(&file)).ok();
            let text: String = TESTS.iter().filter_map(read).collect();
            assert!(
                text.contains(&format!("#[test]\n    fn {test}()"))
                    || text.contains(&format!("#[test]\nfn {test}()")),
                "{name} does not exist"
            );
        }
    }
}

#[test]
fn every_test_of_a_requirement_is_named() {
    let files = fs::read_dir(root().join(REQUIREMENTS)).expect("it is there");
    let read = |file: fs::DirEntry| fs::read_to_string(file.path()).expect("it can be read");
    let text: String = files.flatten().map(read).collect();
    let tests = text.split("#[test]\nfn ").skip(1);
    let tests = tests.filter_map(|rest| rest.split('(').next());
    let tests: BTreeSet<String> = tests.map(str::to_owned).collect();
    let named = rows().into_iter().flat_map(|row| row.1);
    let last = |name: String| name.rsplit("::").next().unwrap_or_default().to_owned();
    let named: BTreeSet<String> = named.map(last).collect();
    let unnamed: Vec<_> = tests.difference(&named).collect();
    assert!(tests.len() > 40 && unnamed.is_empty(), "{unnamed:?}");
}
