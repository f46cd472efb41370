// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manual page diolkos.toml(5): head, sections of the file, tail.

use roff::{bold, italic, roman, Inline, Roff};
use serde_json::Value;

use crate::keys::{Key, Section};

/// The page, in the language of man(7).
pub fn configuration(sections: &[Section], version: &str) -> String {
    let mut page = Roff::new();
    let title = ["diolkos.toml", "5", "", &format!("diolkos {version}")];
    page.control("TH", title);
    heading(&mut page, "NAME");
    page.text([roman("diolkos.toml - configuration of diolkos")]);
    heading(&mut page, "DESCRIPTION");
    for paragraph in HEAD {
        page.control("PP", []);
        page.text(marked(paragraph));
    }
    for section in sections {
        add(&mut page, section);
    }
    heading(&mut page, "EXAMPLE");
    page.text([roman("A NAT64 for one network, and a DNS64 beside it:")]);
    page.control("PP", []).control("EX", []);
    for line in EXAMPLE.lines() {
        page.text([roman(line)]);
    }
    page.control("EE", []);
    heading(&mut page, "FILES");
    page.control("TP", []);
    page.text([italic("/etc/diolkos/NAME.toml")]);
    page.text(marked(
        "The file of the services `diolkos@NAME` and `diolkos-dns64@NAME`.",
    ));
    heading(&mut page, "SEE ALSO");
    page.text(marked(
        "`diolkos`(8), `diolkos-check`(8), `diolkos-run`(8), `diolkos-reload`(8)",
    ));
    page.to_roff()
}

const HEAD: [&str; 3] = [
    "The file says what `diolkos run` does. It is TOML. Every key that has a default may be left out; a key or a section that \
     diolkos does not know is an error.",
    "`diolkos check` FILE reads the file as the program would, reports each mistake with its line and column, and prints \
     every key that is in force. `diolkos reload` has a running translator read the file again, and is refused if a key \
     has changed that needs more than that.",
    "`[section]` stands at most once, `[[section]]` as often as needed. A section of another mode (`[clat]`, `[siit]`, `[nat64]`) is an error. Wherever a \
     network is expected, an address stands for the network of this one address.",
];

const EXAMPLE: &str = r#"[translator]
mode = "nat64"
pref64 = ["64:ff9b::/96"]

[[nat64.pool4]]
address = "192.0.2.0/29"

[dns64]
listen = ["[2001:db8::53]:53"]
upstream = ["198.51.100.53"]"#;

fn add(page: &mut Roff, section: &Section) {
    let brackets = match section.repeated {
        true => ("[[", "]]"),
        false => ("[", "]"),
    };
    heading(
        page,
        &format!("{}{}{}", brackets.0, section.name, brackets.1),
    );
    page.text(marked(&section.about));
    for key in &section.keys {
        add_key(page, key);
    }
}

/// The longest default, in characters, that is printed beside the key; a longer one gets a paragraph of its own.
const SHORT: usize = 40;

fn add_key(page: &mut Roff, key: &Key) {
    page.control("TP", []);
    let default = key.default.as_ref().map(toml);
    let (behind, below) = match default {
        Some(_) if key.default == Some(Value::Null) => (String::new(), String::new()),
        Some(text) if text.len() > SHORT => (String::new(), format!(" Default: {text}.")),
        Some(text) => (format!(" = {text}"), String::new()),
        None => (String::new(), " Required.".to_owned()),
    };
    page.text([bold(key.name.as_str()), roman(behind)]);
    let reload = key.reload_sentence().map(|sentence| format!(" {sentence}"));
    let reload = reload.unwrap_or_default();
    page.text(marked(&format!("{}{below}{reload}", key.about)));
    if let Some(value) = key.value_sentence() {
        page.control("RS", []).control("PP", []);
        page.text([roman(value)]);
        page.control("RE", []);
    }
    if key.choices.is_empty() {
        return;
    }
    // Indents the list below the key.
    page.control("RS", []);
    for (word, about) in &key.choices {
        page.control("TP", []);
        page.text([roman(format!("\"{word}\""))]);
        page.text(marked(about));
    }
    page.control("RE", []);
}

/// A value in TOML. Blanks let a long list break into lines.
pub fn toml(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(toml).collect();
            format!("[{}]", elements.join(", "))
        }
        _ => value.to_string(),
    }
}

/// Begins a section of the page.
pub fn heading(page: &mut Roff, text: &str) {
    page.control("SH", [text]);
}

/// Makes text between backticks bold.
pub fn marked(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let inline = |(at, part): (usize, &str)| match at % 2 {
        0 => roman(part),
        _ => bold(part),
    };
    parts.map(inline).collect()
}
