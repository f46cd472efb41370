// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers with a noun that agrees with them, for messages.

use std::fmt::{self, Display};

/// A number of things, written "1 session", "2 sessions", "0 sessions".
pub struct Counted<'a> {
    number: u64,
    noun: &'a str,
}

/// A number with its noun; the noun is given in the singular and has a regular plural.
pub fn counted(number: impl TryInto<u64>, noun: &str) -> Counted<'_> {
    // A usize always fits, and no machine has more of anything.
    let number = number.try_into().unwrap_or(u64::MAX);
    Counted { number, noun }
}

/// The verb that agrees with a number: "is" or "are", "has" or "have".
pub fn agreeing<'a>(number: impl TryInto<u64>, singular: &'a str, plural: &'a str) -> &'a str {
    match number.try_into() {
        Ok(1) => singular,
        _ => plural,
    }
}

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = agreeing(self.number, "", "s");
        write!(f, "{} {}{plural}", self.number, self.noun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let told = [0u32, 1, 2, 21].map(|n| {
            let are = agreeing(n, "is", "are");
            format!("{} {are}", counted(n, "port block"))
        });
        assert_eq!(
            told,
            [
                "0 port blocks are",
                "1 port block is",
                "2 port blocks are",
                "21 port blocks are"
            ]
        );
    }
}
