// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules in force: those of the configuration, with the prefix that the network says where the operator wants that.

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

/// As long as the network has not said its prefix, clients keep answers about AAAA records for so long at most, seconds:
/// they are to see synthetic ones soon after there is a prefix.
const PATIENCE: u32 = 30;

/// What the answers to questions of these types may depend on.
pub const DEPENDENT: [Rtype; 2] = [Rtype::AAAA, Rtype::PTR];

/// What a search for the prefix has found.
#[derive(Default)]
pub struct Findings {
    /// The prefix in force, and until when.
    pub choice: Option<(Ipv6Net, Instant)>,
    /// All that is known, …
    pub known: Vec<Known>,
    /// … with times since this moment.
    pub begin: Option<Instant>,
    /// What happened.
    pub counters: Vec<Counter>,
}

/// The rules, and where their prefix is from.
pub struct InForce {
    configured: RefCell<Rules>,
    is_auto: bool,
    policy: RefCell<Rc<Policy>>,
    /// How often another prefix was taken.
    changes: Cell<u64>,
    findings: RefCell<Findings>,
    changed: Notify,
}

impl InForce {
    /// The rules of the configuration; `auto` begins without a prefix.
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

    /// The rules now.
    pub fn policy(&self) -> Rc<Policy> {
        self.policy.borrow().clone()
    }

    /// Another number after each change of the rules.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Returns after a change; for one who waits.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes what a search has found. True if the prefix in force is another one now.
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

    /// Takes other rules of the configuration, in which the prefix is `auto` as before, or as before is not.
    pub fn renew(&self, dns64: &Dns64) {
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

    /// The prefix that the network says, and until when.
    pub fn learnt(&self) -> Option<(Ipv6Net, Instant)> {
        self.findings.borrow().choice
    }

    /// For how long clients may keep an answer about this type at most, seconds: no longer than the prefix holds that it
    /// depends on.
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

    /// The prefixes that are known.
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

    /// What happened while a prefix was looked for.
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
