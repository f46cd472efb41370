// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `CONFORMANCE.md`: its tables, and what their last column names.

use crate::file::root;

/// One row of a table that is not its head.
pub struct Row {
    /// For the message of a failure.
    pub text: String,
    /// The mark, in tables of demands.
    pub mark: Option<String>,
    /// What the last cell names: vectors, `*` for any characters, paths, or tests.
    pub names: Vec<String>,
}

const MARKS: [&str; 4] = ["✓", "◐", "✗", "–"];
/// Section, requirement, mark, sentence, tests.
const DEMAND_CELLS: usize = 5;
/// Documents, what they are about, a count of each mark, the most important difference: `.ci/conformance.py` checks these.
const SUMMARY_CELLS: usize = 7;

/// Every row of every table but the summary.
pub fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("CONFORMANCE.md")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with("|---");
    let body = lines.iter().enumerate().filter(|&(at, line)| {
        let heads = lines.get(at + 1).is_some_and(|next| is_rule(next));
        let summary = line.trim_matches('|').split('|').count() == SUMMARY_CELLS;
        line.starts_with('|') && !is_rule(line) && !heads && !summary
    });
    body.map(|(_, line)| row(line))
        .filter(|row| !MARKS.contains(&row.text.as_str()))
        .collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let mark = (cells.len() == DEMAND_CELLS).then(|| {
        assert!(MARKS.contains(&cells[2]), "no mark: {line}");
        cells[2].to_owned()
    });
    let names = cells
        .last()
        .unwrap()
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    // The table of the marks explains them; its rows have nothing else to name.
    let text = if cells.len() == 2 && MARKS.contains(&cells[0]) {
        cells[0]
    } else {
        line
    };
    Row {
        text: text.to_owned(),
        mark,
        names,
    }
}

/// Is it the name of a test, and not of a vector?
pub fn is_test(name: &str) -> bool {
    name.contains("::")
}

/// Where the tests' modules are, below `crates/`.
const TESTS: [&str; 8] = [
    "core/tests/nat64",
    "core/tests",
    "core/src",
    "dns64/src",
    "pref64/src",
    "pref64/tests",
    "diolkos/src",
    "diolkos/tests",
];

/// Is there a test of this name: a function of an integration test, or of a module?
pub fn test_exists(name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").expect("`is_test` says so");
    let file = format!("{}.rs", module.replace("::", "/"));
    TESTS.iter().any(|folder| {
        let path = root().join("crates").join(folder).join(&file);
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {function}(")))
    })
}

/// Is it the path of a file, and not the name of a vector?
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.contains('.')
}

/// Does `name` have the form of `pattern`, in which `*` stands for any characters?
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name
            .strip_prefix(front)
            .is_some_and(|behind| (0..=behind.len()).any(|at| matches(rest, &behind[at..]))),
    }
}
