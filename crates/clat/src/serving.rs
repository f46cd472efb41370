// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running CLAT: its reactions to changes of the network.

use std::time::Duration;

use ipnet::Ipv6Net;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::claim::Claim;
use super::device::ClatDevice;
use super::error::ClatError;
use super::{as_configured, Clat, IPV6_MINIMUM_MTU};
use diolkos_control::service::{until, Account, End, Heed, Reply, Service};
use diolkos_control::translator::{Condition, Request};
use diolkos_datapath::expiry;
use diolkos_kernel::neighbour::Responder;
use diolkos_kernel::net::{DeviceConfig, Event, PolicyNews, RouteNews, Standing};
use diolkos_service::failure::Failure;

/// The events of a CLAT.
pub(super) enum ClatEvent {
    /// There is news about prefixes.
    Prefixes,
    /// A claim of an address has ended.
    Claimed(Result<Claim, Failure>),
    /// Another host has the address that is in use.
    Duplicate,
    /// The uplink's MTU may be applied now.
    Mtu,
    /// Ask the kernel for the way again.
    Way,
    /// An answer may have come, or IPsec policies may have changed.
    Doubts,
    /// Check for routing loops.
    Loops,
    /// The routers have had time to confirm the prefixes of an uplink that came up.
    Arrived,
}

impl Service for Clat {
    type Wakeup = ClatEvent;

    fn device(&self) -> &str {
        &self.site.settings.translator.device
    }

    fn own(&self) -> Option<DeviceConfig> {
        Some(self.device.as_ref()?.own())
    }

    fn ends(&self) -> Option<End> {
        self.ends.then_some(End::ForGood)
    }

    fn account(&self) -> Account {
        let clat = &self.site.settings.clat;
        let uplink = &self.site.uplink.name;
        let waits = |text: String| (true, text, Vec::new());
        let (is_settled, text, wrong) = match (&self.ready, &self.obstacle, self.wanted) {
            (_, Some(why), _) => (
                !self.is_pending,
                format!("clat on {uplink}: waiting"),
                vec![why.clone()],
            ),
            (Some(_), None, _) => (true, self.description(), Vec::new()),
            (None, None, None) => waits(format!(
                "clat on {uplink}: waiting for a translation prefix"
            )),
            (None, None, Some(prefix)) if self.stranded => waits(format!(
                "clat on {uplink}: waiting for an address to translate {} into, prefix {prefix}",
                clat.v4()
            )),
            (None, None, Some(prefix)) => (
                false,
                format!("clat on {uplink}: trying an address out, prefix {prefix}"),
                Vec::new(),
            ),
        };
        let mut wrong: Vec<String> = wrong;
        wrong.extend(self.findings().into_iter().map(|finding| finding.text));
        Account {
            is_settled,
            text,
            wrong,
        }
    }

    async fn wait(&mut self) -> ClatEvent {
        tokio::select! {
            () = self.finder.step() => ClatEvent::Prefixes,
            claimed = made(&mut self.claiming) => {
                self.claiming = None;
                ClatEvent::Claimed(claimed)
            }
            () = found(&mut self.duplicate) => ClatEvent::Duplicate,
            () = until(self.mtus.waits()) => ClatEvent::Mtu,
            () = until(self.holds) => ClatEvent::Prefixes,
            () = until(self.asks) => ClatEvent::Way,
            () = until(self.doubts.waits()) => ClatEvent::Doubts,
            () = until(Some(self.loops_next)) => ClatEvent::Loops,
            () = until(self.arrival.waits()) => ClatEvent::Arrived,
            () = policies(&mut self.policies) => ClatEvent::Doubts,
        }
    }

    async fn obey(&mut self, step: ClatEvent) -> Result<(), Failure> {
        match step {
            ClatEvent::Prefixes => {}
            ClatEvent::Doubts => {
                self.say_doubts();
                return Ok(());
            }
            ClatEvent::Loops => {
                self.loops_next = Instant::now() + expiry::LOOK;
                let device = self.device.as_ref();
                self.expiry
                    .look(device.map_or(&[], |device| &device.slow.tallies));
                self.look_for_circle().await?;
                return self.look_for_answers().await;
            }
            ClatEvent::Claimed(claimed) => self.claimed(claimed).await?,
            ClatEvent::Duplicate => self.leave_to_other().await,
            ClatEvent::Way => {
                self.ask_for_way().await?;
                self.say_doubts();
                return Ok(());
            }
            ClatEvent::Arrived => {
                self.arrival.rest();
                return self.look_at_addresses().await;
            }
            ClatEvent::Mtu => {
                self.mtus.rest();
                self.follow_uplink().await?;
            }
        }
        self.follow().await;
        self.doubt().await;
        Ok(())
    }

    async fn link(&mut self, event: Event) -> Result<Heed, Failure> {
        let uplink = &self.site.uplink;
        match event {
            Event::LinkGone(index) if index == uplink.index => Err(self.uplink_is_gone()),
            Event::LinkChanged(link) if link.index == uplink.index => {
                self.follow_uplink().await?;
                Ok(Heed::Routes)
            }
            // There may be a better uplink now.
            Event::LinkChanged(_) if self.chooses_uplink => Ok(Heed::Routes),
            _ => Ok(Heed::Nothing),
        }
    }

    fn routes_change(&mut self, news: &RouteNews) -> Heed {
        if !news.moves6(self.device.as_ref().map(|device| device.index)) {
            // The uplink may be a tunnel whose own packets now take another way.
            if self.site.uplink.is_virtual && news.moves4() {
                self.circle.forget();
                self.ask_soon();
            }
            return Heed::Nothing;
        }
        // At once: a tunnel over the CLAT may have become the way of what the CLAT sends. Lists can wait.
        self.ask_soon();
        Heed::Routes
    }

    async fn look_at_routes(&mut self) -> Result<(), Failure> {
        self.look_for_another_uplink().await?;
        self.look_at_way().await?;
        self.doubt().await;
        Ok(())
    }

    fn lacks_forwarding(&self) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(ClatDevice::lacks_forwarding)
    }

    fn settings_forgotten(&mut self, index: u32) {
        if let Some(forwarding) = self.device.as_mut().and_then(ClatDevice::forwarding) {
            forwarding.forgotten(index);
        }
    }

    async fn look_at_settings(&mut self) -> Result<(), Failure> {
        let forwarding = self.device.as_mut().and_then(ClatDevice::forwarding);
        let Some(forwarding) = forwarding else {
            return Ok(());
        };
        forwarding.check();
        self.look_at_way().await
    }

    /// Checks whether the CLAT's address still fits, and whether this is the same network.
    async fn look_at_addresses(&mut self) -> Result<(), Failure> {
        // A router announces the MTU together with addresses, or right after them.
        self.follow_uplink().await?;
        self.mtus.come_later(Instant::now());
        self.look_at_left().await?;
        self.look_at_own_address().await?;
        if let (true, Some(prefix), None) = (self.stranded, self.wanted, &self.claiming) {
            self.set_out(prefix, false, Duration::ZERO);
        }
        if self.finder.is_search() {
            let index = self.site.uplink.index;
            let prefixes = self.site.net.global_prefixes(index).await?;
            let before = std::mem::replace(&mut self.prefixes, prefixes);
            let now = &self.prefixes;
            if before != *now {
                self.finder.reconsider();
            }
            if !before.is_empty() && !before.iter().any(|prefix| now.contains(prefix)) {
                self.finder.attached();
            } else if before != *now {
                self.finder.look_again();
            }
            self.follow().await;
        }
        // With IPv6 on the uplink, or without, other packets can pass.
        self.look_at_way().await?;
        self.doubt().await;
        Ok(())
    }

    fn condition(&self) -> Condition {
        self.present_condition()
    }

    async fn reply(&mut self, request: Request) -> Reply {
        Reply::Now(match request {
            Request::Reload => self.reload().await,
            Request::Trace(packet) => self.trace(packet).await,
            request => self.answer(request),
        })
    }
}

impl Clat {
    /// Checks the CLAT's own address. No answer would reach an address from a removed prefix. The network is about to
    /// withdraw a deprecated prefix, so its address is left as soon as there is another (RFC 4862 section 5.5.4).
    async fn look_at_own_address(&mut self) -> Result<(), Failure> {
        let Some(side6) = self.device.as_ref().map(|device| device.side6) else {
            return Ok(());
        };
        if self.stranded {
            return Ok(());
        }
        if side6.is_shared {
            return match self.look_at_shared_address().await? {
                None => Ok(()),
                Some(why) => self.lose_address(&why).await,
            };
        }
        if !self.is_of_uplink {
            return Ok(());
        }
        let (net, uplink, left) = (&self.site.net, &self.site.uplink, &self.site.left);
        let is_left = |address| left.iter().any(|prefix| prefix.contains(&address));
        match net.standing(uplink.index, side6.address).await? {
            Standing::Held if !is_left(side6.address) => Ok(()),
            standing @ (Standing::Held | Standing::Deprecated) => {
                let others = net.global_prefixes(uplink.index).await?;
                let is_other =
                    |prefix: &&Ipv6Net| prefix.prefix_len() == 64 && !left.contains(prefix);
                let other = others.iter().find(is_other);
                let why = match standing {
                    Standing::Held => "of a network that the host has left",
                    _ => "deprecated",
                };
                if let (Some(other), Some(wanted), None) = (other, self.wanted, &self.claiming) {
                    tracing::info!(
                        "the prefix of {} is {why} on {}: moving to {other}",
                        side6.address,
                        uplink.name
                    );
                    self.set_out(wanted, false, Duration::ZERO);
                }
                Ok(())
            }
            Standing::Gone => {
                let why = format!(
                    "{} no longer has an address in the prefix of {}",
                    uplink.name, side6.address
                );
                self.lose_address(&why).await
            }
        }
    }

    /// Ends, or waits until the network gives another address, because there is nothing to translate to.
    async fn lose_address(&mut self, why: &str) -> Result<(), Failure> {
        if !self.finder.is_search() {
            return Err(ClatError::AddressLost {
                why: why.to_owned(),
            }
            .into());
        }
        self.strand(why).await;
        Ok(())
    }

    /// Gives up an address that another host has, and claims an unused one.
    async fn leave_to_other(&mut self) {
        let (Some(device), Some(prefix)) = (&self.device, self.wanted) else {
            return;
        };
        let why = format!(
            "{} is already the address of another host on {}",
            device.side6.address, self.site.uplink.name
        );
        self.strand(&why).await;
        self.set_out(prefix, false, Duration::ZERO);
    }

    fn uplink_is_gone(&mut self) -> Failure {
        let why = ClatError::UplinkGone(self.site.uplink.name.clone());
        match self.chooses_uplink {
            true => self.moves_away(why),
            false => why.into(),
        }
    }

    /// Applies new properties of the uplink: its link-layer address, its MTU, a carrier.
    async fn follow_uplink(&mut self) -> Result<(), Failure> {
        let Some(link) = self.site.net.link_at(self.site.uplink.index).await? else {
            return Err(self.uplink_is_gone());
        };
        let mut link = as_configured(link, &self.site.settings);
        let before = self.site.uplink.mtu6;
        if before >= IPV6_MINIMUM_MTU {
            link.mtu6 = self.mtus.follow(Instant::now(), before, link.mtu6);
        }
        let before = std::mem::replace(&mut self.site.uplink, link);
        let uplink = &self.site.uplink;
        if uplink.running && !before.running {
            self.finder.reconsider();
            self.finder.attached();
            self.arrive().await?;
        }
        let uplink = &self.site.uplink;
        if uplink.address != before.address {
            self.announce_link_address().await;
        }
        if let (None, true, None, Some(wanted)) =
            (&self.device, self.stranded, &self.claiming, self.wanted)
        {
            self.set_out(wanted, true, Duration::ZERO);
        }
        let Some(device) = &mut self.device else {
            return Ok(());
        };
        // A link that is too small for IPv6 is an obstacle, which is reported elsewhere.
        if self.site.uplink.mtu6 >= IPV6_MINIMUM_MTU && device.resize(&self.site).await? {
            tracing::info!(
                "the MTU of {} is now {} bytes ({} for IPv6)",
                self.site.uplink.name,
                self.site.uplink.mtu,
                self.site.uplink.mtu6
            );
        }
        Ok(())
    }

    /// Answers with the uplink's new link-layer address, and announces it to neighbours that remember the old one.
    async fn announce_link_address(&mut self) {
        if let (true, Some(wanted)) = (self.claiming.is_some(), self.wanted) {
            self.set_out(wanted, true, Duration::ZERO);
        }
        let (Some(device), Some(_)) = (&self.device, &self.answering) else {
            return;
        };
        let uplink = &self.site.uplink;
        let address = device.side6.address;
        match Responder::open(uplink.index, &uplink.address, address) {
            Ok(responder) => {
                tracing::info!(
                    "the link-layer address of {} changed: announcing it to neighbours",
                    uplink.name
                );
                self.answer_for(responder, self.duplicate.is_some());
            }
            Err(error) => tracing::warn!(
                "the link-layer address of {} changed, and cannot be announced to neighbours: {error}",
                uplink.name
            ),
        }
    }
}

/// Resolves when another host has the address; never, if none has.
async fn found(duplicate: &mut Option<oneshot::Receiver<()>>) {
    let is_found = match duplicate {
        Some(report) => report.await.is_ok(),
        None => false,
    };
    *duplicate = None;
    if !is_found {
        std::future::pending::<()>().await;
    }
}

/// Resolves when IPsec policies are added or removed, or never.
async fn policies(news: &mut Option<PolicyNews>) {
    match news {
        Some(news) => news.changed().await,
        None => std::future::pending().await,
    }
}

/// Resolves with the result of a claim, or never.
async fn made<T>(claiming: &mut Option<futures_util::future::BoxFuture<'static, T>>) -> T {
    match claiming {
        Some(claiming) => claiming.await,
        None => std::future::pending().await,
    }
}
