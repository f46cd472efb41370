// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of the prefixes, for how long, and when to look again.
//!
//! news (heard, answered, attached) → what is known → choice; beside it, what is to be done next.
//!
//! Prefixes of routers go before those of resolvers (RFC 8781 section 5.1). As long as there is one, nobody is asked.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::advertisement::Advertisement;
use crate::known::{Known, Moment, Source};
use crate::offers::Offers;
use crate::preference;
use crate::synthesis::Reply;

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
    chosen: Option<Ipv6Net>,
    /// Before this moment an answer does not count, unless a router has been heard.
    hold: Moment,
    solicitations_left: u32,
    solicit_at: Moment,
    /// None while a question is open.
    ask_at: Option<Moment>,
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
            chosen: None,
            hold: now + HOLD,
            solicitations_left: SOLICITATIONS,
            solicit_at: now,
            ask_at: Some(now),
            failures: 0,
            renew_at: None,
            random: seed,
        }
    }

    /// A router was heard. It speaks for itself: what another one offers stays.
    pub fn heard(&mut self, now: Moment, advertisement: &Advertisement) {
        self.forget(now);
        self.hold = now;
        self.solicitations_left = 0;
        let had = !self.offers.is_empty();
        self.offers.hear(now, advertisement, self.chosen);
        let last = self.offers.all().map(|known| known.until).max();
        self.renew_at = last.map(|last| last - EARLY.min((last - now) / 2));
        if had && last.is_none() {
            self.ask_soon(now);
        }
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
        if self.asks() && self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = None;
            return Some(Action::Ask);
        }
        None
    }

    /// When [`Discovery::next`] or [`Discovery::choice`] may say something else.
    pub fn wake(&self, now: Moment) -> Option<Moment> {
        let solicit = (self.solicitations_left > 0).then_some(self.solicit_at);
        let ask = self.ask_at.filter(|_| self.asks());
        let hold = (now < self.hold).then_some(self.hold);
        let ends = self.known().map(|known| known.until);
        let others = [solicit, ask, hold, self.renew_at, self.offers.stale_at(now)];
        others.into_iter().flatten().chain(ends).min()
    }

    /// The prefix in force.
    pub fn choice(&mut self, now: Moment) -> Option<Known> {
        self.forget(now);
        let of = match self.offers.is_empty() {
            false => self.offers.believed(now),
            // A router may still speak up, unless there is something to go on with.
            true if now < self.hold && self.chosen.is_none() => return None,
            true => self.answer.clone(),
        };
        let prefixes: Vec<Ipv6Net> = of.iter().map(|known| known.prefix).collect();
        self.chosen = preference::best(&prefixes, self.chosen);
        let same = of.iter().filter(|known| Some(known.prefix) == self.chosen);
        same.max_by_key(|known| known.until).copied()
    }

    /// Everything that is known, what routers say first.
    pub fn known(&self) -> impl Iterator<Item = &Known> {
        self.offers.all().chain(&self.answer)
    }

    fn forget(&mut self, now: Moment) {
        self.offers.forget(now);
        self.answer.retain(|known| known.until > now);
    }

    fn solicit(&mut self, now: Moment) {
        self.solicitations_left = SOLICITATIONS;
        self.solicit_at = now;
    }

    /// Brings the next question forward, unless one is open.
    fn ask_soon(&mut self, now: Moment) {
        self.ask_at = self.ask_at.map(|at| at.min(now));
    }

    /// Resolvers are asked unless what a router offers holds for a while.
    fn asks(&self) -> bool {
        self.offers.is_empty() || self.renew_at.is_none()
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
