// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page docs/configuration.md: head, and a table of keys for each section of the file.

use crate::keys::{Key, Section};
use crate::page::toml;

const HEAD: &str = "\
# Configuration: every key

The file is TOML. `diolkos check FILE` prints it with every key that is in force. A mistake is told with file:line:column, the key
and what to write. A file has the sections of one mode: `[clat]`, `[siit]` and `[nat64]` are refused in a file of another mode.
`[section]` stands at most once, `[[section]]` as often as needed. Wherever a network is expected, an address stands for the network
of this one address. [nat64.toml](examples/nat64.toml), [siit.toml](examples/siit.toml), [clat.toml](examples/clat.toml) and
[dns64.toml](examples/dns64.toml) are short examples.

`diolkos reload` has a running translator read the file again, and `diolkos reload --device dns64` a DNS64. Each refuses the file
if it changes a key that needs more than that, as the table of each section says; the old configuration then stays in force.

This page is made of the types that read the file, as is the manual page diolkos.toml(5): `make reference` writes it.
";

/// The whole page.
pub fn page(sections: &[Section]) -> String {
    let mut page = HEAD.to_owned();
    for section in sections {
        let (open, close) = match section.repeated {
            true => ("[[", "]]"),
            false => ("[", "]"),
        };
        let Section { name, about, .. } = section;
        page += &format!("\n## `{open}{name}{close}`\n\n{about}\n");
        if section.keys.is_empty() {
            continue;
        }
        page += "\n| key | default | meaning |\n|---|---|---|\n";
        for key in &section.keys {
            page += &row(key);
        }
    }
    page
}

fn row(key: &Key) -> String {
    let default = match &key.default {
        Some(serde_json::Value::Null) => String::new(),
        Some(value) => format!("`{}`", toml(value)),
        None => "required".to_owned(),
    };
    let mut meaning = vec![key.about.clone()];
    meaning.extend(key.value_sentence());
    for (word, about) in &key.choices {
        meaning.push(format!("`\"{word}\"`: {about}"));
    }
    meaning.extend(
        key.reload_sentence()
            .map(|sentence| format!("*{sentence}*")),
    );
    let meaning = meaning.join(" ").replace('|', "\\|");
    format!("| `{}` | {default} | {meaning} |\n", key.name)
}
