// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of the keys of `[dns64]` about names, the query log, and resolvers asked by TLS.

use std::path::Path;

use super::domain_name::DomainName;
use super::{Dns64, Upstream};

/// The names that a DNS64 answers itself, so that hosts find the prefix (RFC 8880).
const IPV4ONLY: &str = "ipv4only.arpa";
/// The most lines of the query log in a second.
const MOST_LINES: u32 = 10_000;

impl Dns64 {
    /// The rules of this file that the section breaks: the key, and what is wrong.
    pub(super) fn object_to_names(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let special: Option<DomainName> = IPV4ONLY.parse().ok();
        let lists = [
            ("never_synthesize", &self.never_synthesize, "", &[][..]),
            (
                "always_synthesize",
                &self.always_synthesize,
                "never_synthesize",
                &self.never_synthesize[..],
            ),
        ];
        for (key, names, other, others) in lists {
            for (at, name) in names.iter().enumerate() {
                let mut object = |message| found.push((format!("{key}[{at}]"), message));
                if names[..at].contains(name) {
                    object(format!("{name} is listed twice"));
                } else if others.contains(name) {
                    object(format!(
                        "{name} is in dns64.{other}, too: remove it from one of them"
                    ));
                }
                if special
                    .as_ref()
                    .is_some_and(|special| name.0.ends_with(&special.0))
                {
                    object(format!(
                        "a DNS64 answers {IPV4ONLY} itself, so that hosts find the prefix (RFC 8880): remove {name}"
                    ));
                }
            }
        }
        let lines = self.query_log_rate;
        if !(1..=MOST_LINES).contains(&lines) {
            let message = format!("{lines} is not between 1 and {MOST_LINES}");
            found.push(("query_log_rate".to_owned(), message));
        }
        if !self.upstream_ca.is_absolute() {
            let path = &self.upstream_ca;
            found.push((
                "upstream_ca".to_owned(),
                format!("{path:?} is not the absolute path of a file"),
            ));
        }
        found
    }

    /// Settings of this file that are allowed but probably a mistake.
    pub(super) fn warn_of_tls(&self) -> Option<(String, String)> {
        let asked = self.upstream.iter().any(|upstream| upstream.tls.is_none());
        (self.follows_network() && !asked && !self.upstream.is_empty()).then(|| {
            let message = "with pref64 = \"auto\", resolvers asked by TLS are not asked for the prefix (RFC 7050): it comes from \
                           router advertisements alone";
            ("upstream".to_owned(), message.to_owned())
        })
    }

    /// The authorities that sign the certificates of resolvers, if one is asked by TLS.
    pub fn authorities(&self) -> Option<&Path> {
        let is_tls = |upstream: &Upstream| upstream.tls.is_some();
        self.upstream
            .iter()
            .any(is_tls)
            .then_some(&*self.upstream_ca)
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// What `check` says of a section with these keys.
    fn said(keys: &str) -> String {
        let text = format!("[dns64]\nupstream = [\"192.0.2.53\"]\n{keys}\n");
        match parse(&text, "x.toml", |_| ()) {
            Ok(settings) => {
                let warnings = settings.warnings();
                let warnings: Vec<String> = warnings.into_iter().map(|one| one.message).collect();
                warnings.join("\n")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_name_has_one_rule() {
        let both =
            "never_synthesize = [\"example\"]\nalways_synthesize = [\"A.example\", \"Example.\"]";
        assert_eq!(
            said(both),
            "x.toml:4:35: dns64.always_synthesize[1]: Example is in dns64.never_synthesize, too: remove it from one of them"
        );
        let twice = "never_synthesize = [\"a.example\", \"A.example.\"]";
        assert!(said(twice).contains("never_synthesize[1]: A.example is listed twice"));
        let deeper = "never_synthesize = [\".\"]\nalways_synthesize = [\"a.example\"]";
        assert_eq!(said(deeper), "");
    }

    #[test]
    fn the_name_of_the_prefix_has_none() {
        for name in ["ipv4only.arpa", "x.IPv4only.arpa"] {
            let keys = format!("always_synthesize = [\"{name}\"]");
            assert!(
                said(&keys).contains("a DNS64 answers ipv4only.arpa itself"),
                "{}",
                said(&keys)
            );
        }
        assert_eq!(said("never_synthesize = [\"arpa\"]"), "");
    }

    #[test]
    fn numbers_and_paths_have_their_bounds() {
        assert!(said("query_log_rate = 0").contains("0 is not between 1 and 10000"));
        assert!(said("query_log = \"some\"").contains("query_log"));
        assert!(said("upstream_ca = \"ca.pem\"").contains("is not the absolute path of a file"));
    }

    #[test]
    fn the_prefix_is_not_asked_for_by_tls() {
        let text = |upstream: &str| {
            format!("[dns64]\nupstream = [{upstream}]\npref64 = \"auto\"\nuplink = \"eth0\"\n")
        };
        let warns = |upstream: &str| {
            let settings = parse(&text(upstream), "x.toml", |_| ()).expect("a configuration");
            !settings.warnings().is_empty()
        };
        assert!(warns("\"tls://192.0.2.53#dns.example\""));
        assert!(!warns("\"tls://192.0.2.53#dns.example\", \"192.0.2.53\""));
    }
}
