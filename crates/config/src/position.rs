// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Positions in a file.

use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// Line and column of a byte, both from 1; columns count characters.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

/// A file in which positions are looked up. It is parsed once, since a large table may have many mistakes.
pub struct Places<'a>(Option<Spanned<DeTable<'a>>>);

impl<'a> Places<'a> {
    /// Parses the text; if it is not TOML, all positions are at the beginning.
    pub fn of(text: &'a str) -> Places<'a> {
        Places(DeTable::parse(text).ok())
    }

    /// The position of the value of a key such as `eam[2].v6`, in bytes; if it is absent, the position of the nearest key above
    /// it.
    pub fn locate(&self, key: &str) -> usize {
        let Some(document) = &self.0 else {
            return 0;
        };
        let mut at = document.span().start;
        let mut value: Option<&DeValue<'_>> = None;
        let root = document.get_ref();

        for step in key.split(['.', '[']) {
            let next = match (value, step.strip_suffix(']')) {
                (None, _) => root.get(step),
                (Some(DeValue::Table(table)), None) => table.get(step),
                (Some(DeValue::Array(array)), Some(index)) => {
                    index.parse().ok().and_then(|i: usize| array.get(i))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            at = next.span().start;
            value = Some(next.get_ref());
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# π\n[translator]\npref64 = [\"64:ff9b::/96\", \"2001:db8::/64\"]\n\n[[eam]]\nv4 = \"a\"\n";

    fn at(key: &str) -> (usize, usize) {
        line_and_column(TEXT, Places::of(TEXT).locate(key))
    }

    #[test]
    fn keys_are_found() {
        assert_eq!(at("translator.pref64[1]"), (3, 27));
        assert_eq!(at("translator.pref64"), (3, 10));
        assert_eq!(at("eam[0].v4"), (6, 6));
    }

    #[test]
    fn an_absent_key_points_at_its_table() {
        assert_eq!(at("translator.device").0, 2);
        assert_eq!(at("eam[0].v6").0, 5);
        assert_eq!(at("clat.v4"), (1, 1));
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(line_and_column("äö=1", 4), (1, 3));
    }
}
