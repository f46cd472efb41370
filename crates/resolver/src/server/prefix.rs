// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules in force: those of the configuration, with the network's prefix if the configuration asks for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use diolkos_dns64::wire::Rtype;
use diolkos_dns64::{Origin, Policy, Rules};
use diolkos_pref64::{Known, Moment};
use ipnet::Ipv6Net;
use tokio::sync::Notify;
use tokio::time::Instant;

use diolkos_config::Dns64;
use diolkos_figures::counters::Counter;
use diolkos_figures::prefixes::{PrefixRow, PrefixRows};

/// The longest time that clients may cache answers about AAAA records while the network's prefix is not known, seconds: they
/// should see synthetic records soon after a prefix is known.
const PATIENCE: u32 = 30;

/// The query types whose answers may depend on the prefix.
pub const DEPENDENT: [Rtype; 2] = [Rtype::AAAA, Rtype::PTR];

/// The result of a search for the prefix.
#[derive(Default)]
pub struct Findings {
    /// The prefix in force, and the time until which it is valid.
    pub choice: Option<(Ipv6Net, Instant)>,
    /// All known prefixes, …
    pub known: Vec<Known>,
    /// … with times relative to this one.
    pub begin: Option<Instant>,
    /// Counters of the search.
    pub counters: Vec<Counter>,
}

/// The rules, and the source of their prefix.
pub struct InForce {
    configured: RefCell<Rules>,
    is_auto: bool,
    policy: RefCell<Rc<Policy>>,
    /// The number of changes of the prefix and of the configuration.
    changes: Cell<u64>,
    findings: RefCell<Findings>,
    changed: Notify,
}

impl InForce {
    /// The rules of the configuration; with `auto` there is no prefix at first.
    pub fn new(dns64: &Dns64) -> InForce {
        let configured = dns64.rules();
        InForce {
            policy: RefCell::new(Rc::new(Policy::new(configured.clone()))),
            configured: RefCell::new(configured),
            is_auto: dns64.follows_network(),
            changes: Cell::default(),
            findings: RefCell::default(),
            changed: Notify::new(),
        }
    }

    /// The current rules.
    pub fn policy(&self) -> Rc<Policy> {
        self.policy.borrow().clone()
    }

    /// A number that differs after each change of the rules.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Waits for a change of the rules.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes the result of a search. Returns true if the prefix in force has changed.
    pub fn take(&self, findings: Findings) -> bool {
        let prefix = |found: &Findings| found.choice.map(|(prefix, _)| prefix);
        let now = prefix(&findings);
        let before = prefix(&self.findings.replace(findings));
        if now == before {
            return false;
        }
        self.put_in_force();
        true
    }

    /// Takes the rules of another configuration.
    pub fn configure(&self, dns64: &Dns64) {
        self.configured.replace(dns64.rules());
        self.put_in_force();
    }

    fn put_in_force(&self) {
        let mut rules = self.configured.borrow().clone();
        if self.is_auto {
            let choice = self.findings.borrow().choice;
            rules.pref64 = choice.into_iter().map(|(prefix, _)| prefix).collect();
        }
        *self.policy.borrow_mut() = Rc::new(Policy::new(rules));
        self.changes.set(self.changes.get() + 1);
        self.changed.notify_one();
    }

    /// The longest time that clients may cache an answer about this type, seconds: not longer than the lifetime of the prefix
    /// on which the answer depends.
    pub fn most_ttl(&self, rtype: Rtype, origin: Origin) -> u32 {
        match self.findings.borrow().choice {
            _ if !self.is_auto => u32::MAX,
            None if rtype == Rtype::AAAA => PATIENCE,
            Some((_, until)) if matches!(origin, Origin::Synthesised | Origin::Local) => {
                let left = until.saturating_duration_since(Instant::now());
                u32::try_from(left.as_secs()).unwrap_or(u32::MAX)
            }
            _ => u32::MAX,
        }
    }

    /// The known prefixes.
    pub fn rows(&self) -> PrefixRows {
        let findings = self.findings.borrow();
        let in_force = findings.choice.map(|(prefix, _)| prefix);
        let now: Moment = findings.begin.map_or(Duration::ZERO, |at| at.elapsed());
        let known = findings.known.iter().filter(|known| known.until > now);
        let learnt = known.map(|known| {
            let is_in_force = Some(known.prefix) == in_force;
            PrefixRow::learnt(known, now, is_in_force)
        });
        let configured = self.configured.borrow();
        let configured = configured.pref64.iter();
        let configured = configured.map(|prefix| PrefixRow::configured(*prefix, true));
        PrefixRows {
            prefixes: configured.chain(learnt).collect(),
        }
    }

    /// The counters of the search for a prefix.
    pub fn counters(&self) -> Vec<Counter> {
        self.findings.borrow().counters.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_config::Networks;

    fn found(prefix: Option<&str>, seconds: u64) -> Findings {
        let until = Instant::now() + Duration::from_secs(seconds);
        let choice = prefix.map(|prefix| (prefix.parse().expect("a prefix"), until));
        Findings {
            choice,
            ..Findings::default()
        }
    }

    fn auto() -> InForce {
        InForce::new(&Dns64 {
            pref64: Some(Networks::Auto),
            ..Dns64::default()
        })
    }

    #[test]
    fn only_another_prefix_is_a_change() {
        let rules = auto();
        assert!(!rules.policy().has_prefixes());
        assert!(rules.take(found(Some("2001:db8:64::/96"), 60)));
        assert!(rules.policy().has_prefixes());
        assert!(!rules.take(found(Some("2001:db8:64::/96"), 90)));
        assert!(rules.take(found(Some("2001:db8:46::/96"), 90)));
        assert!(rules.take(found(None, 0)));
        assert!(!rules.policy().has_prefixes());
        assert_eq!(rules.changes(), 3);
    }

    #[test]
    fn what_depends_on_the_prefix_holds_no_longer_than_it() {
        let rules = auto();
        let most = |rtype, origin| rules.most_ttl(rtype, origin);
        assert_eq!(most(Rtype::AAAA, Origin::Passed), PATIENCE);
        assert_eq!(most(Rtype::A, Origin::Passed), u32::MAX);
        rules.take(found(Some("2001:db8:64::/96"), 60));
        assert!((1..=60).contains(&most(Rtype::AAAA, Origin::Synthesised)));
        assert!((1..=60).contains(&most(Rtype::AAAA, Origin::Local)));
        assert_eq!(most(Rtype::AAAA, Origin::Passed), u32::MAX);
        rules.take(found(Some("2001:db8:64::/96"), 0));
        assert_eq!(most(Rtype::AAAA, Origin::Synthesised), 0);
    }

    #[test]
    fn a_configured_prefix_limits_nothing() {
        let rules = InForce::new(&Dns64::default());
        assert_eq!(rules.most_ttl(Rtype::AAAA, Origin::Synthesised), u32::MAX);
        assert_eq!(rules.rows().prefixes.len(), 1);
    }
}
