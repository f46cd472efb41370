// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the values that a key accepts, according to the schema.

use serde_json::Value;
use toml::de::DeValue;

use super::near::{listed, meant};
use super::place::{header, LocatedValue, PathStep};

/// The values that a key accepts.
#[derive(Debug)]
pub struct Wanted<'a> {
    schema: &'a Value,
    path: Vec<PathStep>,
}

impl<'a> Wanted<'a> {
    /// Looks up a key by its path. An unknown key accepts nothing in particular.
    pub fn of(root: &'a Value, path: &[PathStep]) -> Wanted<'a> {
        Wanted {
            schema: at(root, path).unwrap_or(&Value::Null),
            path: path.to_vec(),
        }
    }

    /// The accepted kind of value, with an article.
    pub fn kind(&self) -> String {
        kind(self.schema)
    }

    /// The message for a word that is not among the choices.
    pub fn none_of(&self, literal: &str, text: &str) -> String {
        let words = words(self.schema);
        let sentence = format!("{literal} is none of {}", listed(&words, "\"", "and"));
        match meant(text, &words) {
            Some(word) => format!("{sentence}; did you mean \"{word}\"?"),
            None => sentence,
        }
    }

    /// The message for a value of the wrong kind, or out of range.
    pub fn refusal(&self, place: &LocatedValue<'_>, literal: &str) -> String {
        let one = alternative(self.schema);
        let or_auto = or_words(self.schema);
        let name = header(&self.path);
        let is_list = is_type(one, "array");
        match place.value {
            DeValue::Table(_) if is_list && is_type(&one["items"], "object") => {
                format!("{name} is one table, and there may be several; write [{name}]")
            }
            DeValue::Table(_) => format!("{name} is not a section; write {}", self.kind()),
            _ if is_type(one, "object") || (is_list && is_type(&one["items"], "object")) => {
                let name = match is_list {
                    true => format!("[{name}]"),
                    false => name,
                };
                format!("{literal} is not a section; write {name} on a line of its own, and its keys below")
            }
            _ if is_list => format!("{literal} is not a list; write [{literal}]{or_auto}"),
            DeValue::Integer(_) if is_type(one, "integer") => {
                format!("{literal} is out of range; write {}{or_auto}", range(one))
            }
            DeValue::Float(_) if is_type(one, "integer") => {
                format!(
                    "{literal} is not a whole number; write {}{or_auto}",
                    range(one)
                )
            }
            DeValue::String(text)
                if is_type(one, "integer")
                    && text.bytes().all(|b| b.is_ascii_digit())
                    && !text.is_empty() =>
            {
                format!("{literal} has quotation marks, and this key takes a number; write {text}")
            }
            _ if is_type(one, "integer") => {
                format!(
                    "{literal} is not a number; write {} in digits{or_auto}",
                    range(one)
                )
            }
            DeValue::String(text)
                if ["true", "false"].contains(&text.as_ref()) && is_type(one, "boolean") =>
            {
                format!("{literal} has quotation marks; write {text}")
            }
            _ if is_type(one, "boolean") => format!("{literal} is neither true nor false"),
            DeValue::Array(_) => format!(
                "{literal} is a list, and this key takes one value; write {}",
                self.kind()
            ),
            _ if !words(self.schema).is_empty() => self.none_of(literal, ""),
            _ => format!(
                "{literal} is not {}; write it in quotation marks",
                self.kind()
            ),
        }
    }
}

/// The section on the path that was written as several tables although there can be only one.
pub fn only_one(root: &Value, path: &[PathStep]) -> Option<String> {
    let ends = (1..path.len()).filter(|&end| matches!(path[end], PathStep::Index(_)));
    let mut sections = ends.map(|end| &path[..end]);
    let section = sections.find(|section| {
        let schema = at(root, section).map(alternative);
        schema.is_some_and(|schema| is_type(schema, "object"))
    });
    section.map(header)
}

/// The keys of a table.
pub fn keys(root: &Value, path: &[PathStep]) -> Vec<String> {
    let properties =
        at(root, path).and_then(|schema| alternative(schema)["properties"].as_object());
    properties.map_or(Vec::new(), |map| map.keys().cloned().collect())
}

/// The sections that have a key with this name.
pub fn sections_with(root: &Value, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(root, &mut Vec::new(), name, &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<PathStep>, name: &str, found: &mut Vec<String>) {
    let schema = alternative(schema);
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        if key == name && !path.is_empty() {
            found.push(header(path));
        }
        path.push(PathStep::Key(key.clone()));
        let one = alternative(below);
        if is_type(one, "array") {
            path.push(PathStep::Index(0));
            collect(&one["items"], path, name, found);
            path.pop();
        } else {
            collect(one, path, name, found);
        }
        path.pop();
    }
}

fn at<'a>(root: &'a Value, path: &[PathStep]) -> Option<&'a Value> {
    path.iter().try_fold(root, |schema, step| {
        let schema = alternative(schema);
        match step {
            PathStep::Key(name) => schema["properties"].get(name),
            PathStep::Index(_) => schema.get("items"),
        }
    })
}

/// Of several alternatives, the one that is neither null nor `auto`.
fn alternative(schema: &Value) -> &Value {
    let any = schema["anyOf"].as_array();
    let one = any.and_then(|any| {
        any.iter()
            .find(|one| one["type"] != "null" && one["const"] != "auto")
    });
    one.unwrap_or(schema)
}

/// The words that are allowed beside a value of another kind, as ` or "auto"`.
fn or_words(schema: &Value) -> String {
    let any = schema["anyOf"].as_array().into_iter().flatten();
    any.filter_map(|one| one["const"].as_str())
        .map(|word| format!(" or \"{word}\""))
        .collect()
}

/// Returns true if the schema has this type; an optional value has two types.
fn is_type(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == name),
        one => one == name,
    }
}

/// The words of a choice.
fn words(schema: &Value) -> Vec<&str> {
    let one = alternative(schema);
    let several = one["oneOf"].as_array().or(one["enum"].as_array());
    several
        .into_iter()
        .flatten()
        .filter_map(|one| one["const"].as_str().or(one.as_str()))
        .collect()
}

fn kind(schema: &Value) -> String {
    let one = alternative(schema);
    let or_words = or_words(schema);
    let words = words(one);
    let kind = match (one["title"].as_str(), one["format"].as_str()) {
        (Some(title), _) => with_article(title),
        _ if !words.is_empty() => listed(&words, "\"", "or"),
        _ if is_type(one, "boolean") => "true or false".to_owned(),
        _ if is_type(one, "integer") => range(one),
        _ if is_type(one, "array") => "a list".to_owned(),
        _ if is_type(one, "object") => "a section".to_owned(),
        (_, Some("ipv4")) => "an IPv4 address".to_owned(),
        (_, Some("ipv6")) => "an IPv6 address".to_owned(),
        (_, Some("ip")) => "an IP address".to_owned(),
        _ => "a text".to_owned(),
    };
    kind + &or_words
}

fn with_article(title: &str) -> String {
    match title.starts_with(['a', 'e', 'i', 'o', 'u', 'I']) {
        true => format!("an {title}"),
        false => format!("a {title}"),
    }
}

fn range(schema: &Value) -> String {
    let least = schema["minimum"].as_u64().unwrap_or(0);
    let most = match schema["format"].as_str() {
        Some("uint8") => u64::from(u8::MAX),
        Some("uint16") => u64::from(u16::MAX),
        Some("uint32") => u64::from(u32::MAX),
        // TOML has no larger numbers.
        Some("uint64" | "uint") => i64::MAX as u64,
        _ => return "a whole number".to_owned(),
    };
    format!("a number from {least} to {most}")
}
