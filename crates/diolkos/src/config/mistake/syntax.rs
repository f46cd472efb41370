// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a text is no TOML. The parser says it in words of its grammar; here it is said by what stands on the line.

/// Characters of a line that a sentence quotes.
const QUOTED: usize = 60;

/// A sentence about the byte where the parser gave up.
pub fn sentence(text: &str, at: usize, message: &str) -> String {
    let line = Line::around(text, at);
    if let Some(sentence) = line.lacks_quotation_marks() {
        return sentence;
    }
    let rest = quoted(&text[floor(text, at)..line.end]);
    let whole = quoted(line.text);
    let of_key = match line.key() {
        Some(key) => format!("{key}: "),
        None => String::new(),
    };
    let has = |words: &str| message.starts_with(words);
    if has("duplicate key") {
        return line.stands_twice(text, at);
    }
    let why = if has("unclosed table") || has("unclosed array table") || has("missing table open") {
        "a section begins with its name in brackets, as in [translator], or [[nat64.pool4]] if there may be several".to_owned()
    } else if has("unclosed array") {
        "the list has no ] at its end".to_owned()
    } else if has("unclosed inline table") {
        "the table has no } at its end".to_owned()
    } else if has("key with no value")
        || has("missing value for key")
        || has("missing value")
        || has("missing assignment")
    {
        return format!("{whole} has no value; write KEY = VALUE");
    } else if has("unquoted keys cannot be empty")
        || has("missing key")
        || has("invalid unquoted key")
        || has("invalid key")
    {
        return format!("{whole} has no key that TOML knows; write KEY = VALUE, with letters, digits, _ and - in the key");
    } else if has("missing comma between array")
        || has("extra comma in array")
        || has("unexpected `=` in array")
    {
        "between two elements of a list stands one comma".to_owned()
    } else if has("missing comma between key") || has("extra comma in inline") {
        "between two keys of a table in braces stands one comma".to_owned()
    } else if has("extra `=`") || has("extra assignment") {
        format!("there is one = too many before {rest}")
    } else if has("unexpected key or value") || has("unexpected content") {
        format!("{rest} stands behind the value; write one key on a line, and # before a comment")
    } else if has("missing escaped value") || has("too few unicode") || message.contains("escape") {
        "in a text in \" marks, \\ begins an escape; write \\\\, or put the text in ' marks"
            .to_owned()
    } else if message.contains("string") || has("missing opening quote") {
        format!("the text {rest} has no quotation mark at its end, or a character that TOML does not allow")
    } else if has("unexpected leading zero")
        || has("redundant numeric sign")
        || has("unexpected sign")
    {
        "a number has no zero and no sign before its digits".to_owned()
    } else if message.contains("overflowed") {
        "the number is too large".to_owned()
    } else if has("carriage return") {
        "there is a carriage return without a line feed; save the file with the line ends of Unix"
            .to_owned()
    } else if has("cannot extend value") {
        "this key has a value already, and cannot be a section as well".to_owned()
    } else if has("cannot recurse") || has("recursion limit") {
        "lists and tables are nested too deeply".to_owned()
    } else if has("invalid comment character") {
        "a comment has a character that TOML does not allow".to_owned()
    } else {
        return format!("{of_key}{rest} is no value of TOML; write a number, true, false, a text in quotation marks, or a list in brackets");
    };
    format!("{of_key}{why}")
}

/// A line of the text.
struct Line<'a> {
    text: &'a str,
    end: usize,
}

impl<'a> Line<'a> {
    fn around(text: &'a str, at: usize) -> Line<'a> {
        let mut at = floor(text, at);
        // What is missing at the end of a line is found at the beginning of the next one.
        if at > 0 && text[at..].trim().is_empty() {
            at = floor(text, text[..at].trim_end().len().saturating_sub(1));
        }
        let start = text[..at].rfind('\n').map_or(0, |found| found + 1);
        let end = text[start..]
            .find('\n')
            .map_or(text.len(), |found| start + found);
        Line {
            text: text[start..end].trim_end(),
            end,
        }
    }

    /// What stands before the first `=`, if it is the name of a key.
    fn key(&self) -> Option<&'a str> {
        let (key, _) = self.text.split_once('=')?;
        let key = key.trim();
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        (!key.is_empty() && key.bytes().all(is_plain)).then_some(key)
    }

    /// A word or an address as a value: the most usual mistake.
    fn lacks_quotation_marks(&self) -> Option<String> {
        let key = self.key()?;
        let (_, value) = self.text.split_once('=')?;
        let value = value.split('#').next()?.trim();
        let is_of_word = |b: u8| {
            b.is_ascii_alphanumeric() || matches!(b, b':' | b'.' | b'/' | b'-' | b'_' | b'%')
        };
        let is_word = !value.is_empty()
            && value.bytes().all(is_of_word)
            && value
                .bytes()
                .any(|b| b.is_ascii_alphabetic() || b == b'.' || b == b':');
        let is_toml = toml::de::DeValue::parse(value).is_ok();
        (is_word && !is_toml).then(|| match value.to_ascii_lowercase().as_str() {
            word @ ("true" | "false") => format!("{key}: {value} is written in small letters; write {key} = {word}"),
            "yes" | "on" => format!("{key}: {value} has no quotation marks; write {key} = true, or \"{value}\" if a text is meant"),
            "no" | "off" => format!("{key}: {value} has no quotation marks; write {key} = false, or \"{value}\" if a text is meant"),
            _ => format!("{key}: {value} has no quotation marks; write {key} = \"{value}\""),
        })
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

/// In `marks`, and not too long.
fn quoted(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The beginning of a character, at a byte or before it.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
