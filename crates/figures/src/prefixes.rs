// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation prefixes for operators.

use diolkos_pref64::{Known, Moment, Source};
use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

/// All known prefixes, in the order of preference of their sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrefixRows {
    /// One row for each prefix and source.
    pub prefixes: Vec<PrefixRow>,
}

/// A prefix and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrefixRow {
    prefix: Ipv6Net,
    /// `configuration`, `router` (RFC 8781) or `resolver` (RFC 7050).
    source: String,
    /// Address of the router or resolver.
    from: Option<String>,
    /// The remaining lifetime, seconds, unless it is renewed before; `None`: without end.
    expires_in_s: Option<u64>,
    /// Packets are translated with it.
    in_force: bool,
}

impl PrefixRow {
    /// A prefix of the configuration.
    pub fn configured(prefix: Ipv6Net, in_force: bool) -> PrefixRow {
        PrefixRow {
            prefix,
            source: "configuration".to_owned(),
            from: None,
            expires_in_s: None,
            in_force,
        }
    }

    /// A prefix that was discovered.
    pub fn learnt(known: &Known, now: Moment, in_force: bool) -> PrefixRow {
        let (source, from) = match known.source {
            Source::Router(router) => ("router", router.to_string()),
            Source::Resolver(resolver) => ("resolver", resolver.to_string()),
        };
        PrefixRow {
            prefix: known.prefix,
            source: source.to_owned(),
            from: Some(from),
            expires_in_s: Some(left(known, now)),
            in_force,
        }
    }
}

/// The remaining lifetime, seconds.
pub fn left(known: &Known, now: Moment) -> u64 {
    known.until.saturating_sub(now).as_secs_f64().round() as u64
}

/// The source of a prefix, for the log.
pub fn from(source: Source) -> String {
    match source {
        Source::Router(router) => format!("router {router} (RFC 8781)"),
        Source::Resolver(resolver) => format!("resolver {resolver} (RFC 7050)"),
    }
}

impl PrefixRows {
    /// The prefixes as a table for people.
    pub fn table(&self) -> String {
        let mut text = format!("{:24} {:44} {:>10}\n", "prefix", "from", "lifetime");
        for row in &self.prefixes {
            let from = row.from.as_deref().unwrap_or_default();
            let from = format!("{} {from}", row.source);
            let lifetime = row
                .expires_in_s
                .map_or("-".to_owned(), |s| format!("{s} s"));
            let in_force = if row.in_force { "in force" } else { "" };
            let prefix = row.prefix.to_string();
            text += format!("{prefix:24} {from:44} {lifetime:>10}  {in_force}").trim_end();
            text.push('\n');
        }
        text
    }
}
