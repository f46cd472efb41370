// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paths of a file that lead to modules of this crate, from the root of the crate on: those that it imports, in
//! groups, renamed or not, and those that it names where it uses them.

use std::collections::HashMap;

use crate::tokens::{tokens, Token};

/// From the root of the crate on.
pub type Path = Vec<String>;

/// What a file names.
#[derive(Default, Debug)]
pub struct Named {
    /// What it imports, by the name that it has here; `*` is a name.
    pub imports: Vec<(String, Path)>,
    /// What it names in full, or by a name that it has imported.
    pub paths: Vec<Path>,
}

impl Named {
    /// What a text names that is this module.
    pub fn of(text: &str, module: &[String]) -> Named {
        let mut reader = Reader {
            tokens: tokens(text),
            at: 0,
            module: module.to_vec(),
            named: Named::default(),
            short: Vec::new(),
        };
        reader.read();
        let Reader {
            mut named, short, ..
        } = reader;
        let known: HashMap<&String, &Path> = named.imports.iter().map(|(n, p)| (n, p)).collect();
        for path in short {
            if let Some(first) = known.get(&path[0]) {
                named.paths.push([first.as_slice(), &path[1..]].concat());
            }
        }
        named
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        let imports = self.imports.iter().map(|(_, path)| path);
        imports.chain(&self.paths)
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    /// In which module of the file it is.
    module: Path,
    named: Named,
    /// Paths that begin with a name of this file.
    short: Vec<Path>,
}

impl Reader {
    fn read(&mut self) {
        // Inline modules, and how many braces were open before each.
        let (mut depth, mut inline) = (0, Vec::new());
        while let Some(token) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Word(word) if word == "use" => {
                    self.at += 1;
                    self.tree(None);
                    continue;
                }
                Token::Word(word) if word == "mod" && self.sign(2) == Some('{') => {
                    let name = self.word(1).unwrap_or_default();
                    self.module.push(name);
                    inline.push(depth);
                    self.at += 1;
                }
                Token::Word(_) if self.is_path() => {
                    self.path();
                    continue;
                }
                Token::Sign('{') => depth += 1,
                Token::Sign('}') => {
                    depth -= 1;
                    if inline.last() == Some(&depth) {
                        inline.pop();
                        self.module.pop();
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn word(&self, ahead: usize) -> Option<String> {
        match self.tokens.get(self.at + ahead) {
            Some(Token::Word(word)) => Some(word.clone()),
            _ => None,
        }
    }

    fn sign(&self, ahead: usize) -> Option<char> {
        match self.tokens.get(self.at + ahead) {
            Some(Token::Sign(sign)) => Some(*sign),
            _ => None,
        }
    }

    fn is_colons(&self, ahead: usize) -> bool {
        self.tokens.get(self.at + ahead) == Some(&Token::Colons)
    }

    /// A word at which a path begins.
    fn is_path(&self) -> bool {
        let is_later = self.at > 0 && self.tokens[self.at - 1] == Token::Colons;
        self.is_colons(1) && !is_later
    }

    /// A path where it is used.
    fn path(&mut self) {
        let mut words: Vec<String> = self.word(0).into_iter().collect();
        self.at += 1;
        while let (true, Some(word)) = (self.is_colons(0), self.word(1)) {
            words.push(word);
            self.at += 2;
        }
        if matches!(words[0].as_str(), "crate" | "super" | "self") {
            let path = words
                .iter()
                .fold(None, |path, word| Some(self.join(path, word)));
            self.named.paths.extend(path);
        } else {
            self.short.push(words);
        }
    }

    /// What `use` is followed by, or a part of a group.
    fn tree(&mut self, before: Option<Path>) {
        let mut path = before;
        // `::name` is another crate.
        let mut is_ours = !(path.is_none() && self.is_colons(0));
        let mut name = path.as_ref().and_then(|path| path.last().cloned());
        loop {
            if self.is_colons(0) {
                self.at += 1;
            } else if let Some(word) = self.word(0).filter(|word| word != "as") {
                path = Some(self.join(path, &word));
                if word != "self" {
                    name = Some(word);
                }
                self.at += 1;
            } else if self.sign(0) == Some('*') {
                name = Some("*".to_owned());
                self.at += 1;
            } else if self.sign(0) == Some('{') {
                while !matches!(self.sign(0), Some('}') | None) {
                    self.at += 1;
                    if self.sign(0) != Some('}') {
                        let inside = path.clone().filter(|_| is_ours);
                        self.tree(inside);
                    }
                }
                self.at += 1;
                is_ours = false;
            } else {
                break;
            }
        }
        if self.word(0).as_deref() == Some("as") {
            name = self.word(1);
            self.at += 2;
        }
        if let (true, Some(name), Some(path)) = (is_ours, name, path) {
            self.named.imports.push((name, path));
        }
    }

    /// A path and its next word. What begins with no keyword begins in this module: names of other crates seem to be
    /// modules of this one, and there are none.
    fn join(&self, before: Option<Path>, word: &str) -> Path {
        match (before, word) {
            (None, "crate") => Vec::new(),
            (None, "self") => self.module.clone(),
            (None, "super") => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            (None, name) => [self.module.as_slice(), &[name.to_owned()]].concat(),
            (Some(path), "self") => path,
            (Some(mut path), "super") => {
                path.pop();
                path
            }
            (Some(mut path), name) => {
                path.push(name.to_owned());
                path
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text names that is `a::b`, without what is its own.
    fn named(text: &str) -> Vec<String> {
        let module = ["a".to_owned(), "b".to_owned()];
        let mut all: Vec<String> = Named::of(text, &module)
            .all()
            .filter(|path| !path.starts_with(&module))
            .map(|path| path.join("::"))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn plain_imports_are_seen() {
        assert_eq!(named("use crate::a::c::D;"), ["a::c::D"]);
        assert_eq!(named("pub(in crate::a) use crate::c;"), ["a", "c"]);
        assert_eq!(named("use super::c::D;"), ["a::c::D"]);
        assert_eq!(named("use super::super::c::D;"), ["c::D"]);
        assert_eq!(named("use super::c;"), ["a::c"]);
        assert_eq!(named("use crate::a::*;"), ["a"]);
    }

    #[test]
    fn groups_are_seen() {
        assert_eq!(named("use crate::{c, d::E};"), ["c", "d::E"]);
        assert_eq!(
            named("use crate::{\n    a::{c::{D, E}, f},\n    g::{self, H},\n};"),
            ["a::c::D", "a::c::E", "a::f", "g", "g::H"]
        );
        assert_eq!(named("use super::{c::D, super::e};"), ["a::c::D", "e"]);
        assert_eq!(named("use {crate::c, super::d};"), ["a::d", "c"]);
    }

    #[test]
    fn renamed_imports_are_seen() {
        assert_eq!(named("use crate::a::c as d;"), ["a::c"]);
        assert_eq!(named("use crate::a::{c as d, e as _};"), ["a::c", "a::e"]);
        assert_eq!(
            named("use crate::a as d; fn f() { d::c::g() }"),
            ["a", "a::c::g"]
        );
        assert_eq!(
            named("use crate::{a::{self as d}}; type T = d::c::G;"),
            ["a", "a::c::G"]
        );
    }

    #[test]
    fn paths_in_the_text_are_seen() {
        assert_eq!(named("fn f() { crate::c::d::<u8>() }"), ["c::d"]);
        assert_eq!(named("say!(\"{}\", super::c::d());"), ["a::c::d"]);
        assert_eq!(named("struct S(Vec<super::c::D>);"), ["a::c::D"]);
        assert!(named("// use crate::c;\nlet s = \"crate::d\";").is_empty());
        assert!(
            named("use ::c::D; use std::io; ::std::io::read(); pub(super) fn f() {}").is_empty()
        );
    }

    #[test]
    fn inline_modules_have_their_own_super() {
        assert!(named("mod t { use super::*; use super::c; }").is_empty());
        assert_eq!(named("mod t { use super::super::c; }"), ["a::c"]);
        assert_eq!(
            named("mod t { fn f() { if x {} } } use super::c;"),
            ["a::c"]
        );
    }
}
