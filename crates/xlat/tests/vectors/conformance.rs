// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of `CONFORMANCE.md`, and the tests that their last column names.

use crate::file::root;

/// One row of a table, except its head.
pub struct Row {
    /// The text for the message of a failure.
    pub text: String,
    /// The mark, in tables of requirements.
    pub mark: Option<String>,
    /// The names in the last cell: vectors (`*` stands for any characters), paths, or tests.
    pub names: Vec<String>,
}

const MARKS: [&str; 4] = ["✓", "◐", "✗", "–"];
/// Section, requirement, mark, sentence, tests.
const DEMAND_CELLS: usize = 5;
/// Documents, subject, a count of each mark, the most important difference: `.ci/conformance.py` checks these.
const SUMMARY_CELLS: usize = 7;

/// Returns every row of every table except the summary.
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
    // The table of the marks explains them; its rows name nothing else.
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

/// Returns true for the name of a test, false for that of a vector.
pub fn is_test(name: &str) -> bool {
    name.contains("::")
}

/// The folders of the test modules, below `crates/`.
const TESTS: [&str; 21] = [
    "nat64/tests/nat64",
    "nat64/tests",
    "nat64/src",
    "xlat/tests/xlat",
    "xlat/src",
    "dns64/src",
    "pref64/src",
    "pref64/tests",
    "bindlog/src",
    "gateway/src",
    "gateway/tests",
    "router/src",
    "clat/src",
    "config/src",
    "datapath/src",
    "resolver/src",
    "resolver/src/server/upstream",
    "diolkos/src",
    "router/tests",
    "cluster/tests",
    "pcp/tests/pcp",
];

/// Returns true if a test with this name exists: a function of an integration test, or of a module.
pub fn test_exists(name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").expect("`is_test` says so");
    let file = format!("{}.rs", module.replace("::", "/"));
    TESTS.iter().any(|folder| {
        let path = root().join("crates").join(folder).join(&file);
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {function}(")))
    })
}

/// Returns true for the path of a file, false for the name of a vector.
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.contains('.')
}

/// Returns true if `name` matches `pattern`, in which `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name
            .strip_prefix(front)
            .is_some_and(|behind| (0..=behind.len()).any(|at| matches(rest, &behind[at..]))),
    }
}
