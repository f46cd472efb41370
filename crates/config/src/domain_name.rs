// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Domain names in files.

use std::fmt;
use std::str::FromStr;

use diolkos_dns64::wire::Name;
use serde::{Deserialize, Serialize};

/// A domain name, which stands for itself and for all names below it. Comparison ignores case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainName(pub Name);

impl FromStr for DomainName {
    type Err = String;

    fn from_str(text: &str) -> Result<DomainName, String> {
        if let Some(rest) = text.strip_prefix("*.") {
            return Err(format!(
                "`{text}` has a wildcard: write `{rest}`, which stands for all names below it, too"
            ));
        }
        match Name::vec_from_str(text) {
            Ok(name) if !text.is_empty() => Ok(DomainName(name)),
            Ok(_) => Err("`` is not a domain name: write `.` for all names".to_owned()),
            Err(why) => Err(format!(
                "`{text}` is not a domain name ({why}): write one such as `internal.example`, and other letters than those of \
                 ASCII as `xn--…`"
            )),
        }
    }
}

impl TryFrom<String> for DomainName {
    type Error = String;

    fn try_from(text: String) -> Result<DomainName, String> {
        text.parse()
    }
}

impl From<DomainName> for String {
    fn from(name: DomainName) -> String {
        name.to_string()
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_root() {
            true => f.write_str("."),
            false => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printed_as_it_is_read() {
        for (text, printed) in [
            ("internal.example", "internal.example"),
            ("Internal.Example.", "Internal.Example"),
            (".", "."),
            ("_dns.xn--bcher-kva.example", "_dns.xn--bcher-kva.example"),
        ] {
            let name: DomainName = text.parse().expect(text);
            assert_eq!(name.to_string(), printed);
            assert_eq!(printed.parse(), Ok(name));
        }
        let (one, other) = ("A.example".parse::<DomainName>(), "a.EXAMPLE".parse());
        assert_eq!(one, other);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "x".repeat(64);
        for (text, said) in [
            (
                "*.example",
                "write `example`, which stands for all names below it, too",
            ),
            ("", "is not a domain name"),
            ("a..example", "is not a domain name"),
            (&long, "is not a domain name"),
            ("bücher.example", "as `xn--…`"),
        ] {
            let error = text.parse::<DomainName>().expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }
}
