// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `CONFORMANCE.md`: the tests that its rows about DNS64 name exist, where the rows say, and every test of a demand is
//! named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HEADS: [&str; 2] = ["## RFC 6147", "## RFC 7050"];
/// Each test in it is one of a demand.
const DEMANDS: &str = "crates/dns64/src/rfc6147";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands in backquotes.
fn quoted(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// Mark, names in the sentence that are tests', and files, of each row.
fn rows() -> Vec<(String, Vec<String>, Vec<String>)> {
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
        let mut names = quoted(cells[3]);
        // Keys of the configuration stand in backquotes too.
        let is_test = |name: &str| name.matches('_').count() > 1 && !name.starts_with("allow_");
        names.retain(|name| is_test(name));
        rows.push((cells[2].to_owned(), names, quoted(cells[4])));
    }
    rows
}

#[test]
fn rows_name_tests_that_exist() {
    let rows = rows();
    assert!(rows.len() > 30, "rows are missing");
    for (mark, names, files) in &rows {
        let shows_nothing = mark == "✗" || mark == "–";
        assert_eq!(names.is_empty(), shows_nothing, "{names:?} {files:?}");
        let read = |file: &String| fs::read_to_string(root().join(file)).expect("it is there");
        let text: String = files.iter().map(read).collect();
        for name in names {
            let test = format!("#[test]\n    fn {name}()");
            let at_root = format!("#[test]\nfn {name}()");
            assert!(
                text.contains(&test) || text.contains(&at_root),
                "{name} is no test of {files:?}"
            );
        }
    }
}

#[test]
fn every_test_of_a_demand_is_named() {
    let files = fs::read_dir(root().join(DEMANDS)).expect("it is there");
    let read = |file: fs::DirEntry| fs::read_to_string(file.path()).expect("it can be read");
    let text: String = files.flatten().map(read).collect();
    let tests = text.split("#[test]\nfn ").skip(1);
    let tests = tests.filter_map(|rest| rest.split('(').next());
    let tests: BTreeSet<String> = tests.map(str::to_owned).collect();
    let named: BTreeSet<String> = rows().into_iter().flat_map(|row| row.1).collect();
    let unnamed: Vec<_> = tests.difference(&named).collect();
    assert!(tests.len() > 40 && unnamed.is_empty(), "{unnamed:?}");
}
