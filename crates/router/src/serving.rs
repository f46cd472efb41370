// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running router: its reactions to changes of the network.

use std::collections::BTreeSet;
use std::time::Duration;

use ipnet::IpNet;
use tokio::time::Instant;

use super::bypassed::Bypassed;
use super::cluster::HOPS;
use super::gateway::Gateway;
use super::idle_drivers::IdleDrivers;
use super::outside::Outside;
use super::unannounced::Unannounced;
use super::{addresses, ways};
use diolkos_config::Settings;
use diolkos_control::metrics::Metrics;
use diolkos_control::service::{until, Account, End, Heed, Reply, Service};
use diolkos_control::translator::{Asker, Condition, Finding, Request};
use diolkos_datapath::expiry::{self, Expiry};
use diolkos_kernel::net::{shown, DeviceConfig, Event, Link, Net, RouteNews, Sample};
use diolkos_service::failure::Failure;
use diolkos_service::signals::Came;
use diolkos_service::supervise::Watch;

mod findings;

use findings::SUSPICION;

/// Interval between two checks of the drivers' abilities, for which there are no notifications.
const DRIVERS: Duration = Duration::from_secs(2);

/// The timed and internal events of a router.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Check the drivers' abilities.
    Drivers,
    /// The set of raised alarms has changed.
    Alarms,
    /// The gateway of a cluster should get packets, or should no longer.
    Cluster,
    /// Look up the next hops to the gateways of the cluster, and those of a switch.
    Hops,
    /// Check whether packets arrive for addresses that no node answers for.
    Unannounced,
    /// IPsec policies, or rules of nftables, were added or removed.
    Bypassed,
    /// Check for routing loops.
    Loops,
    /// An address is answered for now, or left to another node.
    Announced,
    /// The kernel has refused rules for the address that nodes share.
    Outside,
}

/// Serves a gateway.
pub(super) struct Router<'a, R> {
    pub(super) gateway: &'a mut Gateway,
    pub(super) net: &'a Net,
    /// Reads the configuration again.
    pub(super) read: &'a R,
    /// Tells whether a signal has arrived, after which no client waits for a reload.
    pub(super) came: Came,
    /// Starts supervised tasks.
    pub(super) watch: Watch,
    /// The server of metrics.
    pub(super) metrics: Metrics,
    /// The obstacles for packets, as last logged.
    pub(super) obstacles: BTreeSet<String>,
    /// Packets that had a way, or may have one.
    pub(super) samples: Vec<Sample>,
    /// Where forwarding has been switched off, as last logged.
    pub(super) unforwarded: BTreeSet<String>,
    /// Addresses of this host that are also in the pool, as last logged.
    pub(super) contradiction: Option<String>,
    /// Networks where no node answers for addresses that lead here.
    pub(super) unannounced: Unannounced,
    /// When to check whether packets arrive there nevertheless.
    pub(super) suspicion_next: Instant,
    /// True if an interface has changed since the last check.
    pub(super) has_new_links: bool,
    /// True if it was last logged that packets can pass.
    pub(super) was_ready: bool,
    pub(super) bypassed: Bypassed,
    /// True if rules or routes have changed since routing was last asked what it refuses.
    pub(super) has_new_rules: bool,
    /// The other findings, as last logged.
    pub(super) findings: BTreeSet<Finding>,
    /// When to check the drivers' abilities.
    drivers_next: Instant,
    idle_drivers: IdleDrivers,
    /// When to look up the next hops to the gateways of a cluster.
    hops_next: Instant,
    /// Until then, the next hops of a switch are not looked up again.
    hops_rest: Instant,
    /// Packets that ran out of hops.
    pub(super) expiry: Expiry,
    /// When to check for routing loops.
    loops_next: Instant,
}

impl<'a, R: Fn() -> Result<Settings, Failure>> Router<'a, R> {
    pub(super) fn new(
        net: &'a Net,
        gateway: &'a mut Gateway,
        read: &'a R,
        came: Came,
        watch: Watch,
        asker: Asker,
        bypassed: Bypassed,
    ) -> Self {
        let expiry = Expiry::new(&gateway.slow.tallies);
        let metrics = Metrics::start(&gateway.settings, asker, &watch);
        let samples = ways::samples(&gateway.settings);
        Router {
            gateway,
            net,
            read,
            came,
            watch,
            metrics,
            obstacles: BTreeSet::new(),
            samples,
            unforwarded: BTreeSet::new(),
            contradiction: None,
            unannounced: Unannounced::default(),
            suspicion_next: Instant::now(),
            has_new_links: false,
            was_ready: true,
            bypassed,
            has_new_rules: false,
            findings: BTreeSet::new(),
            drivers_next: Instant::now() + DRIVERS,
            idle_drivers: IdleDrivers::default(),
            hops_next: Instant::now() + HOPS,
            hops_rest: Instant::now(),
            expiry,
            loops_next: Instant::now() + expiry::LOOK,
        }
    }

    /// Logs new obstacles for packets, and those that have ended. Packets pass even if this fails: listing a million
    /// routes may exceed the time of a request.
    pub(super) async fn look_for_obstacles(&mut self) {
        self.look_at_forwarding();
        if let Err(failure) = self.compare_obstacles().await {
            tracing::warn!("cannot determine what blocks packets: {failure}");
        }
        self.look_at_networks().await;
    }

    /// Follows the address that nodes share. An interface that comes back is news of links, too. A transient failure has the
    /// caller look again.
    async fn follow_outside(&mut self) -> Result<(), Failure> {
        let followed = self.gateway.follow_outside(self.net).await;
        self.find();
        match followed {
            Err(failure) if !failure.is_transient() => {
                tracing::warn!("cannot follow the address that nodes share: {failure}");
                Ok(())
            }
            followed => followed,
        }
    }

    fn look_at_forwarding(&mut self) {
        let now = self.gateway.forwarding.check();
        let now = now.into_iter().collect();
        let therefore = "packets from there do not pass; `diolkos reload` switches it on again";
        log_changes(&mut self.unforwarded, now, therefore);
    }

    async fn compare_obstacles(&mut self) -> Result<(), Failure> {
        let all = self.net.links().await?;
        let links = all.into_iter().filter(|link| self.is_named(link));
        let links: Vec<Link> = links.collect();
        // Without forwarding, the kernel refuses all packets that it is asked about.
        let samples = match self.unforwarded.is_empty() {
            true => &mut self.samples[..],
            false => &mut [],
        };
        let now = self.net.obstacles(&links, self.gateway.index, samples);
        let now = now.await?;
        let now: BTreeSet<String> = now.into_iter().collect();
        log_changes(&mut self.obstacles, now, "packets that need it cannot pass");
        Ok(())
    }

    fn is_named(&self, link: &Link) -> bool {
        let names = &self.gateway.settings.translator.interfaces;
        names.contains(&link.name)
    }
}

/// Logs what is new, with its consequence, and what has ended.
fn log_changes(before: &mut BTreeSet<String>, now: BTreeSet<String>, therefore: &str) {
    for new in now.difference(before) {
        tracing::warn!("{new}: {therefore}");
    }
    let over: Vec<String> = before.difference(&now).cloned().collect();
    if !over.is_empty() {
        tracing::info!("no longer: {}", shown(&over));
    }
    *before = now;
}

impl<R: Fn() -> Result<Settings, Failure>> Service for Router<'_, R> {
    type Wakeup = Due;

    fn device(&self) -> &str {
        &self.gateway.settings.translator.device
    }

    fn own(&self) -> Option<DeviceConfig> {
        Some(self.gateway.own())
    }

    fn index(&self) -> Option<u32> {
        Some(self.gateway.index)
    }

    fn has_address(&self) -> bool {
        false
    }

    fn leads(&self, to: &IpNet) -> bool {
        let routes = &self.gateway.routes;
        match to {
            IpNet::V4(to) => routes.v4.contains(to) || routes.owned.contains(to),
            IpNet::V6(to) => routes.v6.contains(to),
        }
    }

    fn ends(&self) -> Option<End> {
        let goes_over = || self.gateway.cluster.as_ref()?.goes_over();
        match self.gateway.ends {
            true => Some(End::ForGood),
            false => goes_over().map(|_| End::Again),
        }
    }

    fn account(&self) -> Account {
        let wrong = self.obstacles.iter().chain(&self.unforwarded);
        Account {
            is_settled: true,
            text: self.gateway.description(),
            wrong: wrong
                .chain(&self.contradiction)
                .cloned()
                .chain(self.all_findings().into_iter().map(|finding| finding.text))
                .collect(),
        }
    }

    async fn wait(&mut self) -> Due {
        let drivers = until(self.gateway.has_drivers().then_some(self.drivers_next));
        let loops = until(Some(self.loops_next));
        let has_hops =
            self.gateway.cluster.is_some() || self.gateway.translation.switch().is_some();
        let hops = until(has_hops.then_some(self.hops_next));
        let looks_again = self.unannounced.may_change() || self.has_new_links;
        let suspicion = until(looks_again.then_some(self.suspicion_next));
        let alarms = async {
            match self.gateway.translation.stateful() {
                Some(stateful) => stateful.alarms.changed().await,
                None => std::future::pending().await,
            }
        };
        let retry = self.gateway.outside.as_ref().and_then(Outside::retry);
        let outside = until(retry);
        let moves = self.gateway.cluster_moves();
        let announced = async {
            match &self.gateway.announcer {
                Some(announcer) => announcer.moved().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = drivers => Due::Drivers,
            () = alarms => Due::Alarms,
            () = hops => Due::Hops,
            () = loops => Due::Loops,
            () = moves => Due::Cluster,
            () = announced => Due::Announced,
            () = suspicion => Due::Unannounced,
            () = self.bypassed.changed() => Due::Bypassed,
            () = outside => Due::Outside,
        }
    }

    async fn obey(&mut self, due: Due) -> Result<(), Failure> {
        match due {
            // The status is reported after each event.
            Due::Alarms => return Ok(()),
            Due::Cluster => {
                if let Err(failure) = self.gateway.follow_cluster(self.net).await {
                    tracing::warn!(
                        "the routes cannot follow the node's part in the cluster; trying again: {failure}"
                    );
                }
                self.find();
                return Ok(());
            }
            Due::Hops => {
                self.hops_next = Instant::now() + HOPS;
                self.gateway.look_at_nodes(self.net).await;
                let begun = Instant::now();
                self.gateway.look_at_hops(self.net).await;
                self.hops_rest = Instant::now() + 20 * begun.elapsed();
                self.hops_next = self.hops_next.max(self.hops_rest);
                if let Err(failure) = self.gateway.follow_cluster(self.net).await {
                    tracing::debug!("{failure}");
                }
                self.find();
                return Ok(());
            }
            Due::Unannounced => {
                self.look_at_networks().await;
                return Ok(());
            }
            Due::Bypassed => {
                self.find();
                return Ok(());
            }
            Due::Loops => {
                self.loops_next = Instant::now() + expiry::LOOK;
                self.expiry.look(&self.gateway.slow.tallies);
                return Ok(());
            }
            Due::Announced => {
                self.find();
                return Ok(());
            }
            Due::Outside => return self.follow_outside().await,
            Due::Drivers => {}
        }
        self.drivers_next = Instant::now() + DRIVERS;
        if let Err(failure) = self.gateway.look_at_drivers(self.net).await {
            tracing::warn!("cannot read the XDP features of the drivers: {failure}");
        }
        self.idle_drivers.look(self.gateway.translation.fast());
        Ok(())
    }

    async fn link(&mut self, event: Event) -> Result<Heed, Failure> {
        // Containers come and go; all routes are checked only for events that may have removed a route.
        let heed = match &event {
            Event::LinkChanged(link) if link.running && !self.is_named(link) => Heed::Nothing,
            _ => Heed::Routes,
        };
        // A network may have come with it. Checking all routes for that would take too long.
        if !std::mem::replace(&mut self.has_new_links, true) {
            self.suspicion_next = Instant::now() + SUSPICION;
        }
        let heed = match self.obstacles.is_empty() {
            true => heed,
            false => Heed::Routes,
        };
        let gateway = &mut *self.gateway;
        if gateway.concerns_programs(&event) {
            if let Err(failure) = gateway.refresh(self.net).await {
                tracing::warn!("cannot update the interfaces in the programs: {failure}");
            }
        }
        gateway.follow_announced(&event, self.net).await;
        match event {
            Event::LinkGone(index) if gateway.inline.contains(&index) => {
                gateway.inline.retain(|inline| *inline != index);
                tracing::warn!("an interface where packets were translated is gone");
            }
            Event::LinkChanged(link) if gateway.misses(&link) => {
                if let Err(failure) = gateway.take_up(self.net, &link.name).await {
                    tracing::warn!(
                        "packets that arrive at {} are not translated there: {failure}",
                        link.name
                    );
                }
            }
            _ => {}
        }
        // A link that goes down removes routes, which the kernel does not report in IPv4.
        Ok(heed)
    }

    fn routes_change(&mut self, news: &RouteNews) -> Heed {
        let has_switch = self.gateway.translation.switch().is_some();
        let moves = self.gateway.cluster.is_some() && news.moves6(Some(self.gateway.index));
        if moves {
            self.hops_next = Instant::now();
        }
        if has_switch {
            // Not all the time, where the routes are many and change often.
            self.hops_next = self.hops_next.min(self.hops_rest.max(Instant::now()));
        }
        let is_refused = self.heeds_refusals(news);
        // With a million routes, a change of one must not cause a check of all.
        let is_led = |net: &IpNet| self.samples.iter().any(|sample| sample.is_led_by(net));
        let is_moved = is_refused
            || news.took_default()
            || news.moves_rules()
            || news.may_concern(is_led)
            || (self.gateway.outside.is_some() && news.moves_default4())
            || self.gateway.concerns_loops(news);
        match is_moved || !self.obstacles.is_empty() {
            true => Heed::Routes,
            false => Heed::Nothing,
        }
    }

    async fn look_at_routes(&mut self) -> Result<(), Failure> {
        self.look_at_refusals().await;
        self.follow_outside().await?;
        self.look_for_obstacles().await;
        if let Err(failure) = self.gateway.look_at_loops(self.net).await {
            tracing::warn!("cannot determine which packets would come back: {failure}");
        }
        Ok(())
    }

    fn lacks_forwarding(&self) -> bool {
        self.gateway.forwarding.is_unforced()
    }

    fn settings_forgotten(&mut self, index: u32) {
        self.gateway.forwarding.forgotten(index);
    }

    async fn look_at_settings(&mut self) -> Result<(), Failure> {
        let was_on = self.unforwarded.is_empty();
        self.look_at_forwarding();
        if was_on != self.unforwarded.is_empty() {
            self.look_for_obstacles().await;
        }
        // Whether the kernel answers for others is a setting, too.
        self.look_at_networks().await;
        Ok(())
    }

    async fn look_at_addresses(&mut self) -> Result<(), Failure> {
        self.follow_outside().await?;
        let found = addresses::check(self.net, &self.gateway.settings).await;
        let said = found.err().map(|failure| failure.to_string());
        match (&self.contradiction, &said) {
            (before, Some(now)) if before.as_ref() != Some(now) => tracing::warn!("{now}"),
            (Some(_), None) => {
                tracing::info!("the pool no longer contains an address of this host");
            }
            _ => {}
        }
        self.contradiction = said;
        // With the first or the last address of a family, its routes come and go.
        self.look_for_obstacles().await;
        Ok(())
    }

    fn condition(&self) -> Condition {
        let obstacles = self.obstacles.iter().chain(&self.unforwarded);
        self.gateway.condition(
            obstacles.chain(&self.contradiction).cloned().collect(),
            self.all_findings(),
        )
    }

    async fn reply(&mut self, request: Request) -> Reply {
        self.answer(request).await
    }
}
