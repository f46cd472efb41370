// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons to doubt that answers come back to the CLAT, although packets can leave: an address that is in no prefix
//! known to lead here, a configured prefix that the network contradicts, and an unknown program that gets packets
//! first.
//!
//! None can be decided on this host. So the CLAT opens nevertheless, and each reason is an obstacle until the first
//! answer has come.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::others;
use super::rules::Side6;
use super::Clat;
use diolkos_config::{Prefix, V6Address};
use diolkos_control::translator::{Finding, FindingKind, Reason};
use diolkos_figures::counters;
use diolkos_service::failure::Failure;

/// Interval between two checks for an answer.
const LOOK: Duration = Duration::from_secs(2);

/// The doubts about a CLAT's address and prefix.
#[derive(Default)]
pub(super) struct Doubts {
    /// The address and prefix in question.
    of: Option<Side6>,
    /// Numbers of received packets, and of answers among them, when these came into use.
    before: counters::Came,
    /// Set if the address is in no prefix that is known to lead here.
    elsewhere: Option<String>,
    /// The doubts, as last logged.
    said: BTreeSet<Finding>,
    /// When to check for an answer.
    next: Option<Instant>,
}

impl Doubts {
    /// Returns the time of the next action.
    pub(super) fn waits(&self) -> Option<Instant> {
        self.next
    }
}

impl Clat {
    /// Checks what may have changed of this, and logs it.
    pub(super) async fn doubt(&mut self) {
        let side6 = self.device.as_ref().map(|device| device.side6);
        if self.doubts.of != side6 {
            self.doubts.of = side6;
            self.doubts.before = self.came();
        }
        match self.is_elsewhere(side6).await {
            Ok(elsewhere) => self.doubts.elsewhere = elsewhere,
            Err(failure) => {
                tracing::warn!("cannot determine where the CLAT's address lies: {failure}")
            }
        }
        self.say_doubts();
    }

    /// Logs new doubts, and those that have ended.
    pub(super) fn say_doubts(&mut self) {
        let now: BTreeSet<Finding> = self.doubts_now().into_iter().collect();
        let is_obstacle = |its: &Finding| its.kind == FindingKind::Obstacle;
        let is_open = !now.iter().any(is_obstacle);
        let was_open = !self.doubts.said.iter().any(is_obstacle);
        for new in now.difference(&self.doubts.said) {
            tracing::warn!("{}", new.text);
        }
        for over in self.doubts.said.difference(&now) {
            tracing::info!("no longer: {}", over.text);
        }
        if is_open && !was_open && self.ready.is_some() {
            tracing::info!("ready: {}", self.description());
        }
        self.doubts.next = (!is_open).then(|| Instant::now() + LOOK);
        self.doubts.said = now;
    }

    /// Returns the findings, apart from what keeps packets from leaving.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let metrics = self.metrics.as_ref();
        let metrics = metrics.map(|metrics| metrics.findings());
        let mut all = [self.doubts_now(), metrics.unwrap_or_default()].concat();
        all.extend(self.expiry.trouble());
        all
    }

    /// Returns true if something may keep answers from coming back.
    pub(super) fn is_doubtful(&self) -> bool {
        let doubts = self.doubts_now();
        doubts.iter().any(|its| its.kind == FindingKind::Obstacle)
    }

    fn doubts_now(&self) -> Vec<Finding> {
        let contradiction = self.finder.contradiction();
        let mut found: Vec<Finding> = self.ipsec().into_iter().collect();
        found.extend(self.unanswered.obstacle());
        let fast = self.device.as_ref().and_then(|device| device.fast.as_ref());
        let unknown = fast.and_then(|fast| others::may_keep_packets(fast, &self.site.uplink));
        let elsewhere = &self.doubts.elsewhere;
        if self.doubts.of.is_none()
            || (elsewhere.is_none() && contradiction.is_none() && unknown.is_none())
        {
            return found;
        }
        let (came, before) = (self.came(), self.doubts.before);
        if let (Some(text), true) = (&self.doubts.elsewhere, came.packets <= before.packets) {
            found.push(Finding::obstacle(Reason::AddressElsewhere, text.clone()));
        }
        if let (Some(text), true) = (unknown, came.packets <= before.packets) {
            found.push(Finding::obstacle(Reason::UnknownProgram, text));
        }
        // An error can come from any router on the path.
        match contradiction {
            Some(text) if came.answers <= before.answers => {
                let text = format!(
                    "{text}: nothing has come back yet; set it to \"auto\" or to the network's prefix"
                );
                found.push(Finding::obstacle(Reason::PrefixContradicted, text));
            }
            Some(text) => found.push(Finding::trouble(Reason::PrefixContradicted, text)),
            None => {}
        }
        found
    }

    /// The fast path sends IPv6 packets by itself; what the host sent as IPv4 has already met the policies of IPv4.
    fn ipsec(&self) -> Option<Finding> {
        let policies = self.policies.as_ref()?.now();
        let has_programs = self.device.as_ref()?.fast.is_some();
        (has_programs && (policies.v6 > 0 || policies.blocks)).then(|| {
            Finding::trouble(
                Reason::Ipsec,
                format!(
                    "this host has {policies}, and translated packets bypass those of IPv6: datapath \"tun\" obeys them"
                ),
            )
        })
    }

    fn came(&self) -> counters::Came {
        let Some(device) = &self.device else {
            return counters::Came::default();
        };
        counters::came(device.fast.as_deref(), &device.slow.tallies)
    }

    /// Returns a description if the operator has configured an address that, as far as this host knows, does not lead
    /// to it. Any other address is made from a prefix that does.
    async fn is_elsewhere(&self, side6: Option<Side6>) -> Result<Option<String>, Failure> {
        let clat = &self.site.settings.clat;
        let (V6Address::Fixed(given), Prefix::Auto, Some(side6)) = (clat.v6, clat.v6_prefix, side6)
        else {
            return Ok(None);
        };
        let (net, uplink) = (&self.site.net, &self.site.uplink);
        if side6.address != given || net.is_on_link(given, uplink.index).await? {
            return Ok(None);
        }
        let prefixes = net.global_prefixes(uplink.index).await?;
        if prefixes.iter().any(|prefix| prefix.contains(&given)) {
            return Ok(None);
        }
        // The network may route a prefix to this host, which then assigns it to links or refuses it as a whole.
        if net.is_held(given).await? {
            return Ok(None);
        }
        let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        let has = match prefixes.is_empty() {
            true => "none".to_owned(),
            false => prefixes.join(", "),
        };
        Ok(Some(format!(
            "{given} (clat.v6) is in no prefix of {} ({has}), so answers may not come back: choose an address in one, or \
             name the prefix that the network routes to this host (clat.v6_prefix)",
            uplink.name
        )))
    }
}
