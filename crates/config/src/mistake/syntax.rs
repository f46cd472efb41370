// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains why a text is no TOML. The parser's messages use its grammar; these sentences describe the line.

/// The most characters of a line that a sentence quotes.
const QUOTED: usize = 60;

/// The position of the mistake, in bytes, and a sentence. `at`: the position at which the parser stopped.
pub fn sentence(text: &str, at: usize, message: &str) -> (usize, String) {
    let line = Line::around(text, at);
    match line.lacks_quotation_marks() {
        Some((from, sentence)) => (line.start + from, sentence),
        None => (at, by_message(text, at, message, &line)),
    }
}

/// The beginnings of parser messages, and their replacements.
const SENTENCES: [(&str, &str); 20] = [
    ("unclosed table", HEADER),
    ("unclosed array table", HEADER),
    ("missing table open", HEADER),
    ("unclosed array", "the list has no ] at its end"),
    ("unclosed inline table", "the table has no } at its end"),
    ("missing comma between array", LIST),
    ("extra comma in array", LIST),
    ("unexpected `=` in array", LIST),
    ("missing comma between key", BRACES),
    ("extra comma in inline", BRACES),
    ("missing escaped value", ESCAPE),
    ("too few unicode", ESCAPE),
    (
        "unexpected leading zero",
        "a number has no zero before its other digits",
    ),
    ("redundant numeric sign", "a number has one sign at most"),
    ("integer number overflowed", "the number is too large"),
    (
        "carriage return",
        "a carriage return stands without a line feed; save the file with the line ends of Unix",
    ),
    (
        "cannot extend value",
        "this key has a value already, and cannot be a section as well",
    ),
    ("cannot recurse", "lists and tables are nested too deeply"),
    ("recursion limit", "lists and tables are nested too deeply"),
    (
        "invalid comment character",
        "the comment has a character that TOML does not allow",
    ),
];
const HEADER: &str = "a section begins with its name in brackets, as in [translator], or [[nat64.pool4]] if there may be several";
const LIST: &str = "between two elements of a list stands one comma";
const BRACES: &str = "between two keys of a table in braces stands one comma";
const ESCAPE: &str =
    "in a text in \" marks, \\ begins an escape; write \\\\, or put the text in ' marks";

fn by_message(text: &str, at: usize, message: &str, line: &Line<'_>) -> String {
    let rest = quoted(&text[floor(text, at).min(line.end)..line.end]);
    let whole = quoted(line.text);
    let key = line.key();
    let has = |words: &str| message.starts_with(words);
    if has("duplicate key") {
        return line.stands_twice(text, at);
    }
    if line.is_without_value() {
        return format!("{whole} has no value; write KEY = VALUE");
    }
    let is_at_begin = text[line.start..floor(text, at).max(line.start)]
        .trim()
        .is_empty();
    if key.is_some() && is_at_begin && has("missing comma between array") {
        return format!("a list above {whole} has no ] at its end");
    }
    if has("unexpected key or value") || has("unexpected content") {
        return match line.text.matches('=').count() {
            0 | 1 => format!("{rest} stands behind what is whole already; put # before a comment"),
            _ => format!("{whole} has more than one key; write one on a line"),
        };
    }
    if has("extra `=`") || has("extra assignment") {
        return format!("{whole} has one = too many");
    }
    let found = SENTENCES.iter().find(|(begins, _)| has(begins));
    let why = match found {
        Some((_, sentence)) => (*sentence).to_owned(),
        None if message.contains("escape") => ESCAPE.to_owned(),
        None if key.is_none() => {
            return format!("{whole} is neither a section nor a key with a value; write [SECTION] or KEY = VALUE")
        }
        None if message.contains("string") || has("missing opening quote") => {
            format!("{} is a text without the quotation mark at its end, or has a character that TOML does not allow", quoted(line.value()))
        }
        None => format!(
            "{} is no value; write a number, true, false, a text in quotation marks, or a list in brackets",
            quoted(line.value())
        ),
    };
    match key {
        Some(key) => format!("{key}: {why}"),
        None => why,
    }
}

/// A line of the text.
struct Line<'a> {
    text: &'a str,
    start: usize,
    end: usize,
}

impl<'a> Line<'a> {
    fn around(text: &'a str, at: usize) -> Line<'a> {
        let mut at = floor(text, at);
        // The parser reports an error at the end of a line at the beginning of the next one.
        if at > 0 && text[at..].trim().is_empty() {
            at = floor(text, text[..at].trim_end().len().saturating_sub(1));
        }
        let start = text[..at].rfind('\n').map_or(0, |found| found + 1);
        let end = text[start..]
            .find('\n')
            .map_or(text.len(), |found| start + found);
        Line {
            text: text[start..end].trim_end(),
            start,
            end,
        }
    }

    /// The text before the first `=`, if it can be a key.
    fn key(&self) -> Option<&'a str> {
        let (key, _) = self.text.split_once('=')?;
        let key = key.trim();
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        (!key.is_empty() && key.bytes().all(is_plain)).then_some(key)
    }

    /// The text after the `=`.
    fn value(&self) -> &'a str {
        self.text
            .split_once('=')
            .map_or("", |(_, value)| value.trim())
    }

    /// Returns true if the line has only a name, or nothing after the `=`.
    fn is_without_value(&self) -> bool {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let name = self.text.trim();
        let is_name = !name.is_empty() && name.bytes().all(is_plain);
        is_name
            || (self.key().is_some()
                && self
                    .value()
                    .split('#')
                    .next()
                    .is_none_or(|value| value.trim().is_empty()))
    }

    /// Detects a word or address without quotation marks, which is the most common mistake. Returns its position in the line
    /// and a sentence.
    fn lacks_quotation_marks(&self) -> Option<(usize, String)> {
        let key = self.key()?;
        let value = self.value().split('#').next()?.trim();
        let is_of_word = |b: u8| {
            b.is_ascii_alphanumeric() || matches!(b, b':' | b'.' | b'/' | b'-' | b'_' | b'%')
        };
        let is_word = !value.is_empty()
            && value.bytes().all(is_of_word)
            && value
                .bytes()
                .any(|b| b.is_ascii_alphabetic() || b == b'.' || b == b':');
        let is_toml = toml::de::DeValue::parse(value).is_ok();
        if !is_word || is_toml {
            return None;
        }
        let none = "has no quotation marks";
        let sentence = match value.to_ascii_lowercase().as_str() {
            word @ ("true" | "false") => {
                format!("{key}: {value} is written in small letters; write {key} = {word}")
            }
            "yes" | "on" => format!(
                "{key}: {value} {none}; write {key} = true, or \"{value}\" if a text is meant"
            ),
            "no" | "off" => format!(
                "{key}: {value} {none}; write {key} = false, or \"{value}\" if a text is meant"
            ),
            _ => format!("{key}: {value} {none}; write {key} = \"{value}\""),
        };
        let from = self.text.find('=').map_or(0, |found| found + 1);
        let blanks = self.text[from..].len() - self.text[from..].trim_start().len();
        Some((from + blanks, sentence))
    }

    fn stands_twice(&self, text: &str, at: usize) -> String {
        let line = self.text.trim_start();
        if line.starts_with('[') {
            let name = line.split('#').next().unwrap_or(line).trim_end();
            return format!(
                "the section {name} stands twice; put all its keys below the first one"
            );
        }
        let name = text[floor(text, at)..]
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
            .next();
        format!(
            "the key `{}` stands twice in this section; remove one",
            name.unwrap_or_default()
        )
    }
}

/// The text in backticks, shortened.
fn quoted(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The start of the character at a position.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
