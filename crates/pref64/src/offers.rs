// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The prefixes that routers offer, with bounds on the memory of forged advertisements.
//!
//! Any node on the link can forge an advertisement, so the number of prefixes of each router and the number of routers
//! are bounded. A new router always finds a place; otherwise a few forged ones would exclude it for as long as their
//! lifetimes last. To make room, a router that was heard only once is evicted, never one that keeps confirming its
//! offers.

use std::net::Ipv6Addr;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::advertisement::Advertisement;
use crate::known::{Known, Moment, Source};

/// Maximum number of remembered routers; RFC 4861 section 6.3.4 demands at least two.
const ROUTERS: usize = 16;
/// Maximum number of routers among them that cannot be evicted.
const PROVEN: usize = 8;
/// Maximum number of prefixes of one router.
const PREFIXES: usize = 8;
/// Minimum time between unsolicited advertisements of a router (MIN_DELAY_BETWEEN_RAS, RFC 4861 section 10). A second
/// advertisement after less time does not prove a router.
const APART: Duration = Duration::from_secs(3);
/// An offer that is not confirmed for this time is stale: two of the longest advertisement intervals
/// (MaxRtrAdvInterval, RFC 4861 section 6.2.1), so that one advertisement may be lost.
const FRESH: Duration = Duration::from_secs(2 * 1800);

/// The offers of all routers.
#[derive(Clone, Debug, Default)]
pub struct Offers(Vec<Router>);

#[derive(Clone, Debug)]
struct Router {
    address: Ipv6Addr,
    /// The time since which the router is remembered.
    since: Moment,
    heard: Moment,
    /// True if the router was heard again while there was room among the proven routers.
    is_proven: bool,
    offers: Vec<Offer>,
}

#[derive(Clone, Debug)]
struct Offer {
    known: Known,
    heard: Moment,
}

impl Offer {
    fn is_fresh(&self, now: Moment) -> bool {
        now < self.heard + FRESH
    }
}

impl Router {
    fn is_fresh(&self, now: Moment) -> bool {
        now < self.heard + FRESH
    }

    fn offers(&self, prefix: Option<Ipv6Net>) -> bool {
        self.offers.iter().any(|o| Some(o.known.prefix) == prefix)
    }

    /// Records the advertised prefixes. The prefix in use is evicted last.
    fn record(&mut self, now: Moment, pref64: &[(Ipv6Net, Duration)], in_use: Option<Ipv6Net>) {
        for &(prefix, lifetime) in pref64 {
            let at = self.offers.iter().position(|o| o.known.prefix == prefix);
            let offer = Offer {
                known: Known {
                    prefix,
                    source: Source::Router(self.address),
                    until: now + lifetime,
                },
                heard: now,
            };
            match at {
                Some(at) if lifetime.is_zero() => drop(self.offers.remove(at)),
                Some(at) => self.offers[at] = offer,
                None if lifetime.is_zero() => {}
                None if self.offers.len() < PREFIXES => self.offers.push(offer),
                None => {
                    // Within one advertisement, the first prefixes count.
                    let others = self.offers.iter_mut().filter(|other| {
                        let is_in_use = Some(other.known.prefix) == in_use && other.is_fresh(now);
                        other.heard < now && !is_in_use
                    });
                    if let Some(oldest) = others.min_by_key(|other| other.heard) {
                        *oldest = offer;
                    }
                }
            }
        }
    }
}

impl Offers {
    /// Handles an advertisement. The offers of other routers stay, unless a router that was heard only once is evicted
    /// to make room.
    pub fn hear(&mut self, now: Moment, advertisement: &Advertisement, in_use: Option<Ipv6Net>) {
        let address = advertisement.router;
        for router in &mut self.0 {
            router.is_proven &= router.is_fresh(now);
        }
        let proven = self.0.iter().filter(|router| router.is_proven).count();
        if let Some(router) = self.0.iter_mut().find(|router| router.address == address) {
            router.is_proven |= proven < PROVEN && now >= router.since + APART;
            router.heard = now;
            router.record(now, &advertisement.pref64, in_use);
            self.0.retain(|router| !router.offers.is_empty());
            return;
        }
        let mut router = Router {
            address,
            since: now,
            heard: now,
            is_proven: false,
            offers: Vec::new(),
        };
        router.record(now, &advertisement.pref64, in_use);
        if router.offers.is_empty() {
            return;
        }
        if self.0.len() == ROUTERS {
            self.make_room(now, in_use);
        }
        self.0.push(router);
    }

    /// Evicts the router that was heard longest ago, but no proven router and none that offers the prefix in use.
    fn make_room(&mut self, now: Moment, in_use: Option<Ipv6Net>) {
        let is_needed = |r: &Router| r.is_proven || r.is_fresh(now) && r.offers(in_use);
        // At most half of all routers are proven.
        let others = (0..self.0.len()).filter(|&at| !is_needed(&self.0[at]));
        let oldest = others.min_by_key(|&at| self.0[at].heard);
        // If many routers offer the prefix in use, one of them suffices.
        let unproven = (0..self.0.len()).filter(|&at| !self.0[at].is_proven);
        if let Some(at) = oldest.or_else(|| unproven.min_by_key(|&at| self.0[at].heard)) {
            self.0.remove(at);
        }
    }

    /// Removes expired offers.
    pub fn forget(&mut self, now: Moment) {
        for router in &mut self.0 {
            router.offers.retain(|offer| offer.known.until > now);
        }
        self.0.retain(|router| !router.offers.is_empty());
    }

    /// Limits the lifetime of all offers to this time.
    pub fn shorten(&mut self, until: Moment) {
        for offer in self.0.iter_mut().flat_map(|router| &mut router.offers) {
            offer.known.until = offer.known.until.min(until);
        }
    }

    /// All offers, in the order in which their routers were first heard.
    pub fn all(&self) -> impl Iterator<Item = &Known> {
        self.0.iter().flat_map(|r| &r.offers).map(|o| &o.known)
    }

    /// The recently confirmed offers, each with the time at which it expires or becomes stale.
    pub fn fresh(&self, now: Moment) -> impl Iterator<Item = (&Known, Moment)> {
        let offers = self.0.iter().flat_map(|router| &router.offers);
        let fresh = offers.filter(move |offer| offer.is_fresh(now));
        fresh.map(|offer| (&offer.known, offer.known.until.min(offer.heard + FRESH)))
    }

    /// The next time at which an offer becomes stale.
    pub fn stale_at(&self, now: Moment) -> Option<Moment> {
        let offers = self.0.iter().flat_map(|router| &router.offers);
        let at = offers.map(|offer| offer.heard + FRESH);
        at.filter(|at| *at > now).min()
    }

    /// Returns true if there is no offer.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
