// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discovery in virtual time, and the events that it handles.

use std::net::SocketAddr;
use std::time::Duration;

use diolkos_dns64::wire::OptRcode;
use diolkos_pref64::{Action, Advertisement, Discovery, Known, Moment, Reply, Unusable};
use ipnet::Ipv6Net;

pub const OWN: &str = "2001:db8:64::/96";
pub const OTHER: &str = "2001:db8:46::/96";
pub const WELL_KNOWN: &str = "64:ff9b::/96";

/// A discovery and its clock in milliseconds.
pub struct World {
    pub discovery: Discovery,
    pub now: u64,
}

pub fn at(ms: u64) -> Moment {
    Duration::from_millis(ms)
}

pub fn net(text: &str) -> Ipv6Net {
    text.parse().expect("a prefix")
}

pub fn resolver() -> SocketAddr {
    "[2001:db8::53]:53".parse().expect("an address")
}

impl World {
    pub fn new() -> World {
        World {
            discovery: Discovery::new(at(0), 7),
            now: 0,
        }
    }

    /// Returns the actions until the given second, each with its second; queries stay open.
    pub fn until(&mut self, second: u64) -> Vec<(u64, Action)> {
        let mut done = Vec::new();
        while self.now <= second * 1000 {
            while let Some(action) = self.discovery.next(at(self.now)) {
                done.push((self.now / 1000, action));
            }
            // `wake` must not be later than the next event.
            match self.discovery.wake(at(self.now)) {
                Some(wake) if wake > at(self.now) => self.now = wake.as_millis() as u64,
                _ => break,
            }
        }
        self.now = second * 1000;
        done
    }

    pub fn asked(&mut self, second: u64) -> Vec<u64> {
        let done = self.until(second);
        let asked = done.iter().filter(|(_, action)| *action == Action::Ask);
        asked.map(|(second, _)| *second).collect()
    }

    pub fn hear(&mut self, router: &str, offers: &[(&str, u64)]) {
        let offers = offers.iter();
        let advertisement = Advertisement {
            router: router.parse().expect("an address"),
            pref64: offers
                .map(|(prefix, s)| (net(prefix), Duration::from_secs(*s)))
                .collect(),
        };
        self.discovery.heard(at(self.now), &advertisement);
    }

    pub fn reply(&mut self, prefixes: &[&str], ttl: u32) {
        let prefixes = prefixes.iter().map(|p| net(p)).collect();
        let reply = Reply::Prefixes(prefixes, ttl);
        self.discovery
            .answered(at(self.now), Some((resolver(), reply)));
    }

    pub fn deny(&mut self, ttl: Option<u32>) {
        let reply = Some((resolver(), Reply::Nothing(ttl)));
        self.discovery.answered(at(self.now), reply);
    }

    pub fn fail(&mut self) {
        let reply = Reply::Failed(OptRcode::SERVFAIL);
        self.discovery
            .answered(at(self.now), Some((resolver(), reply)));
    }

    pub fn choice(&mut self) -> Option<Known> {
        self.discovery.choice(at(self.now))
    }

    pub fn prefix(&mut self) -> Option<String> {
        self.choice().map(|known| known.prefix.to_string())
    }

    #[track_caller]
    pub fn is(&mut self, prefix: &str) {
        assert_eq!(self.prefix().as_deref(), Some(prefix));
    }

    #[track_caller]
    pub fn is_none(&mut self) {
        assert_eq!(self.prefix(), None);
    }

    pub fn exclude(&mut self, prefix: &str, how: Unusable) {
        self.discovery.exclude(at(self.now), net(prefix), how);
    }

    /// Advances the clock. A resolver gives this answer to each query, and each step reads the prefix in force. Returns
    /// the number of queries and of solicitations.
    pub fn pass(&mut self, second: u64, answer: Option<&str>) -> (usize, usize) {
        let (mut asked, mut solicited) = (0, 0);
        loop {
            while let Some(action) = self.discovery.next(at(self.now)) {
                match action {
                    Action::Solicit => solicited += 1,
                    Action::Ask => {
                        asked += 1;
                        let reply = match answer {
                            Some(prefix) => Reply::Prefixes(vec![net(prefix)], 60),
                            None => Reply::Nothing(Some(900)),
                        };
                        self.discovery
                            .answered(at(self.now), Some((resolver(), reply)));
                    }
                }
            }
            self.discovery.choice(at(self.now));
            match self.discovery.wake(at(self.now)) {
                Some(wake) if wake <= at(second * 1000) => {
                    assert!(wake > at(self.now), "it spins at {wake:?}");
                    self.now = wake.as_millis() as u64;
                }
                _ => break,
            }
        }
        self.now = second * 1000;
        (asked, solicited)
    }
}
