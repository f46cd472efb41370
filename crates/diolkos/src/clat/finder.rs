// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation prefix of a CLAT: what the operator says, or what the network says.

use diolkos_pref64::{Known, Unusable};
use ipnet::Ipv6Net;

use crate::pref64::Search;
use diolkos_config::{Networks, Settings};
use diolkos_figures::counters::Counter;
use diolkos_figures::prefixes::{self, PrefixRow, PrefixRows};
use diolkos_kernel::net::Link;
use diolkos_service::failure::Failure;

/// Says which prefix is to be used.
pub enum Finder {
    /// The operator has said it. What the network says is compared with it, where that can be heard.
    Fixed(Ipv6Net, Option<Box<Search>>),
    /// It is looked for.
    Search(Box<Search>),
}

impl Finder {
    /// Begins to look, if it is to be looked for.
    pub fn new(settings: &Settings, uplink: &Link) -> Result<Finder, Failure> {
        let prefix = match &settings.translator.pref64 {
            Networks::Auto => None,
            // Others have no configuration without objections.
            Networks::These(prefixes) => prefixes.first().copied(),
        };
        let resolvers = settings.clat.resolvers.clone();
        if let Some(prefix) = prefix {
            let check = Search::check(uplink, resolvers, settings.clat.v4());
            let check = check.inspect_err(|failure| {
                tracing::debug!(
                    "the configured prefix is not compared with the network's: {failure}"
                );
            });
            return Ok(Finder::Fixed(prefix, check.ok().map(Box::new)));
        }
        let search = Search::new(uplink, resolvers, settings.clat.v4())?;
        Ok(Finder::Search(Box::new(search)))
    }

    /// The prefix that is to be used now, and in words who says so.
    pub fn choice(&mut self) -> Option<(Ipv6Net, String)> {
        match self {
            Finder::Fixed(prefix, _) => Some((*prefix, "the configuration".to_owned())),
            Finder::Search(search) => {
                let known = search.choice()?;
                let left = prefixes::left(&known, search.now());
                let from = prefixes::from(known.source);
                Some((known.prefix, format!("{from}, for {left} s")))
            }
        }
    }

    /// A prefix cannot be used now; then the choice is another.
    pub fn exclude(&mut self, prefix: Ipv6Net, how: Unusable) {
        if let Finder::Search(search) = self {
            let now = search.now();
            search.discovery.exclude(now, prefix, how);
        }
    }

    /// There is an address for a prefix.
    pub fn worked(&mut self, prefix: Ipv6Net) {
        if let Finder::Search(search) = self {
            search.discovery.worked(prefix);
        }
    }

    /// For prefixes that could not be used there may be addresses now.
    pub fn reconsider(&mut self) {
        if let Finder::Search(search) = self {
            search.discovery.reconsider();
        }
    }

    /// Does anybody offer a prefix that cannot be used?
    pub fn is_any_unusable(&self) -> bool {
        match self {
            Finder::Fixed(..) => false,
            Finder::Search(search) => {
                let now = search.now();
                let mut known = search.discovery.known();
                known.any(|known| !search.discovery.admits(now, known.prefix))
            }
        }
    }

    /// Whether somebody still says so of a prefix.
    pub fn knows(&self, prefix: Ipv6Net) -> bool {
        match self {
            Finder::Fixed(fixed, _) => *fixed == prefix,
            Finder::Search(search) => {
                let mut known = search.known();
                known.any(|known| known.prefix == prefix)
            }
        }
    }

    /// The prefix that the operator says.
    pub fn fixed(&self) -> Option<Ipv6Net> {
        match self {
            Finder::Fixed(prefix, _) => Some(*prefix),
            Finder::Search(_) => None,
        }
    }

    /// What the network says against the configuration, in words. Silence says nothing.
    pub fn contradiction(&self) -> Option<String> {
        let Finder::Fixed(prefix, Some(check)) = self else {
            return None;
        };
        if check.known().any(|known| known.prefix == *prefix) {
            return None;
        }
        let known = check.known().next()?;
        Some(format!(
            "the {} says that the translation prefix is {}, and translator.pref64 is {prefix}",
            prefixes::from(known.source),
            known.prefix
        ))
    }

    /// Why no resolver has said a prefix, if that is so.
    pub fn silence(&self) -> Option<&str> {
        match self {
            Finder::Fixed(..) => None,
            Finder::Search(search) => search.silence(),
        }
    }

    /// Does it change by itself?
    pub fn is_search(&self) -> bool {
        matches!(self, Finder::Search(_))
    }

    /// The operator says otherwise who is asked. What is known stays.
    pub fn ask_others(&mut self, settings: &Settings) {
        if let Finder::Search(search) | Finder::Fixed(_, Some(search)) = self {
            search.ask_others(&settings.clat.resolvers, settings.clat.v4());
        }
    }

    /// The node may have come to another network.
    pub fn attached(&mut self) {
        if let Finder::Search(search) | Finder::Fixed(_, Some(search)) = self {
            search.attached();
        }
    }

    /// The node has other addresses beside those it had.
    pub fn look_again(&mut self) {
        if let Finder::Search(search) | Finder::Fixed(_, Some(search)) = self {
            search.look_again();
        }
    }

    /// Does what is to be done and takes in one piece of news; then the choice may be another. May be dropped at any
    /// time and called again.
    pub async fn step(&mut self) {
        match self {
            Finder::Fixed(_, Some(check)) => check.step().await,
            Finder::Fixed(_, None) => std::future::pending().await,
            Finder::Search(search) => search.step().await,
        }
    }

    /// What is known.
    pub fn rows(&self, in_force: Option<Ipv6Net>) -> PrefixRows {
        let learnt = |search: &Search, in_force: Option<Ipv6Net>| -> Vec<PrefixRow> {
            let now = search.now();
            let row = |known: &Known| PrefixRow::learnt(known, now, in_force == Some(known.prefix));
            search.known().map(row).collect()
        };
        let prefixes = match self {
            Finder::Fixed(prefix, check) => {
                let ours = PrefixRow::configured(*prefix, in_force == Some(*prefix));
                let theirs = check.as_ref().map(|check| learnt(check, None));
                [vec![ours], theirs.unwrap_or_default()].concat()
            }
            Finder::Search(search) => learnt(search, in_force),
        };
        PrefixRows { prefixes }
    }

    /// What happened, by name.
    pub fn counters(&self) -> Vec<Counter> {
        match self {
            Finder::Fixed(..) => Vec::new(),
            Finder::Search(search) => search.counters(),
        }
    }
}
