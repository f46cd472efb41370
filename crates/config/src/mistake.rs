// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains why a text is no configuration: a sentence for people, with the key, the value as written in the file, and a
//! correction.
//!
//! error of the parser ─┬─ no TOML ─► syntax ─────────────────────────► sentence
//!                      └─ TOML ─► place (key, value) ─► wanted (what the schema says of the key) ─► sentence

mod near;
mod place;
mod syntax;
mod wanted;

use std::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::schema;
use near::{listed, meant};
use place::LocatedValue;
use wanted::Wanted;

/// The position of the mistake in the text, in bytes, and a sentence that begins with the key, if there is one.
pub fn explained(text: &str, error: &toml::de::Error) -> (usize, String) {
    let at = error.span().map_or(0, |span| span.start);
    let message = error.message();
    let Ok(document) = DeTable::parse(text) else {
        let (at, sentence) = syntax::sentence(text, at, message);
        return (at, sentence.replace(['\n', '\r'], " "));
    };
    let root = schema();
    let Some(place) = LocatedValue::find(&document, at) else {
        return (at, message.replace('\n', " "));
    };
    let sentence = sentence(text, root.as_value(), &place, message);
    // A quoted key may contain any character.
    (at, sentence.replace(['\n', '\r'], " "))
}

fn sentence(
    text: &str,
    root: &serde_json::Value,
    place: &LocatedValue<'_>,
    message: &str,
) -> String {
    let key = place.key();
    if let Some(section) = wanted::only_one(root, &place.path) {
        return format!("there is only one such section; write {section}, with single brackets");
    }
    if let Some(name) = between(message, "unknown field `") {
        return unknown_key(root, place, name);
    }
    if let Some(name) = between(message, "missing field `") {
        let section = place.section();
        let kind = Wanted::of(root, &place.path_to(name)).kind();
        return format!("{section} needs the key `{name}`: {kind}");
    }
    let wanted = Wanted::of(root, &place.path);
    let literal = place.literal(text);
    if message.starts_with("unknown variant `") || message.starts_with("wanted string or table") {
        return format!("{key}: {}", wanted.none_of(&literal, &place.text()));
    }
    if message.starts_with("invalid type: ")
        || message.starts_with("invalid value: ")
        || message.starts_with("invalid length ")
    {
        return format!("{key}: {}", wanted.refusal(place, &literal));
    }
    if message.starts_with("invalid ") && message.ends_with(" syntax") {
        return format!(
            "{key}: {}",
            address(message, &literal, &place.text(), &wanted)
        );
    }
    // The sentence of the type itself.
    format!("{key}: {}", message.replace('\n', " "))
}

/// The message for an unknown key or section.
fn unknown_key(root: &serde_json::Value, place: &LocatedValue<'_>, name: &str) -> String {
    let parent = place.above(name);
    let known = wanted::keys(root, parent);
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let what = match parent.is_empty() {
        true => match place.value {
            DeValue::Table(_) => format!("there is no section [{name}]"),
            _ => format!("`{name}` is not a section; keys stand below a line such as [translator]"),
        },
        false => format!("{} has no key `{name}`", place::header(parent)),
    };
    if let Some(meant) = meant(name, &names) {
        return match parent.is_empty() {
            true => format!("{what}; did you mean [{meant}]?"),
            false => format!("{what}; did you mean `{meant}`?"),
        };
    }
    let elsewhere = wanted::sections_with(root, name);
    match elsewhere.as_slice() {
        _ if !parent.is_empty() && names.len() <= SHORT_LIST => {
            format!("{what}; its keys are {}", listed(&names, "`", "and"))
        }
        [section] => format!("{what}; it is a key of {section}"),
        _ => format!("{what}; man diolkos.toml(5) lists what there is"),
    }
}

/// The most keys that a sentence lists.
const SHORT_LIST: usize = 8;

/// The message for an invalid address, since the standard library's message does not quote it.
fn address(message: &str, literal: &str, text: &str, wanted: &Wanted) -> String {
    let is_socket = message.contains("socket");
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if is_socket => format!("{literal} has no port; write \"{ip}:PORT\""),
        Ok(IpAddr::V6(ip)) if is_socket => format!("{literal} has no port; write \"[{ip}]:PORT\""),
        _ => {
            let bare = text
                .strip_prefix('[')
                .and_then(|text| text.strip_suffix(']'));
            match bare.and_then(|bare| bare.parse::<IpAddr>().ok()) {
                Some(ip) if is_socket => format!("{literal} has no port; write \"[{ip}]:PORT\""),
                Some(ip) => format!("{literal} is in brackets; write \"{ip}\""),
                None if is_socket => format!(
                    "{literal} is not an address with a port; write it as in \"192.0.2.1:53\" or \"[2001:db8::1]:53\""
                ),
                None => format!("{literal} is not {}", wanted.kind()),
            }
        }
    }
}

/// The text between `before` and the next backtick.
fn between<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    message.strip_prefix(before)?.split('`').next()
}
