// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the value at a position in a file.

use std::fmt::Write as _;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// The most characters of a value that a sentence quotes.
const QUOTED: usize = 60;

/// A step on the path from the file to one of its values.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// A key of a table.
    Key(String),
    /// An element of an array.
    Index(usize),
}

/// A value of the file.
#[derive(Debug)]
pub struct LocatedValue<'a> {
    /// The path to the value.
    pub path: Vec<PathStep>,
    /// The value.
    pub value: &'a DeValue<'a>,
    span: Range<usize>,
}

impl<'a> LocatedValue<'a> {
    /// The innermost value at a position, or the value of the key at that position.
    pub fn find(document: &'a Spanned<DeTable<'a>>, at: usize) -> Option<LocatedValue<'a>> {
        in_table(document.get_ref(), at)
    }

    /// The path as text, for example `nat64.pool4[0].address`.
    pub fn key(&self) -> String {
        written(&self.path)
    }

    /// The path of the table that contains `key` on this path.
    pub fn above(&self, key: &str) -> &[PathStep] {
        let is_key = |step: &PathStep| matches!(step, PathStep::Key(name) if name == key);
        let at = self.path.iter().rposition(is_key);
        &self.path[..at.unwrap_or(self.path.len())]
    }

    /// The path of a key in this table.
    pub fn path_to(&self, name: &str) -> Vec<PathStep> {
        let mut path = self.path.clone();
        path.push(PathStep::Key(name.to_owned()));
        path
    }

    /// The header of this table as in the file.
    pub fn section(&self) -> String {
        header(&self.path)
    }

    /// The text without its quotation marks; empty for other kinds of values.
    pub fn text(&self) -> String {
        match self.value {
            DeValue::String(text) => text.to_string(),
            _ => String::new(),
        }
    }

    /// The value as written in the file, on one line.
    pub fn literal(&self, text: &str) -> String {
        if let DeValue::Table(_) = self.value {
            return self.section();
        }
        let literal = text.get(self.span.clone()).unwrap_or_default();
        let literal = literal.split_whitespace().collect::<Vec<_>>().join(" ");
        match literal.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{}…", &literal[..end]),
            None => literal,
        }
    }
}

/// `[a.b]`, or `[[a.b]]` for one of several.
pub fn header(path: &[PathStep]) -> String {
    let names: Vec<&str> = path
        .iter()
        .filter_map(|step| match step {
            PathStep::Key(name) => Some(name.as_str()),
            PathStep::Index(_) => None,
        })
        .collect();
    match path.last() {
        None => "the file".to_owned(),
        Some(PathStep::Key(_)) => format!("[{}]", names.join(".")),
        Some(PathStep::Index(_)) => format!("[[{}]]", names.join(".")),
    }
}

fn written(path: &[PathStep]) -> String {
    let mut text = String::new();
    for step in path {
        // Writing to a string cannot fail.
        let _ = match step {
            PathStep::Key(name) if text.is_empty() => write!(text, "{name}"),
            PathStep::Key(name) => write!(text, ".{name}"),
            PathStep::Index(at) => write!(text, "[{at}]"),
        };
    }
    text
}

fn in_table<'a>(table: &'a DeTable<'a>, at: usize) -> Option<LocatedValue<'a>> {
    table.iter().find_map(|(key, value)| {
        let step = PathStep::Key(key.get_ref().to_string());
        if key.span().contains(&at) && !is_header(value) {
            return Some(here(step, value));
        }
        inside(step, value, at)
    })
}

/// Returns true if the value is a section: then its first line may be the header of a nested section whose other keys are
/// elsewhere.
fn is_header(value: &Spanned<DeValue<'_>>) -> bool {
    match value.get_ref() {
        DeValue::Table(table) => !table.is_empty(),
        DeValue::Array(array) => array.iter().any(is_header),
        _ => false,
    }
}

fn inside<'a>(
    step: PathStep,
    value: &'a Spanned<DeValue<'a>>,
    at: usize,
) -> Option<LocatedValue<'a>> {
    // The span of a section covers only its first line, but the section continues below.
    let below = match value.get_ref() {
        DeValue::Table(table) => in_table(table, at),
        DeValue::Array(array) => array
            .iter()
            .enumerate()
            .find_map(|(nth, element)| inside(PathStep::Index(nth), element, at)),
        _ => None,
    };
    if let Some(mut found) = below {
        found.path.insert(0, step);
        return Some(found);
    }
    value.span().contains(&at).then(|| here(step, value))
}

fn here<'a>(step: PathStep, value: &'a Spanned<DeValue<'a>>) -> LocatedValue<'a> {
    LocatedValue {
        path: vec![step],
        value: value.get_ref(),
        span: value.span(),
    }
}
