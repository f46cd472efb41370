// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of the prefixes, for how long, and when to look again.
//!
//! news (heard, answered, attached) → what is known → choice; beside it, what is to be done next.
//!
//! Prefixes of routers go before those of resolvers (RFC 8781 section 5.1). As long as there is one that can be used and
//! was confirmed of late, nobody is asked. One that no router confirms any more goes after those of resolvers.

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

// Of the specifications.

/// MAX_RTR_SOLICITATIONS (RFC 4861 section 10).
const SOLICITATIONS: u32 = 3;
/// RTR_SOLICITATION_INTERVAL (RFC 4861 section 10).
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
/// What is known is looked for again so long before it ends (RFC 7050 section 3).
const EARLY: Duration = Duration::from_secs(10);

// Of our own.

/// At first, an answer of a resolver waits so long for a router: routers answer a solicitation within half a second
/// (RFC 4861 section 6.2.6), and what they say goes first.
const HOLD: Duration = Duration::from_secs(1);
/// How long what was known lives on when the link has come up again, perhaps as another one: the time of all
/// solicitations, and a little more.
const DOUBT: Duration = Duration::from_secs(15);
/// Answers hold at least so long, whatever their TTL, so that nobody makes us ask without end, seconds.
const LEAST_TTL: u32 = 30;
/// And at most so long, seconds.
const MOST_TTL: u32 = 86_400;
/// After a denial it is asked again within these bounds, seconds, though RFC 7050 section 3 has nodes wait for its TTL.
const DENIAL: (u32, u32) = (60, 900);
/// Without a resolver that answers, it is asked again after so long, then twice as long, …
const RETRY: Duration = Duration::from_secs(1);
/// … and so often doubled at most.
const DOUBLINGS: u32 = 6;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a router solicitation.
    Solicit,
    /// Ask for ipv4only.arpa, and forget about an earlier question that is still open.
    Ask,
}

/// The discovery of one network.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// What routers offer.
    offers: Offers,
    /// What a resolver has revealed, in the order of its answer.
    answer: Vec<Known>,
    /// What of it cannot be used.
    unusable: UnusablePrefixes,
    damping: Damping,
    chosen: Option<Ipv6Net>,
    /// Before this moment an answer does not count, unless a router has been heard.
    hold: Moment,
    solicitations_left: u32,
    solicit_at: Moment,
    /// None while a question is open.
    ask_at: Option<Moment>,
    /// After the last question, nothing that is heard brings the next one forward to before this moment.
    ask_after: Moment,
    failures: u32,
    /// When routers are solicited again because what they offered is about to end.
    renew_at: Option<Moment>,
    random: u64,
}

impl Discovery {
    /// Nothing is known, and all is to be done. `seed` decides when exactly it is asked again, so that not all nodes
    /// of a network do so at the same time.
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

    /// A router was heard. It speaks for itself: what another one offers stays.
    pub fn heard(&mut self, now: Moment, advertisement: &Advertisement) {
        self.forget(now);
        self.hold = now;
        let had = self.is_offered(now);
        self.offers.hear(now, advertisement, self.chosen);
        let mut said = advertisement.pref64.iter();
        if said.any(|(prefix, lifetime)| !lifetime.is_zero() && self.unusable.admits(now, *prefix))
        {
            // One that says nothing of use may be another router than the one that is looked for, or a forged one.
            self.solicitations_left = 0;
            self.renew_at = Some(Moment::MAX);
        }
        self.renew_in_time(now);
        if had && !self.is_offered(now) {
            self.ask_soon(now);
        }
    }

    /// A prefix cannot be used. Another one is looked for, unless there is one.
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

    /// A prefix is used.
    pub fn worked(&mut self, prefix: Ipv6Net) {
        self.unusable.worked(prefix);
    }

    /// For prefixes that could not be used, addresses may be had now.
    pub fn reconsider(&mut self) {
        self.unusable.reconsider();
    }

    /// A question ended: what which resolver said, or that none has answered.
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
            // Silence and failures deny nothing: what is known holds until its time is over.
            Some((_, Reply::Failed(_) | Reply::Truncated)) | None => {
                let pause = RETRY * (1 << self.failures.min(DOUBLINGS));
                self.failures += 1;
                self.spread(pause)
            }
        };
        self.ask_at = Some(now + pause);
    }

    /// The link came up, or the node has none of its addresses any more: it may be in another network. All is looked for
    /// again, and what is not confirmed soon is given up.
    pub fn attached(&mut self, now: Moment) {
        self.offers.shorten(now + DOUBT);
        for known in &mut self.answer {
            known.until = known.until.min(now + DOUBT);
        }
        self.look_again(now);
    }

    /// The network has changed in part: all is looked for again, and what is known holds.
    pub fn look_again(&mut self, now: Moment) {
        self.solicit(now);
        self.renew_at = None;
        self.ask_at = Some(now);
        self.failures = 0;
    }

    /// What is to be done now, one at a time.
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

    /// When [`Discovery::next`] or [`Discovery::choice`] may say something else than at the moment `now`.
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

    /// The prefix in force.
    pub fn choice(&mut self, now: Moment) -> Option<Known> {
        self.forget(now);
        if self.offers.is_empty() && now < self.hold && self.chosen.is_none() {
            // A router may still speak up, unless there is something to go on with.
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
            // What is in use is lost, and there is another one: IPv4 has no way until it is taken.
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

    /// Of what is known, what is to be believed now: what routers confirm; else what a resolver says; else what routers
    /// said long ago.
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

    /// So long a prefix has to be the best one before it is taken, because prefixes come and go too often.
    pub fn wait(&self) -> Option<Duration> {
        self.damping.wait()
    }

    /// Can a prefix be used, as far as is known?
    pub fn admits(&self, now: Moment, prefix: Ipv6Net) -> bool {
        self.unusable.admits(now, prefix)
    }

    /// Everything that is known, what routers say first.
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

    /// Brings the next question forward, unless one is open. Whoever forges advertisements brings this about as often as he
    /// likes, and resolvers are not to suffer from that.
    fn ask_soon(&mut self, now: Moment) {
        let soon = now.max(self.ask_after);
        self.ask_at = self.ask_at.map(|at| at.min(soon));
    }

    /// What routers offer now: until when, of each that can be used and was confirmed of late.
    fn offered(&self, now: Moment) -> impl Iterator<Item = Moment> + '_ {
        let fresh = self.offers.fresh(now);
        let usable = fresh.filter(move |(known, _)| self.admits(now, known.prefix));
        usable.map(|(_, until)| until)
    }

    fn is_offered(&self, now: Moment) -> bool {
        self.offered(now).next().is_some()
    }

    /// It is renewed no later than shortly before the last of what is offered ends or becomes stale.
    fn renew_in_time(&mut self, now: Moment) {
        let last = self.offered(now).max();
        let latest = last.map(|last| last - EARLY.min((last - now) / 2));
        self.renew_at = self.renew_at.and_then(|at| Some(at.min(latest?)));
    }

    /// Resolvers are asked unless what a router offers holds for a while.
    fn needs_resolvers(&self, now: Moment) -> bool {
        !self.is_offered(now) || self.renew_at.is_none()
    }

    /// Up to a quarter more or less.
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
