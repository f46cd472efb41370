// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names for which the operator decides whether AAAA records are synthesised.

use std::collections::HashMap;

use crate::wire::Name;

/// What happens to AAAA questions about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synthesis {
    /// None: the answer of upstream passes unchanged.
    Never,
    /// Synthesised although there are AAAA records: those count only if there is no A record.
    Always,
}

/// Names in wire format and lower case, each with the rule for itself and all names below it.
#[derive(Clone, Debug, Default)]
pub struct NameLists(HashMap<Box<[u8]>, Synthesis>);

impl NameLists {
    /// Prepares the lists. A name must not be in both.
    pub fn new(never: &[Name], always: &[Name]) -> NameLists {
        let listed = |names: &[Name], rule| {
            let keys = names.iter().map(|name| lower(name).into());
            keys.map(|key| (key, rule)).collect::<Vec<_>>()
        };
        let both = [
            listed(never, Synthesis::Never),
            listed(always, Synthesis::Always),
        ];
        NameLists(both.into_iter().flatten().collect())
    }

    /// The rule of the longest listed name that equals this name or is above it.
    pub fn rule(&self, name: &Name) -> Option<Synthesis> {
        if self.0.is_empty() {
            return None;
        }
        let name = lower(name);
        let mut rest = name.as_slice();
        loop {
            if let Some(rule) = self.0.get(rest) {
                return Some(*rule);
            }
            // The next label; the root has length 0 and nothing behind it.
            let length = usize::from(*rest.first()?);
            rest = rest.get(1 + length..)?;
        }
    }
}

/// The name in wire format and lower case. Lengths of labels are below 64, so they do not look like letters.
fn lower(name: &Name) -> Vec<u8> {
    name.as_slice().to_ascii_lowercase()
}

/// The name as text that can stand in a log: without the dot of the root, and every byte that is no letter, digit, `-`, `_` or
/// `*` as `\DDD` (RFC 1035 section 5.1), so that a name can neither end its line nor its field.
pub fn printable(wire: &[u8]) -> String {
    let mut text = String::with_capacity(wire.len());
    let mut rest = wire;
    while let [length, tail @ ..] = rest {
        if *length == 0 {
            break;
        }
        let (label, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label {
            match byte.is_ascii_alphanumeric() || b"-_*".contains(&byte) {
                true => text.push(char::from(byte)),
                false => text.push_str(&format!("\\{byte:03}")),
            }
        }
        rest = tail;
    }
    match text.is_empty() {
        true => ".".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{name, wire_name};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn rule(never: &[&str], always: &[&str], asked: &str) -> Option<Synthesis> {
        let names = |list: &[&str]| list.iter().map(|text| name(text)).collect::<Vec<_>>();
        NameLists::new(&names(never), &names(always)).rule(&name(asked))
    }

    #[test]
    fn the_longest_listed_name_decides() {
        use Synthesis::{Always, Never};
        let rule = |asked| rule(&["example", "b.a.example"], &["A.Example"], asked);
        assert_eq!(rule("example"), Some(Never));
        assert_eq!(rule("x.example"), Some(Never));
        assert_eq!(rule("a.EXAMPLE"), Some(Always));
        assert_eq!(rule("x.a.example"), Some(Always));
        assert_eq!(rule("y.x.b.A.example"), Some(Never));
        assert_eq!(rule("notexample"), None);
        assert_eq!(rule("example.net"), None);
        assert_eq!(rule(""), None);
    }

    #[test]
    fn the_root_stands_for_all_names() {
        assert_eq!(rule(&[""], &[], "a.example"), Some(Synthesis::Never));
        assert_eq!(rule(&[""], &[], ""), Some(Synthesis::Never));
        assert_eq!(
            rule(&[""], &["example"], "a.example"),
            Some(Synthesis::Always)
        );
        assert_eq!(rule(&[], &[], "a.example"), None);
    }

    /// Labels that look like each other's parts: a letter as a length, a label in another one.
    fn labels() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let label = prop_oneof![
            Just(b"a".to_vec()),
            Just(b"A".to_vec()),
            Just(b"\x01a".to_vec()),
            Just(b"aa".to_vec()),
            Just(vec![b'b'; 63]),
            vec(any::<u8>(), 1..3),
        ];
        vec(label, 0..4)
    }

    fn of(labels: &[Vec<u8>]) -> Name {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(label.len() as u8);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        Name::from_octets(wire).expect("a name")
    }

    fn matches(listed: &[Vec<u8>], asked: &[Vec<u8>]) -> bool {
        let tail = asked.len().checked_sub(listed.len()).map(|at| &asked[at..]);
        tail.is_some_and(|tail| {
            let mut pairs = tail.iter().zip(listed);
            pairs.all(|(one, other)| one.eq_ignore_ascii_case(other))
        })
    }

    proptest! {
        /// Compared with a search through all listed names, label by label.
        #[test]
        fn as_a_search_through_all_names(
            never in vec(labels(), 0..6),
            always in vec(labels(), 0..6),
            asked in labels(),
        ) {
            let equal = |one: &[Vec<u8>], other: &[Vec<u8>]| {
                one.len() == other.len() && matches(one, other)
            };
            let always: Vec<_> = always
                .into_iter()
                .filter(|one| !never.iter().any(|other| equal(one, other)))
                .collect();
            let longest = |list: &[Vec<Vec<u8>>]| {
                list.iter().filter(|one| matches(one, &asked)).map(Vec::len).max()
            };
            let expected = match (longest(&never), longest(&always)) {
                (None, None) => None,
                (one, other) if one > other => Some(Synthesis::Never),
                _ => Some(Synthesis::Always),
            };
            let names = |list: &[Vec<Vec<u8>>]| list.iter().map(|one| of(one)).collect::<Vec<_>>();
            let lists = NameLists::new(&names(&never), &names(&always));
            prop_assert_eq!(lists.rule(&of(&asked)), expected);
        }

        /// Whatever the bytes are: one word of plain characters, with its dots between labels only.
        #[test]
        fn no_name_leaves_its_field(labels in vec(vec(any::<u8>(), 1..5), 0..5)) {
            let text = printable(of(&labels).as_slice());
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_*.\\".contains(&b)));
            prop_assert_eq!(text.matches('.').count(), labels.len().saturating_sub(1).max(usize::from(labels.is_empty())));
        }
    }

    #[test]
    fn what_is_not_plain_is_escaped() {
        assert_eq!(printable(&wire_name("www.Example")), "www.Example");
        assert_eq!(
            printable(b"\x0aa b=\n\"\\.\xff\x01\0"),
            "a\\032b\\061\\010\\034\\092\\046\\255\\001"
        );
        assert_eq!(printable(b"\0"), ".");
        // Never beyond the end, whatever the length says.
        assert_eq!(printable(b"\x05ab"), "ab");
    }
}
