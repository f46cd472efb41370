// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a configuration file, out of the JSON Schema of its types: sections, each with its keys.

use serde_json::{Map, Value};

/// A table of the file, or an array of tables.
#[derive(Debug, PartialEq)]
pub struct Section {
    /// As between its brackets: `nat64.pool4`.
    pub name: String,
    /// `[[name]]`: there may be several.
    pub repeated: bool,
    /// Sentences.
    pub about: String,
    /// By name.
    pub keys: Vec<Key>,
}

/// One key of it.
#[derive(Debug, PartialEq)]
pub struct Key {
    /// Without the section.
    pub name: String,
    /// Sentences.
    pub about: String,
    /// What a value is, for people.
    pub kind: String,
    /// None: the key must be there. Null: without the key, another one decides, and the sentences say which.
    pub default: Option<Value>,
    /// Words that it may be, and what each means. Empty: it is no choice.
    pub choices: Vec<(String, String)>,
}

/// All sections; those inside another one follow it.
pub fn sections(schema: &Value) -> Vec<Section> {
    let mut found = Vec::new();
    collect("", false, schema, "", &mut found);
    // The file's own level has no keys.
    found.retain(|section| !section.name.is_empty());
    // What every translator has comes first.
    found.sort_by_key(|section| section.name != "translator");
    found
}

fn collect(name: &str, repeated: bool, schema: &Value, about: &str, found: &mut Vec<Section>) {
    let at = found.len();
    let mut keys = Vec::new();
    for (key, value) in properties(schema).into_iter().flatten() {
        let below = match name {
            "" => key.clone(),
            _ => format!("{name}.{key}"),
        };
        let (optional, value) = (value, present(value));
        let about = match about_of(value) {
            // The type has no sentence of its own, and the key has.
            none if none.is_empty() => about_of(optional),
            about => about,
        };
        if properties(value).is_some() {
            collect(&below, false, value, &about, found);
        } else if let Some(items) = value.get("items").filter(|i| properties(i).is_some()) {
            collect(&below, true, items, &about, found);
        } else {
            keys.push(Key {
                name: key.clone(),
                about,
                kind: kind(value),
                default: value.get("default").or(optional.get("default")).cloned(),
                choices: choices(value),
            });
        }
    }
    let section = Section {
        name: name.to_owned(),
        repeated,
        about: about.to_owned(),
        keys,
    };
    found.insert(at, section);
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Of something or nothing, the something.
fn present(schema: &Value) -> &Value {
    let is_null = |one: &&Value| one["type"] != "null";
    match schema["anyOf"].as_array() {
        Some(any) if any.iter().any(|one| !is_null(&one)) => {
            any.iter().find(is_null).unwrap_or(schema)
        }
        _ => schema,
    }
}

/// A doc comment, on one line.
fn about_of(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn choices(schema: &Value) -> Vec<(String, String)> {
    let each = schema["oneOf"].as_array().into_iter().flatten();
    each.filter_map(|one| Some((one["const"].as_str()?.to_owned(), about_of(one))))
        .collect()
}

fn kind(schema: &Value) -> String {
    if let Some(title) = schema["title"].as_str() {
        return title.to_owned();
    }
    if let Some(word) = schema.get("const") {
        return word.to_string();
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(several) = schema[several].as_array() {
            let kinds: Vec<String> = several.iter().map(kind).collect();
            return kinds.join(" or ");
        }
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("boolean"), _) => "true or false".to_owned(),
        (Some("integer"), _) => "number".to_owned(),
        (Some("array"), _) => format!("list of: {}", kind(&schema["items"])),
        (Some("string"), Some("ipv4")) => "IPv4 address".to_owned(),
        (Some("string"), Some("ipv6")) => "IPv6 address".to_owned(),
        (Some("string"), Some("ip")) => "IP address".to_owned(),
        _ => "text".to_owned(),
    }
}
