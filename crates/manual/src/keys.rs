// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the keys of a configuration file from the JSON Schema of its types: sections, each with its keys.

use diolkos_config::key::Reload;
use serde_json::{Map, Value};

/// A table of the file, or an array of tables.
#[derive(Debug, PartialEq)]
pub struct Section {
    /// Its name, as between the brackets: `nat64.pool4`.
    pub name: String,
    /// `[[name]]`: there may be several.
    pub repeated: bool,
    /// Its description, in sentences.
    pub about: String,
    /// Its keys, by name.
    pub keys: Vec<Key>,
}

/// A key of a section.
#[derive(Debug, PartialEq)]
pub struct Key {
    /// Its name, without the section.
    pub name: String,
    /// Its description, in sentences.
    pub about: String,
    /// The kind of value, for people.
    pub kind: String,
    /// The default. `None`: the key is required. Null: without the key, another key decides, as the description says.
    pub default: Option<Value>,
    /// The words that the value may be, with their meanings. Empty if it is no choice.
    pub choices: Vec<(String, String)>,
    /// The action that a change needs to take effect.
    pub reload: Option<Reload>,
}

impl Key {
    /// The kind of value, unless the default shows it or the words are listed.
    pub fn value_sentence(&self) -> Option<String> {
        let is_plain = ["number", "text", "true or false"].contains(&self.kind.as_str());
        let is_shown = is_plain || !self.choices.is_empty();
        (!is_shown).then(|| format!("Value: {}.", self.kind))
    }

    /// What a change needs, if it needs more than a reload.
    pub fn reload_sentence(&self) -> Option<&'static str> {
        self.reload.and_then(Reload::sentence)
    }
}

/// All sections; nested sections follow the one that contains them.
pub fn sections(schema: &Value) -> Vec<Section> {
    let mut found = Vec::new();
    collect("", false, schema, About::default(), &mut found);
    // The top level of the file has no keys.
    found.retain(|section| !section.name.is_empty());
    // The section that all translators share comes first.
    found.sort_by_key(|section| section.name != "translator");
    found
}

/// The text above the keys of a section.
#[derive(Default)]
struct About {
    text: String,
    reload: Option<Reload>,
}

fn collect(name: &str, repeated: bool, schema: &Value, above: About, found: &mut Vec<Section>) {
    let at = found.len();
    let mut keys = Vec::new();
    for (key, value) in properties(schema).into_iter().flatten() {
        let below = match name {
            "" => key.clone(),
            _ => format!("{name}.{key}"),
        };
        let (optional, value) = (value, present(value));
        let about = match about_of(value) {
            // The type has no description of its own, but the key has one.
            none if none.is_empty() => about_of(optional),
            about => about,
        };
        let about = About {
            text: about,
            reload: Reload::stated(optional).or(above.reload),
        };
        if properties(value).is_some() {
            collect(&below, false, value, about, found);
        } else if let Some(items) = value.get("items").filter(|i| properties(i).is_some()) {
            collect(&below, true, items, about, found);
        } else {
            keys.push(Key {
                name: key.clone(),
                about: about.text,
                reload: about.reload,
                kind: kind(value),
                default: value
                    .get("default")
                    .or(optional.get("default"))
                    .cloned()
                    .or_else(|| (!is_required(schema, key)).then_some(Value::Null)),
                choices: choices(value),
            });
        }
    }
    let section = Section {
        name: name.to_owned(),
        repeated,
        about: above.text,
        keys,
    };
    found.insert(at, section);
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns true if a section cannot be without this key.
fn is_required(section: &Value, key: &str) -> bool {
    let required = section["required"].as_array();
    required.is_some_and(|keys| keys.iter().any(|name| name == key))
}

/// The schema of the value of an optional key.
fn present(schema: &Value) -> &Value {
    let is_null = |one: &&Value| one["type"] != "null";
    match schema["anyOf"].as_array() {
        Some(any) if any.iter().any(|one| !is_null(&one)) => {
            any.iter().find(is_null).unwrap_or(schema)
        }
        _ => schema,
    }
}

/// A doc comment, joined into one line.
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
