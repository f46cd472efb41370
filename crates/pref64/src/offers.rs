// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What routers offer, whoever sends how much in whoever's name.
//!
//! Anybody on the link can forge an advertisement, so each router has a share of its own, and so has the table. A router
//! that is new always finds a place, or a few false ones would shut it out for as long as their lifetimes last. For that,
//! one goes that was heard once only, and never one that keeps confirming what it says.

use std::net::Ipv6Addr;
use std::time::Duration;

use ipnet::Ipv6Net;

use crate::advertisement::Advertisement;
use crate::known::{Known, Moment, Source};

/// Routers of which something is remembered; RFC 4861 section 6.3.4 wants two at least.
const ROUTERS: usize = 16;
/// Of them, those that cannot be pushed out.
const PROVEN: usize = 8;
/// Prefixes of one router.
const PREFIXES: usize = 8;
/// A router sends its unsolicited advertisements this far apart at least (MIN_DELAY_BETWEEN_RAS, RFC 4861 section 10):
/// two that are closer prove nothing.
const APART: Duration = Duration::from_secs(3);
/// What was not confirmed for so long is stale: two of the longest intervals of a router (MaxRtrAdvInterval, RFC 4861
/// section 6.2.1), of which one advertisement may be lost.
const FRESH: Duration = Duration::from_secs(2 * 1800);

/// The offers of all routers.
#[derive(Clone, Debug, Default)]
pub struct Offers(Vec<Router>);

#[derive(Clone, Debug)]
struct Router {
    address: Ipv6Addr,
    /// Something is remembered of it since then.
    since: Moment,
    heard: Moment,
    /// It was heard again, and there was a place among the proven ones.
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

    /// Records what the router advertises. The one in use goes last of all.
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
                    // Of one advertisement, the first ones count.
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
    /// A router was heard. What another one offers stays, unless there is no room and it was heard only once.
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

    /// Forgets the router that was heard longest ago, but none that is proven or whose prefix is in use.
    fn make_room(&mut self, now: Moment, in_use: Option<Ipv6Net>) {
        let is_needed = |r: &Router| r.is_proven || r.is_fresh(now) && r.offers(in_use);
        // The proven ones are half of all.
        let others = (0..self.0.len()).filter(|&at| !is_needed(&self.0[at]));
        let oldest = others.min_by_key(|&at| self.0[at].heard);
        // Many may offer what is in use. Then one of them is enough.
        let unproven = (0..self.0.len()).filter(|&at| !self.0[at].is_proven);
        if let Some(at) = oldest.or_else(|| unproven.min_by_key(|&at| self.0[at].heard)) {
            self.0.remove(at);
        }
    }

    /// Forgets what is over.
    pub fn forget(&mut self, now: Moment) {
        for router in &mut self.0 {
            router.offers.retain(|offer| offer.known.until > now);
        }
        self.0.retain(|router| !router.offers.is_empty());
    }

    /// Everything holds until then at most.
    pub fn shorten(&mut self, until: Moment) {
        for offer in self.0.iter_mut().flat_map(|router| &mut router.offers) {
            offer.known.until = offer.known.until.min(until);
        }
    }

    /// All of them, in the order in which the routers were heard first.
    pub fn all(&self) -> impl Iterator<Item = &Known> {
        self.0.iter().flat_map(|r| &r.offers).map(|o| &o.known)
    }

    /// Those that were confirmed of late, each with the moment at which it ends or becomes stale.
    pub fn fresh(&self, now: Moment) -> impl Iterator<Item = (&Known, Moment)> {
        let offers = self.0.iter().flat_map(|router| &router.offers);
        let fresh = offers.filter(move |offer| offer.is_fresh(now));
        fresh.map(|offer| (&offer.known, offer.known.until.min(offer.heard + FRESH)))
    }

    /// The next moment at which something becomes stale.
    pub fn stale_at(&self, now: Moment) -> Option<Moment> {
        let offers = self.0.iter().flat_map(|router| &router.offers);
        let at = offers.map(|offer| offer.heard + FRESH);
        at.filter(|at| *at > now).min()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
