// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation prefix: what the operator says, or what the network says (`diolkos_pref64`).
//!
//! advertisements, replies → discovery → choice; solicitations and questions as it wants them.

mod ask;
mod resolvers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use diolkos_pref64::advertisement::{self, ALL_ROUTERS_MAC};
use diolkos_pref64::{Action, Discovery, Known, Moment, Reply, Unusable};
use diolkos_sys::packet::{DiscoverySocket, Hears};
use futures_util::future::LocalBoxFuture;
use ipnet::Ipv6Net;
use tokio::time::Instant;

use crate::config::{Networks, Resolver, Settings};
use crate::counters::Counter;
use crate::failure::Failure;
use crate::net::{Link, Medium};
use crate::prefixes::{self, PrefixRow, PrefixRows};
use crate::random::random;

use ask::Way;

/// After a socket has failed, because its link is down, it is left alone for so long.
const REST: Duration = Duration::from_secs(1);

/// Says which prefix is to be used.
pub enum Finder {
    /// The operator has said it.
    Fixed(Ipv6Net),
    /// It is looked for.
    Search(Box<Search>),
}

/// A search over an uplink.
pub struct Search {
    discovery: Discovery,
    /// When the choice was looked at last: whatever changes after that is waited for.
    looked: Moment,
    /// Prefixes come and go too often, which was said.
    is_restless: bool,
    begin: Instant,
    uplink: Link,
    given: Vec<Resolver>,
    way: Way,
    socket: DiscoverySocket,
    /// The socket rests until then.
    rests: Option<Instant>,
    asking: Option<LocalBoxFuture<'static, Option<(SocketAddr, Reply)>>>,
    tally: BTreeMap<&'static str, u64>,
    /// What came of the last question.
    last: &'static str,
}

/// Everything that is counted, under `pref64.`.
const COUNTED: [&str; 7] = [
    "solicitations",
    "advertisements",
    "advertisements_refused",
    "questions",
    "revealed",
    "denied",
    "unanswered",
];

impl Finder {
    /// Begins to look, if it is to be looked for.
    pub fn new(settings: &Settings, uplink: &Link) -> Result<Finder, Failure> {
        let prefix = match &settings.translator.pref64 {
            Networks::Auto => None,
            // Others have no configuration without objections.
            Networks::These(prefixes) => prefixes.first().copied(),
        };
        if let Some(prefix) = prefix {
            return Ok(Finder::Fixed(prefix));
        }
        let socket = DiscoverySocket::open(uplink.index, Hears::Routers).map_err(|e| {
            Failure::missing(format!(
                "no packet socket on {}: {e} (CAP_NET_RAW is needed)",
                uplink.name
            ))
        })?;
        Ok(Finder::Search(Box::new(Search {
            discovery: Discovery::new(Moment::ZERO, random()),
            looked: Moment::ZERO,
            is_restless: false,
            begin: Instant::now(),
            uplink: uplink.clone(),
            given: settings.clat.resolvers.clone(),
            way: Way {
                uplink: uplink.name.clone(),
                own: settings.clat.v4,
            },
            socket,
            rests: None,
            asking: None,
            tally: COUNTED.iter().map(|name| (*name, 0)).collect(),
            last: "",
        })))
    }

    /// The prefix that is to be used now, and in words who says so.
    pub fn choice(&mut self) -> Option<(Ipv6Net, String)> {
        match self {
            Finder::Fixed(prefix) => Some((*prefix, "the configuration".to_owned())),
            Finder::Search(search) => {
                let known = search.choice()?;
                let left = prefixes::left(&known, search.looked);
                let from = prefixes::from(known.source);
                Some((known.prefix, format!("{from}, for {left} s")))
            }
        }
    }

    /// A prefix cannot be used now; then the choice is another.
    pub fn pass_over(&mut self, prefix: Ipv6Net, how: Unusable) {
        if let Finder::Search(search) = self {
            let now = search.now();
            search.discovery.pass_over(now, prefix, how);
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
            Finder::Fixed(_) => false,
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
            Finder::Fixed(fixed) => *fixed == prefix,
            Finder::Search(search) => {
                let now = search.now();
                let mut known = search.discovery.known();
                known.any(|known| known.prefix == prefix && known.until > now)
            }
        }
    }

    /// Does it change by itself?
    pub fn is_search(&self) -> bool {
        matches!(self, Finder::Search(_))
    }

    /// The node may have come to another network.
    pub fn attached(&mut self) {
        if let Finder::Search(search) = self {
            let now = search.now();
            search.discovery.attached(now);
        }
    }

    /// The node has other addresses beside those it had.
    pub fn look_again(&mut self) {
        if let Finder::Search(search) = self {
            let now = search.now();
            search.discovery.look_again(now);
        }
    }

    /// Does what is to be done and takes in one piece of news; then the choice may be another. May be dropped at any
    /// time and called again.
    pub async fn step(&mut self) {
        match self {
            Finder::Fixed(_) => std::future::pending().await,
            Finder::Search(search) => search.step().await,
        }
    }

    /// What is known.
    pub fn rows(&self, in_force: Option<Ipv6Net>) -> PrefixRows {
        let prefixes = match self {
            Finder::Fixed(prefix) => {
                vec![PrefixRow::configured(*prefix, in_force == Some(*prefix))]
            }
            Finder::Search(search) => {
                let now = search.now();
                let known = search.discovery.known().filter(|known| known.until > now);
                let row =
                    |known: &Known| PrefixRow::learnt(known, now, in_force == Some(known.prefix));
                known.map(row).collect()
            }
        };
        PrefixRows { prefixes }
    }

    /// What happened, by name.
    pub fn counters(&self) -> Vec<Counter> {
        let Finder::Search(search) = self else {
            return Vec::new();
        };
        let counter = |name: &&'static str| Counter {
            name: format!("pref64.{name}"),
            packets: search.tally[name],
            bytes: None,
        };
        COUNTED.iter().map(counter).collect()
    }
}

impl Search {
    fn now(&self) -> Moment {
        self.begin.elapsed()
    }

    fn count(&mut self, name: &'static str) {
        *self.tally.entry(name).or_default() += 1;
    }

    fn choice(&mut self) -> Option<Known> {
        self.looked = self.now();
        let choice = self.discovery.choice(self.looked);
        let wait = self.discovery.wait();
        // Said once, not at each move.
        if let (Some(wait), false) = (wait, self.is_restless) {
            tracing::warn!(
                "translation prefixes change too often: another one is used only after it has been the best for {} s, \
                 and for longer if that goes on",
                wait.as_secs()
            );
        }
        self.is_restless = wait.is_some();
        choice
    }

    async fn step(&mut self) {
        while let Some(action) = self.discovery.next(self.now()) {
            match action {
                Action::Solicit => self.solicit(),
                Action::Ask => self.ask(),
            }
        }
        let wake = self.discovery.wake(self.looked).map(|at| self.begin + at);
        let rests = self.rests.filter(|until| *until > Instant::now());
        let mut buffer = [0; 1500];
        tokio::select! {
            received = self.socket.receive(&mut buffer), if rests.is_none() => match received {
                Ok((len, _)) => self.heard(&buffer[..len]),
                Err(error) => {
                    tracing::debug!("cannot receive router advertisements now: {error}");
                    self.rests = Some(Instant::now() + REST);
                }
            },
            reply = reply(&mut self.asking) => {
                self.asking = None;
                self.answered(reply);
            }
            () = crate::service::until(wake) => {}
            () = crate::service::until(rests) => {}
        }
    }

    fn solicit(&mut self) {
        let to: &[u8] = match self.uplink.medium {
            Medium::Ethernet => &ALL_ROUTERS_MAC,
            _ => &[],
        };
        match self.socket.send(&advertisement::solicitation(), to) {
            Ok(()) => self.count("solicitations"),
            Err(error) => tracing::debug!("cannot send router solicitations now: {error}"),
        }
    }

    fn ask(&mut self) {
        let resolvers = resolvers::now(&self.given, &self.uplink);
        self.count("questions");
        self.asking = Some(Box::pin(ask::ask(resolvers, self.way.clone())));
    }

    fn heard(&mut self, packet: &[u8]) {
        match advertisement::read(packet) {
            Ok(advertisement) => {
                self.count("advertisements");
                let now = self.now();
                self.discovery.heard(now, &advertisement);
            }
            Err(why) => {
                self.count("advertisements_refused");
                tracing::debug!("rejected a router advertisement: {why}");
            }
        }
    }

    fn answered(&mut self, reply: Option<(SocketAddr, Reply)>) {
        let outcome = match &reply {
            Some((_, Reply::Prefixes(..))) => "revealed",
            Some((_, Reply::Nothing(_))) => "denied",
            Some((_, Reply::Failed(_) | Reply::Truncated)) | None => "unanswered",
        };
        self.count(outcome);
        // Said once, not each time it is asked again.
        if self.last != outcome {
            match &reply {
                Some((from, Reply::Nothing(_))) => {
                    tracing::info!("no translation prefix is known to the resolver {from}");
                }
                None => tracing::info!("no resolver answers; retrying"),
                _ => {}
            }
        }
        self.last = outcome;
        let now = self.now();
        self.discovery.answered(now, reply);
    }
}

/// The reply to the question that is open, or never.
async fn reply(
    asking: &mut Option<LocalBoxFuture<'static, Option<(SocketAddr, Reply)>>>,
) -> Option<(SocketAddr, Reply)> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}
