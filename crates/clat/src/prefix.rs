// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a prefix to an address for it: compares what the network offers with what is in force, claims an address, and
//! builds or moves the device.

use std::time::Duration;

use diolkos_pref64::Unusable;
use futures_util::future::FutureExt;
use ipnet::Ipv6Net;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::claim::{claim, Claim, Detection};
use super::device::ClatDevice;
use super::rules::Side6;
use super::Clat;
use diolkos_kernel::neighbour::Responder;
use diolkos_service::failure::{Exit, Failure};

/// After the kernel could not say whether there is an address, it is asked again after this time, then after twice as
/// long, …
const RETRY: Duration = Duration::from_secs(1);
/// … which is doubled at most this many times.
const DOUBLINGS: u32 = 6;

impl Clat {
    /// Compares the wanted prefix with the one to use now, and starts the change to it.
    pub(super) async fn follow(&mut self) {
        let choice = self.finder.choice();
        let wanted = choice.as_ref().map(|(prefix, _)| *prefix);
        if wanted.is_none() && self.holds.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.holds = None;
        if wanted == self.wanted {
            return;
        }
        self.wanted = wanted;
        self.claiming = None;
        self.stranded = false;
        let Some((prefix, from)) = choice else {
            let why = match self.finder.is_any_unusable() {
                false => "the network no longer has a translation prefix",
                true => "the network has no usable translation prefix",
            };
            self.close(why).await;
            return;
        };
        if self.finder.is_search() {
            tracing::info!("translation prefix {prefix} from {from}");
        }
        self.set_out(prefix, true, Duration::ZERO);
    }

    /// Begins with the first stage for a prefix. With `keeps`, an address that fits is kept. `pause` is the time before
    /// another one is claimed.
    pub(super) fn set_out(&mut self, prefix: Ipv6Net, keeps: bool, pause: Duration) {
        if let (Some(why), None) = (self.site.uplink.obstacle6(), &self.device) {
            // Duplicate address detection is not possible there.
            self.stranded = true;
            if self.obstacle.replace(why.clone()) != Some(why.clone()) {
                tracing::warn!("waiting: {why}");
            }
            return;
        }
        let given = self.site.settings.clat.v6.fixed();
        let fits = |side6: &Side6| {
            let is_it = match given {
                Some(address) => side6.address == address,
                None => side6.pref64 == prefix,
            };
            keeps && is_it
        };
        let ours = self.device.as_ref().map(|device| device.side6);
        self.claiming = Some(match ours.filter(fits) {
            // The CLAT answers for it all the time.
            Some(side6) => async move { Ok(Claim::Kept(side6)) }.boxed(),
            None => {
                let site = self.site.clone();
                // What works continues until an address is known to be free, and a search may find a better prefix.
                let detection = match self.device.is_none() && !self.finder.is_search() {
                    true => Detection::Optimistic,
                    false => Detection::First,
                };
                let claim = async move {
                    tokio::time::sleep(pause).await;
                    claim(&site, prefix, detection).await
                };
                claim.boxed()
            }
        });
    }

    /// Handles the result of a claim: builds with the address, or moves to it, and opens.
    pub(super) async fn claimed(&mut self, claimed: Result<Claim, Failure>) -> Result<(), Failure> {
        let Some(pref64) = self.wanted else {
            return Ok(());
        };
        let failures = std::mem::replace(&mut self.failures, 0);
        let (side6, made) = match claimed {
            Ok(Claim::Made(made)) => {
                let (address, is_shared) = (made.address, made.is_shared);
                let side6 = Side6 {
                    pref64,
                    address,
                    is_shared,
                };
                (side6, Some(made))
            }
            Ok(Claim::Kept(side6)) => (Side6 { pref64, ..side6 }, None),
            Ok(Claim::NotYet(why)) if self.goes_on_without(pref64) => {
                self.exclude(pref64, Unusable::Unclaimed, &why).await;
                return Ok(());
            }
            // At the start of a host, addresses come later than the default route, and are tested then.
            Ok(Claim::NotYet(why))
                if self.finder.is_search() || self.device.is_none() && why.is_transient() =>
            {
                self.strand(&why.to_string()).await;
                return Ok(());
            }
            // With a working address this is no reason to end; nor if there may be another prefix.
            Ok(Claim::Taken(why))
                if self.device.is_some() && !self.stranded || self.finder.is_search() =>
            {
                self.exclude(pref64, Unusable::Unclaimed, &why).await;
                return Ok(());
            }
            Ok(Claim::NotYet(why) | Claim::Taken(why)) => return Err(why),
            // This says nothing about the prefix.
            Err(why) if self.device.is_some() || why.is_transient() => {
                self.claim_later(pref64, failures, &why);
                return Ok(());
            }
            Err(why) => return Err(why),
        };
        // One of the two has the fast path and the other conntrack: a device cannot change from one to the other.
        let is_other_kind = |device: &ClatDevice| device.side6.is_shared != side6.is_shared;
        if self.device.as_ref().is_some_and(is_other_kind) {
            self.answering = None;
            if let Some(device) = self.device.take() {
                device.leave(&self.site.net).await;
            }
            self.ready = None;
        }
        let done = match &mut self.device {
            Some(device) if device.side6 == side6 => Ok(()),
            Some(device) => device.move_to(&self.site, side6).await,
            None => ClatDevice::build(&self.site, side6, &self.watch)
                .await
                .map(|built| {
                    self.device = Some(built);
                }),
        };
        match done {
            // What the network says does not fit the configuration.
            Err(failure) if failure.exit() == Exit::Usage && self.finder.is_search() => {
                self.exclude(pref64, Unusable::Contradicts, &failure).await;
                return Ok(());
            }
            Err(failure) if failure.is_transient() => {
                self.claim_later(pref64, failures, &failure);
                return Ok(());
            }
            done => done?,
        }
        self.stranded = false;
        self.finder.worked(pref64);
        if let Some(made) = made {
            tracing::info!(
                "the CLAT's IPv6 address is {}: {}",
                side6.address,
                made.origin
            );
            self.origin = made.origin;
            self.is_of_uplink = self.site.settings.clat.follows_uplink();
            if let Some(responder) = made.responder {
                self.answer_for(responder, made.is_tentative);
            }
        }
        self.doubt().await;
        self.look_at_way().await
    }

    /// Retries the claim of an address, soon and then less often. What works continues meanwhile.
    pub(super) fn claim_later(&mut self, pref64: Ipv6Net, failures: u32, why: &Failure) {
        let pause = RETRY * (1 << failures.min(DOUBLINGS));
        if failures == 0 {
            tracing::warn!("no address yet for the prefix {pref64}: {why}; retrying");
        }
        self.failures = failures + 1;
        self.set_out(pref64, false, pause);
    }

    /// Answers for the CLAT's address in a task of its own, so that a neighbour need not wait while a program is
    /// loaded.
    pub(super) fn answer_for(&mut self, responder: Responder, is_tentative: bool) {
        // The old task must end first: it would take the new one's solicitations for its own.
        self.answering = None;
        let (report, duplicate) = oneshot::channel();
        self.duplicate = is_tentative.then_some(duplicate);
        let answer = async move {
            if is_tentative && !responder.is_unique_in_use().await {
                // If this has no receiver, another address is already in use.
                let _ = report.send(());
                return std::future::pending().await;
            }
            drop(report);
            match responder.answer().await {}
        };
        self.answering = Some(self.watch.task("neighbour discovery", answer));
    }

    /// Returns true if another prefix works, and is still known.
    pub(super) fn goes_on_without(&mut self, pref64: Ipv6Net) -> bool {
        let others = self.in_force().filter(|present| *present != pref64);
        others.is_some_and(|present| self.finder.knows(present)) && !self.stranded
    }

    /// Excludes a prefix: what works continues, and the next best prefix is taken if nothing works.
    pub(super) async fn exclude(&mut self, pref64: Ipv6Net, how: Unusable, why: &Failure) {
        let present = self.in_force();
        if present == Some(pref64) || !self.finder.is_search() {
            tracing::warn!("the CLAT keeps its address, because no other one can be used: {why}");
            return;
        }
        let stays = match present {
            Some(present) => format!(": continuing with {present}"),
            None => String::new(),
        };
        tracing::warn!("the prefix {pref64} cannot be used, {why}{stays}");
        self.finder.exclude(pref64, how);
        // If it is still the next best one, the prefix in force needs nothing new.
        self.wanted = present.or(Some(pref64));
        self.follow().await;
    }
}
