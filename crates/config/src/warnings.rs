// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that are allowed but probably a mistake. The program continues with a warning.

use super::objections::Objection;
use super::{AutoValues, Settings};

impl Settings {
    /// The warnings, each with the key and a sentence.
    pub fn warnings(&self) -> Vec<Objection> {
        let mut found = match &self.dns64 {
            Some(_) if self.only_translator => vec![self.dns64_left_out()],
            Some(dns64) => dns64.warnings(),
            None => Vec::new(),
        };
        if self.dns64_alone().is_none() {
            found.extend(self.prefixes_apart());
            let warnings = self.translation(AutoValues::ANYTHING).warnings();
            found.extend(warnings.into_iter().map(|warning| Objection {
                key: self.key(&warning.key),
                message: warning.message,
            }));
        }
        found
    }

    fn dns64_left_out(&self) -> Objection {
        let mode = self.translator.mode.name();
        let message =
            format!("`diolkos {mode}` starts no DNS64: `diolkos dns64 --config FILE` does");
        Objection::new("dns64", message)
    }

    /// Warnings about interfaces that cannot carry packets of the size `lowest_ipv6_mtu`: a sentence for each. `links`: name
    /// and IPv6 MTU in bytes.
    pub fn narrow_links<'a>(&self, links: impl Iterator<Item = (&'a str, u32)>) -> Vec<String> {
        let lowest = self.translator.lowest_ipv6_mtu;
        // An interface below the minimum MTU of IPv6 carries no IPv6 (RFC 8200 section 5).
        let narrow = links.filter(|(_, mtu)| (1280..lowest).contains(mtu));
        narrow
            .map(|(name, mtu)| {
                format!(
                    "translator.lowest_ipv6_mtu: {lowest} is above the MTU of {name}, {mtu}: IPv4 packets that may be \
                     fragmented are lost there if they are longer than {}; set it to {mtu}",
                    mtu - 20
                )
            })
            .collect()
    }
}

/// Writes a warning to the log or, before the log exists, to standard error.
pub fn warn(warning: &str) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::warn!("{warning}"),
        false => eprintln!("diolkos: warning: {warning}"),
    }
}
