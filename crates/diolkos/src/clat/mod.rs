// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877), from the first look at the uplink to the clean machine after it.
//!
//! find the prefix → claim an address for it → build, or move → open, once something can pass → serve → leave. With a
//! prefix that the operator has said, each stage is passed once; with one that the network says, as often as that changes.

mod address;
mod answers;
mod claim;
mod device;
mod finder;
mod mtu;
pub mod neighbour;
mod reload;
mod rules;
mod serving;

use std::sync::Arc;
use std::time::Duration;

use diolkos_pref64::Unusable;
use futures_util::future::{BoxFuture, FutureExt};
use ipnet::Ipv6Net;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::Settings;
use crate::control;
use crate::datapath;
use crate::failure::{Failure, Kind};
use crate::handover;
use crate::metrics::Metrics;
use crate::net::{Link, Way};
use crate::privilege::{self, NET_ADMIN, NET_RAW};
use crate::service::{self, Host};
use crate::supervise::{Supervision, Task, Watch};

use claim::{check_v4, claim, Claim, Detection};
use device::{ClatDevice, Site};
use finder::Finder;
use neighbour::Responder;
use rules::Side6;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;
/// After the kernel could not say whether there is an address, it is asked again after so long, then twice as long, …
const RETRY: Duration = Duration::from_secs(1);
/// … and so often doubled at most.
const DOUBLINGS: u32 = 6;

/// Runs until a signal comes (then it succeeds) or the uplink goes (then it fails).
/// `read`: reads the configuration again.
pub async fn run(
    settings: Settings,
    read: impl Fn() -> Result<Settings, Failure> + 'static,
    supervision: Supervision,
) -> Result<(), Failure> {
    privilege::check(&[NET_ADMIN, NET_RAW])?;
    let mut host = Host::new(supervision).await?;
    let net = host.net.clone();
    let uplink = net.link(&settings.translator.interfaces[0]).await?;
    let uplink = as_configured(uplink, &settings);
    if uplink.mtu6 < IPV6_MINIMUM_MTU {
        return Err(Failure::run_time(format!(
            "the MTU of {} is {} bytes, and IPv6 needs {IPV6_MINIMUM_MTU}",
            uplink.name, uplink.mtu6
        )));
    }
    let mut control = control::listen(
        "clat",
        &settings.translator.device,
        &settings.control.group,
        &host.watch,
    )?;

    handover::clear(&net, &settings.translator.device).await?;
    check_v4(&net, &settings).await?;
    let finder = Finder::new(&settings, &uplink)?;
    let site = Site {
        net: net.clone(),
        settings: Arc::new(settings),
        uplink,
    };
    let mut clat = Clat::new(site, finder, host.watch.clone(), Box::new(read));
    let served = async {
        clat.begin().await?;
        let _metrics = Metrics::start(&clat.site.settings, control.asker(), &host.watch);
        service::serve(&mut clat, &mut host, &mut control).await
    }
    .await;
    served.map(|_| ())
}

/// A link with what the operator says of it.
fn as_configured(mut uplink: Link, settings: &Settings) -> Link {
    uplink.mtu6 = settings.translator.mtu6.or(uplink.mtu6);
    uplink
}

/// What reads the configuration.
type Read = Box<dyn Fn() -> Result<Settings, Failure>>;

/// A CLAT on its way from a prefix to translation, and from that to the next.
struct Clat {
    /// Reads the configuration again.
    read: Read,
    /// Until then the prefix in force stays, although none is known: the search has only just begun.
    holds: Option<Instant>,
    site: Site,
    finder: Finder,
    watch: Watch,
    /// The prefix that was chosen last.
    wanted: Option<Ipv6Net>,
    /// For what is wanted: an address that is tried out.
    claiming: Option<BoxFuture<'static, Result<Claim, Failure>>>,
    /// How often in a row the kernel could not say whether there is an address.
    failures: u32,
    /// There was no prefix of the uplink's for an address: it is tried again when that changes.
    stranded: bool,
    /// Built with the first prefix.
    device: Option<ClatDevice>,
    /// Where the address of the device is from.
    origin: String,
    /// It lies in a prefix of the uplink's. After a reload, the configuration may speak of the next address already.
    is_of_uplink: bool,
    /// Answers for the address.
    answering: Option<Task>,
    /// Hears that another host has the address, while it is tentative.
    duplicate: Option<oneshot::Receiver<()>>,
    /// The uplink's prefixes: what tells one network from another.
    prefixes: Vec<Ipv6Net>,
    /// Of the uplink's MTU.
    mtus: mtu::Changes,
    /// That it is ready was said last of this.
    ready: Option<Side6>,
    /// Why nothing can pass, as it was said last.
    obstacle: Option<String>,
}

impl Clat {
    fn new(site: Site, finder: Finder, watch: Watch, read: Read) -> Clat {
        Clat {
            read,
            holds: None,
            site,
            finder,
            watch,
            wanted: None,
            claiming: None,
            failures: 0,
            stranded: false,
            device: None,
            origin: String::new(),
            is_of_uplink: false,
            answering: None,
            duplicate: None,
            prefixes: Vec::new(),
            mtus: mtu::Changes::default(),
            ready: None,
            obstacle: None,
        }
    }

    async fn begin(&mut self) -> Result<(), Failure> {
        if self.finder.is_search() {
            let uplink = &self.site.uplink;
            self.prefixes = self.site.net.global_prefixes(uplink.index).await?;
            tracing::info!(
                "waiting for a translation prefix: soliciting routers on {} (RFC 8781), asking resolvers (RFC 7050)",
                uplink.name
            );
        }
        self.follow().await;
        Ok(())
    }

    /// The prefix with which packets are translated now.
    fn in_force(&self) -> Option<Ipv6Net> {
        let open = self.device.as_ref().filter(|device| device.is_open);
        open.map(|device| device.side6.pref64)
    }

    /// Compares what is wanted with the prefix that is to be used now, and sets out for it.
    async fn follow(&mut self) {
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

    /// Begins with the first stage for a prefix. `keeps`: an address that fits is kept. `pause`: how long it is waited
    /// before another one is claimed.
    fn set_out(&mut self, prefix: Ipv6Net, keeps: bool, pause: Duration) {
        if let (Some(why), None) = (self.site.uplink.obstacle6(), &self.device) {
            // Nobody could be asked there whether an address is free.
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
            // It is answered for all the time.
            Some(side6) => async move { Ok(Claim::Kept(side6.address)) }.boxed(),
            None => {
                let site = self.site.clone();
                // What works goes on until an address is known to be free, and a search may find a better prefix.
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

    /// There is an address for what is wanted: build with it, or move to it, and open.
    async fn claimed(&mut self, claimed: Result<Claim, Failure>) -> Result<(), Failure> {
        let Some(pref64) = self.wanted else {
            return Ok(());
        };
        let failures = std::mem::replace(&mut self.failures, 0);
        let (address, made) = match claimed {
            Ok(Claim::Made(made)) => (made.address, Some(made)),
            Ok(Claim::Kept(address)) => (address, None),
            Ok(Claim::NotYet(why)) if self.goes_on_without(pref64) => {
                self.exclude(pref64, Unusable::Unclaimed, &why).await;
                return Ok(());
            }
            Ok(Claim::NotYet(why)) if self.finder.is_search() => {
                self.strand(&why.to_string()).await;
                return Ok(());
            }
            // With an address that works it is no reason to end; nor where there may be another prefix.
            Ok(Claim::Taken(why))
                if self.device.is_some() && !self.stranded || self.finder.is_search() =>
            {
                self.exclude(pref64, Unusable::Unclaimed, &why).await;
                return Ok(());
            }
            Ok(Claim::NotYet(why) | Claim::Taken(why)) => return Err(why),
            // It says nothing about the prefix.
            Err(why) if self.device.is_some() || why.is_transient => {
                self.claim_later(pref64, failures, &why);
                return Ok(());
            }
            Err(why) => return Err(why),
        };
        let side6 = Side6 { pref64, address };
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
            // What the network says does not fit what the operator says.
            Err(failure) if failure.kind == Kind::Usage && self.finder.is_search() => {
                self.exclude(pref64, Unusable::Contradicts, &failure).await;
                return Ok(());
            }
            Err(failure) if failure.is_transient => {
                self.claim_later(pref64, failures, &failure);
                return Ok(());
            }
            done => done?,
        }
        self.stranded = false;
        self.finder.worked(pref64);
        if let Some(made) = made {
            tracing::info!("the CLAT's IPv6 address is {address}: {}", made.origin);
            self.origin = made.origin;
            self.is_of_uplink = self.site.settings.clat.follows_uplink();
            if let Some(responder) = made.responder {
                self.answer_for(responder, made.is_tentative);
            }
        }
        self.look_at_way().await
    }

    /// Tries for an address again, soon and then less often. What works goes on meanwhile.
    fn claim_later(&mut self, pref64: Ipv6Net, failures: u32, why: &Failure) {
        let pause = RETRY * (1 << failures.min(DOUBLINGS));
        if failures == 0 {
            tracing::warn!("no address yet for the prefix {pref64}: {why}; retrying");
        }
        self.failures = failures + 1;
        self.set_out(pref64, false, pause);
    }

    /// Answers for the CLAT's address on a task of its own: a neighbour does not wait until a program is loaded.
    fn answer_for(&mut self, responder: Responder, is_tentative: bool) {
        // The old one first: it would take the new one's solicitations for its own.
        self.answering = None;
        let (report, duplicate) = oneshot::channel();
        self.duplicate = is_tentative.then_some(duplicate);
        let answer = async move {
            if is_tentative && !responder.is_unique_in_use().await {
                // If nobody hears it, another address is in use already.
                let _ = report.send(());
                return std::future::pending().await;
            }
            drop(report);
            match responder.answer().await {}
        };
        self.answering = Some(self.watch.task("neighbour discovery", answer));
    }

    /// There is another prefix that works, and is known still.
    fn goes_on_without(&mut self, pref64: Ipv6Net) -> bool {
        let others = self.in_force().filter(|present| *present != pref64);
        others.is_some_and(|present| self.finder.knows(present)) && !self.stranded
    }

    /// What works goes on, and the next best prefix is taken if nothing does.
    async fn exclude(&mut self, pref64: Ipv6Net, how: Unusable, why: &Failure) {
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
        // If it is still the next best one, what is in force needs nothing new.
        self.wanted = present.or(Some(pref64));
        self.follow().await;
    }

    /// Opens once something can pass, and says when nothing can any more.
    async fn look_at_way(&mut self) -> Result<(), Failure> {
        let Some(device) = &self.device else {
            return Ok(());
        };
        let side6 = device.side6;
        if self.stranded || self.wanted != Some(side6.pref64) {
            return Ok(());
        }
        let Site { net, uplink, .. } = &self.site;
        // The fast path sends out of the uplink, whatever the routes say.
        let way = match device.fast {
            Some(_) => Way::Through(uplink.index),
            None => Way::Any,
        };
        let obstacle = match net.obstacle6(uplink, side6.pref64, way).await {
            Ok(obstacle) => obstacle.or_else(|| device.obstacle()),
            // A table of a million routes takes long to list. What works goes on.
            Err(failure) => {
                tracing::warn!("cannot determine whether packets can pass: {failure}");
                return Ok(());
            }
        };
        let router = match obstacle {
            None => net.sole_router(side6.pref64, uplink.index).await,
            Some(_) => None,
        };
        let Some(device) = &mut self.device else {
            return Ok(());
        };
        device.next_hop(uplink, router);
        let before = std::mem::replace(&mut self.obstacle, obstacle.clone());
        match obstacle {
            None => {
                device.open(&self.site).await?;
                self.announce(side6);
            }
            Some(why) if before.as_ref() == Some(&why) => {}
            // Sockets that are open stay so: the routes remain, and who sends meanwhile hears of it by ICMP.
            Some(why) if device.is_open => {
                tracing::warn!("nothing can pass: {why}: waiting until that changes");
                self.ready = None;
            }
            Some(why) => tracing::warn!("waiting: {why}"),
        }
        Ok(())
    }

    fn announce(&mut self, side6: Side6) {
        if self.ready.replace(side6) == Some(side6) {
            return;
        }
        tracing::info!("ready: {}", self.description());
    }

    /// What is translated into what, and which way packets take, in one line.
    fn description(&self) -> String {
        let Some(device) = &self.device else {
            return String::new();
        };
        format!(
            "{} <-> {} on {}, prefix {}, datapath {}",
            self.site.settings.clat.v4,
            device.side6.address,
            self.site.uplink.name,
            device.side6.pref64,
            datapath::datapath(device.fast.as_deref())
        )
    }

    /// Takes the IPv4 routes away until there is something to open for.
    async fn close(&mut self, why: &str) {
        let was_open = self.device.as_ref().is_some_and(|device| device.is_open);
        if let Some(device) = &mut self.device {
            device.close(&self.site).await;
        }
        self.ready = None;
        self.obstacle = None;
        let what = match was_open {
            true => "IPv4 routes are removed until that changes",
            false => "waiting until that changes",
        };
        tracing::warn!("{why}: {what}");
    }

    /// There is no address to translate to until the uplink has another prefix.
    async fn strand(&mut self, why: &str) {
        self.stranded = true;
        // Whoever tries the address out again must not hear from us that it is taken.
        self.answering = None;
        self.close(why).await;
        self.obstacle = Some(why.to_owned());
    }
}
