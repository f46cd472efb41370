// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search for the network's translation prefix (`diolkos_pref64`), for a CLAT and for a DNS64.
//!
//! advertisements, replies → discovery → choice; discovery → solicitations and questions

mod ask;
mod resolvers;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use diolkos_pref64::advertisement::{self, ALL_ROUTERS_MAC};
use diolkos_pref64::{Action, Discovery, Known, Moment, Reply};
use diolkos_sys::packet::{DiscoverySocket, Hears};
use futures_util::future::LocalBoxFuture;
use tokio::time::Instant;

use crate::error::ResolverError;
use diolkos_config::Resolver;
use diolkos_figures::counters::Counter;
use diolkos_kernel::net::{Link, Medium};
use diolkos_service::random::random;

use ask::Way;

/// A socket that has failed, because its link is down, is not used for this time.
const REST: Duration = Duration::from_secs(1);

/// A search over an uplink.
pub struct Search {
    /// The findings.
    pub discovery: Discovery,
    /// The time at which the choice was last read. [`Search::step`] waits for changes after it.
    looked: Moment,
    /// The prefixes change too often, which has been logged.
    is_restless: bool,
    begin: Instant,
    uplink: Link,
    given: Vec<Resolver>,
    /// No resolver of the host is asked where none is given.
    only_given: bool,
    way: Way,
    socket: DiscoverySocket,
    /// The socket is not used until this time.
    rests: Option<Instant>,
    asking: Option<LocalBoxFuture<'static, Result<(SocketAddr, Reply), String>>>,
    tally: BTreeMap<&'static str, u64>,
    /// The result of the last question, as it was logged.
    last: String,
    /// The reason why the last question had no answer; `None` if it had one.
    silence: Option<String>,
    /// The search only checks the configuration, so its results are not logged.
    is_check: bool,
}

/// The names of all counters, under `pref64.`.
const COUNTED: [&str; 7] = [
    "solicitations",
    "advertisements",
    "advertisements_refused",
    "questions",
    "revealed",
    "denied",
    "unanswered",
];

impl Search {
    /// Begins a search. It asks the resolvers `given`, or without any the resolvers of the host. `own` is the IPv4 address of a
    /// CLAT on this host: no resolver is asked through it.
    pub fn new(
        uplink: &Link,
        given: Vec<Resolver>,
        own: Ipv4Addr,
    ) -> Result<Search, ResolverError> {
        let socket = DiscoverySocket::open(uplink.index, Hears::Routers).map_err(|source| {
            ResolverError::PacketSocket {
                name: uplink.name.clone(),
                source,
            }
        })?;
        Ok(Search {
            discovery: Discovery::new(Moment::ZERO, random()),
            looked: Moment::ZERO,
            is_restless: false,
            begin: Instant::now(),
            uplink: uplink.clone(),
            given,
            only_given: false,
            way: Way {
                uplink: uplink.name.clone(),
                own,
            },
            socket,
            rests: None,
            asking: None,
            tally: COUNTED.iter().map(|name| (*name, 0)).collect(),
            last: String::new(),
            silence: None,
            is_check: false,
        })
    }

    /// A search that never asks the resolvers of the host: one of them may be the DNS64 that searches.
    pub fn of_dns64(
        uplink: &Link,
        given: Vec<Resolver>,
        own: Ipv4Addr,
    ) -> Result<Search, ResolverError> {
        let mut search = Search::new(uplink, given, own)?;
        search.only_given = true;
        Ok(search)
    }

    /// A search whose result is compared with the configuration.
    pub fn check(
        uplink: &Link,
        given: Vec<Resolver>,
        own: Ipv4Addr,
    ) -> Result<Search, ResolverError> {
        let mut search = Search::new(uplink, given, own)?;
        search.is_check = true;
        Ok(search)
    }

    /// The reason why the resolvers have not answered, if they have not.
    pub fn silence(&self) -> Option<&str> {
        self.silence.as_deref()
    }

    /// Changes the resolvers and the CLAT's address, with the meanings of [`Search::new`]. The known prefixes stay.
    pub fn ask_others(&mut self, given: &[Resolver], own: Ipv4Addr) {
        self.way.own = own;
        if self.given != given {
            self.given = given.to_vec();
            self.asking = None;
            let now = self.now();
            self.discovery.look_again(now);
        }
    }

    /// The current time, as [`Discovery`] counts it.
    pub fn now(&self) -> Moment {
        self.begin.elapsed()
    }

    /// The prefix in force now.
    pub fn choice(&mut self) -> Option<Known> {
        self.looked = self.now();
        let choice = self.discovery.choice(self.looked);
        let wait = self.discovery.wait();
        // Logged once, not at each change.
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

    /// All prefixes that are known now.
    pub fn known(&self) -> impl Iterator<Item = &Known> {
        let now = self.now();
        self.discovery
            .known()
            .filter(move |known| known.until > now)
    }

    /// Records that the node may have moved to another network.
    pub fn attached(&mut self) {
        self.discovery.attached(self.now());
    }

    /// Records that the node has got further addresses.
    pub fn look_again(&mut self) {
        self.discovery.look_again(self.now());
    }

    /// The counters, by name.
    pub fn counters(&self) -> Vec<Counter> {
        let counter = |name: &&'static str| Counter {
            name: format!("pref64.{name}"),
            packets: self.tally[name],
            bytes: None,
        };
        COUNTED.iter().map(counter).collect()
    }

    /// Does the work that is due and handles one event; the choice may be different afterwards. May be dropped at any time and
    /// called again.
    pub async fn step(&mut self) {
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
            // `choice`, which drops expired prefixes, is not called for a check: without this, an expired prefix would be due
            // without end.
            () = diolkos_control::service::until(wake) => if self.is_check {
                self.looked = self.now();
                self.discovery.choice(self.looked);
            },
            () = diolkos_control::service::until(rests) => {}
        }
    }

    fn count(&mut self, name: &'static str) {
        *self.tally.entry(name).or_default() += 1;
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
        let resolvers = match self.only_given && self.given.is_empty() {
            true => Vec::new(),
            false => resolvers::now(&self.given, &self.uplink),
        };
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

    fn answered(&mut self, reply: Result<(SocketAddr, Reply), String>) {
        let (outcome, said) = match &reply {
            Ok((_, Reply::Prefixes(..))) => ("revealed", String::new()),
            Ok((from, Reply::Nothing(_))) => (
                "denied",
                format!("no translation prefix is known to the resolver {from}"),
            ),
            Ok((_, Reply::Failed(_) | Reply::Truncated)) => ("unanswered", String::new()),
            Err(why) => ("unanswered", format!("{why}; retrying")),
        };
        self.count(outcome);
        // Logged once, not each time that the question is repeated.
        if self.last != said && !said.is_empty() && !self.is_check {
            tracing::info!("{said}");
        }
        self.last = said;
        self.silence = reply.as_ref().err().cloned();
        let now = self.now();
        self.discovery.answered(now, reply.ok());
    }
}

/// Waits for the reply to the question that is under way; without one, waits without end.
async fn reply(
    asking: &mut Option<LocalBoxFuture<'static, Result<(SocketAddr, Reply), String>>>,
) -> Result<(SocketAddr, Reply), String> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}
