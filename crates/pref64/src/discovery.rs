// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracks the known prefixes and their lifetimes, and schedules the next queries.
//!
//! Events (advertisement, answer, link up) update the known prefixes; the choice follows from them. The next action is
//! scheduled separately.
//!
//! Prefixes from routers take precedence over those from resolvers (RFC 8781 section 5.1). No resolver is queried while
//! a router prefix is usable and recently confirmed. A router prefix that is no longer confirmed ranks below those from
//! resolvers.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::advertisement::Advertisement;
use crate::damping::Damping;
use crate::known::{Known, Moment, Source};
use crate::offers::Offers;
use crate::preference;
use crate::synthesis::Reply;
use crate::unusable::{Unusable, UnusablePrefixes};

// Constants of the specifications.

/// MAX_RTR_SOLICITATIONS (RFC 4861 section 10).
const SOLICITATIONS: u32 = 3;
/// RTR_SOLICITATION_INTERVAL (RFC 4861 section 10).
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
/// Time before the end of a lifetime at which the prefix is queried again (RFC 7050 section 3).
const EARLY: Duration = Duration::from_secs(10);

// Constants of this implementation.

/// At startup, an answer from a resolver waits this long for a router. Routers answer a solicitation within half a
/// second (RFC 4861 section 6.2.6), and their prefixes take precedence.
const HOLD: Duration = Duration::from_secs(1);
/// Remaining lifetime of known prefixes after the link comes up again, because it may be another network: the time of
/// all solicitations, with a margin.
const DOUBT: Duration = Duration::from_secs(15);
/// Minimum lifetime of an answer in seconds, regardless of its TTL, so that no peer can force endless queries.
const LEAST_TTL: u32 = 30;
/// Maximum lifetime of an answer in seconds.
const MOST_TTL: u32 = 86_400;
/// Bounds in seconds of the wait after a negative answer, although RFC 7050 section 3 has nodes wait for its TTL.
const DENIAL: (u32, u32) = (60, 900);
/// Wait after a query without an answer. It doubles with each failure, …
const RETRY: Duration = Duration::from_secs(1);
/// … at most this many times.
const DOUBLINGS: u32 = 6;

/// The next action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a router solicitation.
    Solicit,
    /// Query ipv4only.arpa, and discard an earlier open query.
    Ask,
}

/// The discovery state of one network.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The prefixes that routers offer.
    offers: Offers,
    /// The prefixes from a resolver, in the order of its answer.
    answer: Vec<Known>,
    /// The known prefixes that cannot be used.
    unusable: UnusablePrefixes,
    damping: Damping,
    chosen: Option<Ipv6Net>,
    /// Answers do not count before this time, unless a router has been heard.
    hold: Moment,
    solicitations_left: u32,
    solicit_at: Moment,
    /// The time of the next query. None while a query is open.
    ask_at: Option<Moment>,
    /// Earliest time of the next query; advertisements do not bring it forward further.
    ask_after: Moment,
    failures: u32,
    /// The time of the next solicitations, because the offers of routers are about to expire.
    renew_at: Option<Moment>,
    random: u64,
}

impl Discovery {
    /// Starts without known prefixes; both solicitation and query are due. `seed` randomises the time of later queries,
    /// so that the nodes of a network do not query at the same time.
    pub fn new(now: Moment, seed: u64) -> Discovery {
        Discovery {
            offers: Offers::default(),
            answer: Vec::new(),
            unusable: UnusablePrefixes::default(),
            damping: Damping::default(),
            chosen: None,
            hold: now + HOLD,
            solicitations_left: SOLICITATIONS,
            solicit_at: now,
            ask_at: Some(now),
            ask_after: now,
            failures: 0,
            renew_at: None,
            random: seed,
        }
    }

    /// Handles an advertisement. It changes the offers of its router only.
    pub fn heard(&mut self, now: Moment, advertisement: &Advertisement) {
        self.forget(now);
        self.hold = now;
        let had = self.is_offered(now);
        self.offers.hear(now, advertisement, self.chosen);
        let mut said = advertisement.pref64.iter();
        if said.any(|(prefix, lifetime)| !lifetime.is_zero() && self.unusable.admits(now, *prefix))
        {
            // An advertisement without a usable prefix may come from another router than the wanted one, or be forged.
            self.solicitations_left = 0;
            self.renew_at = Some(Moment::MAX);
        }
        self.renew_in_time(now);
        if had && !self.is_offered(now) {
            self.ask_soon(now);
        }
    }

    /// Marks a prefix as unusable. Starts a new search if no other prefix is offered.
    pub fn exclude(&mut self, now: Moment, prefix: Ipv6Net, how: Unusable) {
        let had = self.is_offered(now);
        self.unusable.exclude(now, prefix, how);
        self.renew_in_time(now);
        if had && !self.is_offered(now) {
            self.solicit(now);
            if self.answer.is_empty() {
                self.ask_soon(now);
            }
        }
    }

    /// Records that a prefix works.
    pub fn worked(&mut self, prefix: Ipv6Net) {
        self.unusable.worked(prefix);
    }

    /// Retries prefixes for which no address could be claimed.
    pub fn reconsider(&mut self) {
        self.unusable.reconsider();
    }

    /// Handles the end of a query: the resolver and its reply, or None without an answer.
    pub fn answered(&mut self, now: Moment, reply: Option<(SocketAddr, Reply)>) {
        self.forget(now);
        let pause = match reply {
            Some((from, Reply::Prefixes(prefixes, ttl))) => {
                let ttl = seconds(ttl.clamp(LEAST_TTL, MOST_TTL));
                let known = |prefix| Known {
                    prefix,
                    source: Source::Resolver(from),
                    until: now + ttl,
                };
                self.answer = prefixes.into_iter().map(known).collect();
                self.failures = 0;
                ttl - EARLY
            }
            Some((_, Reply::Nothing(ttl))) => {
                self.answer.clear();
                self.failures = 0;
                self.spread(seconds(ttl.unwrap_or(0).clamp(DENIAL.0, DENIAL.1)))
            }
            // Timeouts and failures invalidate nothing: known prefixes hold until they expire.
            Some((_, Reply::Failed(_) | Reply::Truncated)) | None => {
                let pause = RETRY * (1 << self.failures.min(DOUBLINGS));
                self.failures += 1;
                self.spread(pause)
            }
        };
        self.ask_at = Some(now + pause);
    }

    /// Forgets what resolvers have said that are not among these.
    pub fn believe_only(&mut self, resolvers: impl Fn(SocketAddr) -> bool) {
        self.answer.retain(|known| match known.source {
            Source::Resolver(from) => resolvers(from),
            _ => true,
        });
    }

    /// Handles a new link, or the loss of all addresses: the node may be in another network. Restarts the search; known
    /// prefixes expire soon unless they are confirmed.
    pub fn attached(&mut self, now: Moment) {
        self.offers.shorten(now + DOUBT);
        for known in &mut self.answer {
            known.until = known.until.min(now + DOUBT);
        }
        self.look_again(now);
    }

    /// Handles a partial change of the network: restarts the search, and known prefixes stay valid.
    pub fn look_again(&mut self, now: Moment) {
        self.solicit(now);
        self.renew_at = None;
        self.ask_at = Some(now);
        self.failures = 0;
    }

    /// Returns the next action that is due; call it until it returns None.
    pub fn next(&mut self, now: Moment) -> Option<Action> {
        self.forget(now);
        if self.renew_at.is_some_and(|at| at <= now) {
            self.renew_at = None;
            self.solicit(now);
            self.ask_soon(now);
        }
        if self.solicitations_left > 0 && self.solicit_at <= now {
            self.solicitations_left -= 1;
            self.solicit_at = now + SOLICITATION_INTERVAL;
            return Some(Action::Solicit);
        }
        if self.needs_resolvers(now) && self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = None;
            self.ask_after = now + RETRY;
            return Some(Action::Ask);
        }
        None
    }

    /// The time at which [`Discovery::next`] or [`Discovery::choice`] may change, seen from `now`.
    pub fn wake(&self, now: Moment) -> Option<Moment> {
        let solicit = (self.solicitations_left > 0).then_some(self.solicit_at);
        let ask = self.ask_at.filter(|_| self.needs_resolvers(now));
        let hold = (now < self.hold).then_some(self.hold);
        let ends = self.known().map(|known| known.until);
        let stale = self.offers.stale_at(now);
        let others = [solicit, ask, hold, self.renew_at, stale];
        let ours = [self.unusable.ends_at(now), self.damping.ends_at(now)];
        let all = others.into_iter().chain(ours).flatten();
        all.chain(ends).min()
    }

    /// The prefix to use.
    pub fn choice(&mut self, now: Moment) -> Option<Known> {
        self.forget(now);
        if self.offers.is_empty() && now < self.hold && self.chosen.is_none() {
            // A router may still answer, unless a prefix is already in use.
            return None;
        }
        let mut of = self.believed(now);
        let prefixes: Vec<Ipv6Net> = of.iter().map(|known| known.prefix).collect();
        let best = preference::best(&prefixes, self.chosen);
        let is_kept =
            |known: &Known| Some(known.prefix) == self.chosen && self.admits(now, known.prefix);
        let mut kept = self
            .known()
            .copied()
            .filter(is_kept)
            .collect::<Vec<Known>>();
        match best {
            _ if best == self.chosen => self.damping.rest(),
            // The prefix in use has expired and another one is known: IPv4 traffic has no path until it is taken.
            Some(_) if self.chosen.is_some() && kept.is_empty() => self.take(now, best),
            Some(prefix) if self.damping.admits(now, prefix) => self.take(now, best),
            Some(_) => of = std::mem::take(&mut kept),
            None => self.take(now, None),
        }
        let same = of.iter().filter(|known| Some(known.prefix) == self.chosen);
        same.max_by_key(|known| known.until).copied()
    }

    fn take(&mut self, now: Moment, prefix: Option<Ipv6Net>) {
        self.chosen = prefix;
        self.damping.moved(now);
    }

    /// The prefixes that count now: those that routers confirm, else those of a resolver, else those that routers sent
    /// long ago.
    fn believed(&self, now: Moment) -> Vec<Known> {
        let usable = |known: &&Known| self.admits(now, known.prefix);
        let fresh = self.offers.fresh(now).map(|(known, _)| known);
        let fresh: Vec<Known> = fresh.filter(usable).copied().collect();
        let answer = self.answer.iter().filter(usable).copied();
        let stale = self.offers.all().filter(usable).copied();
        let rest = [answer.collect(), stale.collect()];
        let mut all = std::iter::once(fresh).chain(rest);
        all.find(|of| !of.is_empty()).unwrap_or_default()
    }

    /// The hold time of the best prefix before it is taken, while prefixes change too often.
    pub fn wait(&self) -> Option<Duration> {
        self.damping.wait()
    }

    /// Returns true unless the prefix is known to be unusable.
    pub fn admits(&self, now: Moment, prefix: Ipv6Net) -> bool {
        self.unusable.admits(now, prefix)
    }

    /// All known prefixes, those of routers first.
    pub fn known(&self) -> impl Iterator<Item = &Known> {
        self.offers.all().chain(&self.answer)
    }

    fn forget(&mut self, now: Moment) {
        self.offers.forget(now);
        self.answer.retain(|known| known.until > now);
        let (offers, answer) = (&self.offers, &self.answer);
        let known = || offers.all().chain(answer).map(|known| known.prefix);
        self.unusable
            .keep(|prefix| known().any(|known| known == prefix));
    }

    fn solicit(&mut self, now: Moment) {
        self.solicitations_left = SOLICITATIONS;
        self.solicit_at = self.solicit_at.max(now);
    }

    /// Brings the next query forward, unless one is open. An attacker can trigger this with forged advertisements at
    /// any rate, so `ask_after` protects the resolvers.
    fn ask_soon(&mut self, now: Moment) {
        let soon = now.max(self.ask_after);
        self.ask_at = self.ask_at.map(|at| at.min(soon));
    }

    /// The usable and recently confirmed offers of routers, each as the time at which it expires or becomes stale.
    fn offered(&self, now: Moment) -> impl Iterator<Item = Moment> + '_ {
        let fresh = self.offers.fresh(now);
        let usable = fresh.filter(move |(known, _)| self.admits(now, known.prefix));
        usable.map(|(_, until)| until)
    }

    fn is_offered(&self, now: Moment) -> bool {
        self.offered(now).next().is_some()
    }

    /// Schedules the renewal no later than shortly before the last offer expires or becomes stale.
    fn renew_in_time(&mut self, now: Moment) {
        let last = self.offered(now).max();
        let latest = last.map(|last| last - EARLY.min((last - now) / 2));
        self.renew_at = self.renew_at.and_then(|at| Some(at.min(latest?)));
    }

    /// Returns true unless an offer of a router is valid for some time.
    fn needs_resolvers(&self, now: Moment) -> bool {
        !self.is_offered(now) || self.renew_at.is_none()
    }

    /// Randomises a pause by up to a quarter in both directions.
    fn spread(&mut self, pause: Duration) -> Duration {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = ((z ^ (z >> 31)) % 501) as u32;
        pause * (750 + part) / 1000
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}
