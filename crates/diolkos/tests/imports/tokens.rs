// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rust text in pieces: words, path separators, braces. What stands in comments and literals is left out.

/// A piece of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// A name, a keyword or a number.
    Word(String),
    /// `::`
    Colons,
    /// Any other sign.
    Sign(char),
}

/// All pieces, in order.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        match (at(i), at(i + 1)) {
            ('/', '/') => i = skip(&chars, i, |rest| rest[0] == '\n'),
            ('/', '*') => i = after_comment(&chars, i),
            ('"', _) => i = after_string(&chars, i),
            // A lifetime has no quote at its end.
            ('\'', '\\') => i = skip(&chars, i + 3, |rest| rest[0] == '\'') + 1,
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            (':', ':') => {
                found.push(Token::Colons);
                i += 2;
            }
            (c, _) if is_word(c) => {
                let end = skip(&chars, i, |rest| !is_word(rest[0]));
                let word: String = chars[i..end].iter().collect();
                if matches!(word.as_str(), "r" | "br" | "cr") && matches!(at(end), '"' | '#') {
                    i = after_raw(&chars, end);
                    continue;
                }
                found.push(Token::Word(word));
                i = end;
            }
            (c, _) if c.is_whitespace() => i += 1,
            (c, _) => {
                found.push(Token::Sign(c));
                i += 1;
            }
        }
    }
    found
}

/// The first place from `i` on of which it is true, or the end.
fn skip(chars: &[char], i: usize, is_it: impl Fn(&[char]) -> bool) -> usize {
    (i..chars.len())
        .find(|&at| is_it(&chars[at..]))
        .unwrap_or(chars.len())
}

/// Comments may contain comments.
fn after_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        let step = match chars[i..] {
            ['/', '*', ..] => 1,
            ['*', '/', ..] => -1,
            _ => 0,
        };
        depth += step;
        i += 1 + usize::from(step != 0);
        if depth == 0 {
            break;
        }
    }
    i
}

fn after_string(chars: &[char], mut i: usize) -> usize {
    i += 1;
    while i < chars.len() && chars[i] != '"' {
        i += 1 + usize::from(chars[i] == '\\');
    }
    i + 1
}

/// From the `#` or `"` of a raw string on. A raw name has no quote: only its sign is left out.
fn after_raw(chars: &[char], i: usize) -> usize {
    let open = skip(chars, i, |rest| rest[0] != '#');
    if chars.get(open) != Some(&'"') {
        return open;
    }
    let mut end = vec!['"'];
    end.extend(vec!['#'; open - i]);
    skip(chars, open + 1, |rest| rest.starts_with(&end)) + end.len()
}

#[test]
fn comments_and_literals_are_left_out() {
    let text = r##"
        // crate::a
        /* crate::b /* crate::c */ crate::d */
        f("crate::e \" crate::f", r#"crate::g " crate::h"#, b"crate::i", '"', '\'', '\u{22}', 'x');
        fn g<'a>(x: &'a str) {} r#type::z
    "##;
    let words: Vec<String> = tokens(text)
        .into_iter()
        .filter_map(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        })
        .collect();
    assert_eq!(
        words,
        ["f", "b", "fn", "g", "a", "x", "a", "str", "type", "z"]
    );
}
