// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of iptables-legacy (`x_tables`). The kernel makes one when somebody uses it for the first time, and does not say when.

use std::fmt;
use std::fs;
use std::io;

/// Each lists the tables of a family in this network namespace, one a line; only root may read it.
const NAMES: [(&str, &str); 2] = [
    ("IPv4", "/proc/thread-self/net/ip_tables_names"),
    ("IPv6", "/proc/thread-self/net/ip6_tables_names"),
];

/// The tables that exist. Whether they contain rules is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyTables {
    /// The names, with their families, in words.
    names: Vec<String>,
}

impl LegacyTables {
    /// Reads them. An error means that there may be some.
    pub fn now() -> io::Result<LegacyTables> {
        let mut names = Vec::new();
        for (family, path) in NAMES {
            let listed = match fs::read_to_string(path) {
                Ok(listed) => listed,
                // The kernel has no tables of this family.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            names.extend(listed.lines().map(|name| format!("{name} of {family}")));
        }
        Ok(LegacyTables { names })
    }

    /// Returns true if there is a table.
    pub fn are_some(&self) -> bool {
        !self.names.is_empty()
    }
}

impl fmt::Display for LegacyTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iptables-legacy has tables ({})", self.names.join(", "))
    }
}
