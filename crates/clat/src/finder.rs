// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation prefix of a CLAT: from the configuration, or from the network.

use diolkos_pref64::{Known, Unusable};
use ipnet::Ipv6Net;

use diolkos_config::{Networks, Settings};
use diolkos_figures::counters::Counter;
use diolkos_figures::prefixes::{self, PrefixRow, PrefixRows};
use diolkos_kernel::net::Link;
use diolkos_resolver::pref64::Search;
use diolkos_service::failure::Failure;

/// Determines the prefix to use.
pub enum Finder {
    /// The configured prefix. It is compared with what the network says, where that is available.
    Fixed(Ipv6Net, Option<Box<Search>>),
    /// The prefix is discovered.
    Search(Box<Search>),
}

impl Finder {
    /// Starts the discovery, if the prefix is not configured.
    pub fn new(settings: &Settings, uplink: &Link) -> Result<Finder, Failure> {
        let prefix = match &settings.translator.pref64 {
            Networks::Auto => None,
            // The configuration of a CLAT has one prefix at most.
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

    /// Returns the prefix to use now, and a description of its source.
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

    /// Excludes a prefix that cannot be used now, so that the choice is another.
    pub fn exclude(&mut self, prefix: Ipv6Net, how: Unusable) {
        if let Finder::Search(search) = self {
            let now = search.now();
            search.discovery.exclude(now, prefix, how);
        }
    }

    /// Notes that there is an address for a prefix.
    pub fn worked(&mut self, prefix: Ipv6Net) {
        if let Finder::Search(search) = self {
            search.discovery.worked(prefix);
        }
    }

    /// Allows excluded prefixes again, because there may be addresses for them now.
    pub fn reconsider(&mut self) {
        if let Finder::Search(search) = self {
            search.discovery.reconsider();
        }
    }

    /// Returns true if a prefix is offered that cannot be used.
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

    /// Returns true if some source still offers this prefix.
    pub fn knows(&self, prefix: Ipv6Net) -> bool {
        match self {
            Finder::Fixed(fixed, _) => *fixed == prefix,
            Finder::Search(search) => {
                let mut known = search.known();
                known.any(|known| known.prefix == prefix)
            }
        }
    }

    /// Returns the configured prefix.
    pub fn fixed(&self) -> Option<Ipv6Net> {
        match self {
            Finder::Fixed(prefix, _) => Some(*prefix),
            Finder::Search(_) => None,
        }
    }

    /// Describes how the network contradicts the configuration. No answer is not a contradiction.
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

    /// Returns the reason why no resolver has given a prefix, if that is so.
    pub fn silence(&self) -> Option<&str> {
        match self {
            Finder::Fixed(..) => None,
            Finder::Search(search) => search.silence(),
        }
    }

    /// Returns true if the prefix may change by itself.
    pub fn is_search(&self) -> bool {
        matches!(self, Finder::Search(_))
    }

    /// Applies other resolvers from the settings. Known prefixes stay.
    pub fn ask_others(&mut self, settings: &Settings) {
        if let Finder::Search(search) | Finder::Fixed(_, Some(search)) = self {
            search.ask_others(&settings.clat.resolvers, settings.clat.v4());
        }
    }

    /// Notes that the node may have come to another network.
    pub fn attached(&mut self) {
        if let Finder::Search(search) | Finder::Fixed(_, Some(search)) = self {
            search.attached();
        }
    }

    /// Notes that the node has additional addresses.
    pub fn look_again(&mut self) {
        if let Finder::Search(search) | Finder::Fixed(_, Some(search)) = self {
            search.look_again();
        }
    }

    /// Does what is due and handles one event; after that, the choice may be another. It is cancel-safe.
    pub async fn step(&mut self) {
        match self {
            Finder::Fixed(_, Some(check)) => check.step().await,
            Finder::Fixed(_, None) => std::future::pending().await,
            Finder::Search(search) => search.step().await,
        }
    }

    /// Returns the known prefixes.
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

    /// Returns the counters by name.
    pub fn counters(&self) -> Vec<Counter> {
        match self {
            Finder::Fixed(..) => Vec::new(),
            Finder::Search(search) => search.counters(),
        }
    }
}
