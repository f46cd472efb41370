// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Suggestions for misspelt names, and lists of valid names.

use strsim::damerau_levenshtein;

/// The known name that is nearest to `name`, if it is near enough.
pub fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |other: &&str| damerau_levenshtein(&name.to_lowercase(), other);
    let nearest = known.iter().copied().min_by_key(distance)?;
    let may = 1 + name.len().min(nearest.len()) / 4;
    (distance(&nearest) <= may).then_some(nearest)
}

/// Joins names as in "`a`, `b` and `c`".
pub fn listed(names: &[&str], mark: &str, last: &str) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("{mark}{name}{mark}"))
        .collect();
    match quoted.split_last() {
        None => "none".to_owned(),
        Some((only, [])) => only.clone(),
        Some((end, before)) => format!("{} {last} {end}", before.join(", ")),
    }
}
