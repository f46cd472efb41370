// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a file with many mappings in pieces.
//!
//! A parsed document takes thirty times the memory of its text, which would be noticeable with a hundred thousand mappings of
//! two addresses each. So runs of `[[eam]]` tables are parsed as separate documents, a bounded number at a time, and everything
//! else as another one: text → pieces → settings.
//!
//! This method returns settings or nothing. If a piece is wrong, or the text is not simple enough, the caller parses the whole
//! text, which gives the message and its place.

use serde::Deserialize;

use super::{Eam, Settings};

/// The most mappings in one piece.
const MANY: usize = 1000;

/// The settings, if `text` has many mappings and no mistake.
pub fn parse(text: &str) -> Option<Settings> {
    // A line inside such a string could look like the header of a table.
    if text.contains("\"\"\"") || text.contains("'''") {
        return None;
    }
    let (rest, others) = split(text);
    if others.is_empty() {
        return None;
    }
    let mut settings: Settings = toml::from_str(&rest).ok()?;
    for piece in others {
        let Mappings { eam } = toml::from_str(piece).ok()?;
        settings.eam.extend(eam);
    }
    Some(settings)
}

/// A text with the same sections, but without most of its mappings.
pub fn without_mappings(text: &str) -> String {
    match text.contains("\"\"\"") || text.contains("'''") {
        true => text.to_owned(),
        false => split(text).0,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mappings {
    eam: Vec<Eam>,
}

/// Takes runs of at most [`MANY`] tables `[[eam]]` out of the text; returns the rest and the runs. The first run stays in the
/// rest, so that a key `eam` of another kind is detected there.
fn split(text: &str) -> (String, Vec<&str>) {
    let mut runs = Vec::new();
    let mut rest = String::new();
    // The start of the current run, and its number of tables.
    let mut run: Option<(usize, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let first = line.trim_start();
        let mapping = first.starts_with("[[eam]]");
        if let Some((start, tables)) = run {
            if first.starts_with('[') && (!mapping || tables == MANY) {
                runs.push(&text[start..at]);
                run = None;
            }
        }
        run = match run {
            Some((start, tables)) => Some((start, tables + usize::from(mapping))),
            None if mapping => Some((at, 1)),
            None => None,
        };
        if run.is_none() || runs.is_empty() {
            rest.push_str(line);
        }
        at += line.len();
    }
    runs.extend(run.map(|(start, _)| &text[start..]));
    if !runs.is_empty() {
        runs.remove(0);
    }
    (rest, runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(mappings: usize) -> String {
        let one = |n| {
            format!(
                "[[eam]] # {n}\nv4 = \"10.0.{}.{}/32\"\nv6 = \"2001:db8::{n:x}/128\"\n\n",
                n / 256,
                n % 256
            )
        };
        (0..mappings).map(one).collect()
    }

    #[test]
    fn in_pieces_is_as_in_one() {
        let head = "[translator]\nmode = \"siit\"\n";
        let tail = "[icmp]\nrate = 7\n";
        let between = "[siit]\nroutes4 = [\n\"10.0.0.0/8\",\n]\n";
        for text in [
            format!("{head}{}{tail}", many(2 * MANY)),
            format!("{head}{}{between}  {}", many(MANY + 1), many(3)),
            format!("{}{head}{between}{}{tail}", many(1), many(MANY)),
        ] {
            let whole: Settings = toml::from_str(&text).expect("it is right");
            assert!(parse(&text) == Some(whole));
        }
    }

    #[test]
    fn few_mappings_are_left_to_others() {
        assert_eq!(parse(""), None);
        assert!(parse(&many(MANY)).is_none());
    }

    #[test]
    fn what_is_wrong_is_left_to_others() {
        let right = many(2 * MANY);
        assert!(parse(&right).is_some());
        for wrong in [
            format!("eam = []\n{right}"),
            format!("eam = [{{ v4 = \"192.0.2.1/32\", v6 = \"2001:db8::1/128\" }}]\n{right}"),
            format!("{right}[eam]\nv4 = \"192.0.2.1/32\"\n"),
            format!("{right}[eam.more]\n"),
            format!("{right}[[eam.v4]]\n"),
            format!("{right}v4 = \"192.0.2.1/32\"\n"),
            format!("{right}v5 = 1\n"),
            format!("{right}[log]\n[log]\n"),
            format!("{right}[[log]]\n"),
            format!("{right}["),
            format!("[siit]\nroutes4 = [\n{right}]\n"),
            format!("[siit]\nroutes4 = [\n{right}[\"10.0.0.0/8\"],\n]\n"),
            format!("[translator]\ndevice = \"\"\"\n{right}\"\"\"\n"),
        ] {
            assert!(parse(&wrong).is_none(), "{}", &wrong[..80]);
        }
    }
}
