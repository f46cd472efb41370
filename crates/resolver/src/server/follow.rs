// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the translation prefix of a network: the search on an uplink, which may disappear and come back.
//!
//! links, addresses ─► search (`pref64`) ─► findings ─► the DNS64's rules

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv6Net;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::ResolverError;
use crate::pref64::Search;
use diolkos_config::{Dns64, Resolver, Settings};
use diolkos_control::service::until;
use diolkos_figures::prefixes;
use diolkos_kernel::net::{Event, Link, Net, News};
use diolkos_service::failure::Failure;
use diolkos_service::privilege::{self, NET_RAW};
use diolkos_service::supervise::Watch;

use super::prefix::Findings;

/// Quiet time before a check, since addresses change in groups.
const SETTLE: Duration = Duration::from_millis(200);
/// Time until the next attempt if the uplink exists but no socket can be opened on it.
const RETRY: Duration = Duration::from_secs(5);

/// Follows the prefix.
pub struct Follower {
    net: Net,
    news: News,
    uplink: Link,
    /// The resolvers that are asked for the prefix (RFC 7050): those by plain DNS, as this search asks. The host's own resolvers are not asked: one of them may be this
    /// DNS64, which would confirm the prefix that it has learnt without end.
    upstream: watch::Receiver<Vec<Resolver>>,
    /// The IPv4 address of a CLAT on this host.
    own: Ipv4Addr,
    /// `None` while the uplink is gone.
    search: Option<Search>,
    /// The prefixes of the uplink, which distinguish one network from another.
    prefixes: Vec<Ipv6Net>,
    look_at: Option<Instant>,
    /// The prefix that has been logged.
    told: Option<Ipv6Net>,
}

impl Follower {
    /// Begins to look for the prefix, if the configuration says so.
    pub async fn begin(
        settings: &Settings,
        dns64: &Dns64,
        upstream: watch::Receiver<Vec<Resolver>>,
        watch: &Watch,
    ) -> Result<Option<Follower>, Failure> {
        if !dns64.follows_network() {
            return Ok(None);
        }
        if !privilege::missing(&[NET_RAW]).is_empty() {
            return Err(ResolverError::NoRawSockets.into());
        }
        let (net, news) = Net::connect(watch).await?;
        let uplink = net.link(&dns64.uplink).await?;
        let mut follower = Follower {
            net,
            news,
            uplink: uplink.clone(),
            upstream,
            own: settings.clat.v4(),
            search: None,
            prefixes: Vec::new(),
            look_at: None,
            told: None,
        };
        follower.search_on(uplink).await?;
        Ok(Some(follower))
    }

    /// Reports the findings of the search: at first, and after each step and event.
    pub async fn run(mut self, tell: impl Fn(Findings)) {
        loop {
            tell(self.findings());
            let step = async {
                match &mut self.search {
                    Some(search) => search.step().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = step => {}
                event = self.news.next() => self.handle(event).await,
                () = until(self.look_at) => self.check().await,
                Ok(()) = self.upstream.changed() => {
                    let upstream = self.upstream.borrow_and_update();
                    if let Some(search) = &mut self.search {
                        search.ask_others(&upstream, self.own);
                        // Of those that the configuration has no more, the operator may have reason to believe nothing.
                        search.discovery.believe_only(|from| upstream.iter().any(|one| one.0 == from));
                    }
                }
            }
        }
    }

    fn findings(&mut self) -> Findings {
        let mut findings = Findings::default();
        if let Some(search) = &mut self.search {
            let choice = search.choice();
            let begin = Instant::now() - search.now();
            findings = Findings {
                choice: choice.map(|known| (known.prefix, begin + known.until)),
                known: search.known().copied().collect(),
                begin: Some(begin),
                counters: search.counters(),
            };
            if let Some(known) = choice.filter(|known| Some(known.prefix) != self.told) {
                tracing::info!(
                    "translation prefix {} from {}, for {} s: AAAA records are synthesised in it",
                    known.prefix,
                    prefixes::from(known.source),
                    prefixes::left(&known, search.now())
                );
            }
        }
        let prefix = findings.choice.map(|(prefix, _)| prefix);
        if prefix.is_none() && self.told.is_some() {
            tracing::warn!(
                "no translation prefix is known any more: answers are forwarded unchanged until there is one"
            );
        }
        self.told = prefix;
        findings
    }

    async fn handle(&mut self, event: Event) {
        match event {
            Event::LinkGone(index) if index == self.uplink.index && self.search.is_some() => {
                tracing::warn!(
                    "the uplink {} is gone: waiting until it is back",
                    self.uplink.name
                );
                self.search = None;
            }
            Event::LinkChanged(link)
                if link.index == self.uplink.index && self.search.is_some() =>
            {
                let came_up = link.running && !self.uplink.running;
                self.uplink = link;
                if let (true, Some(search)) = (came_up, &mut self.search) {
                    search.attached();
                }
            }
            Event::LinkChanged(link) if link.name == self.uplink.name && self.search.is_none() => {
                self.try_on(link).await;
            }
            Event::AddressesChanged => {
                self.look_at.get_or_insert(Instant::now() + SETTLE);
            }
            _ => {}
        }
    }

    /// Checks whether the uplink is still in the same network, or is back if it was gone.
    async fn check(&mut self) {
        self.look_at = None;
        let looked = match &mut self.search {
            None => match self.net.link(&self.uplink.name).await {
                Ok(link) => return self.try_on(link).await,
                // A link event arrives when it is back.
                Err(_) => return,
            },
            Some(_) => self.net.global_prefixes(self.uplink.index).await,
        };
        let (Ok(now), Some(search)) = (looked, &mut self.search) else {
            return;
        };
        let before = std::mem::replace(&mut self.prefixes, now);
        let now = &self.prefixes;
        if !before.is_empty() && !before.iter().any(|prefix| now.contains(prefix)) {
            search.attached();
        } else if before != *now {
            search.look_again();
        }
    }

    async fn try_on(&mut self, link: Link) {
        let name = link.name.clone();
        if let Err(failure) = self.search_on(link).await {
            tracing::warn!("cannot look for the prefix on {name} now: {failure}");
            self.look_at = Some(Instant::now() + RETRY);
        }
    }

    async fn search_on(&mut self, link: Link) -> Result<(), Failure> {
        self.prefixes = self.net.global_prefixes(link.index).await?;
        let upstream = self.upstream.borrow_and_update().clone();
        self.search = Some(Search::of_dns64(&link, upstream, self.own)?);
        tracing::info!(
            "waiting for a translation prefix: soliciting routers on {} (RFC 8781), asking upstream (RFC 7050); until then \
             answers are forwarded unchanged",
            link.name
        );
        self.uplink = link;
        Ok(())
    }
}

/// The resolvers that the search may ask.
pub fn plain(dns64: &Dns64) -> Vec<Resolver> {
    let plain = dns64.upstream.iter().filter(|one| one.tls.is_none());
    plain.map(|one| Resolver(one.address)).collect()
}
