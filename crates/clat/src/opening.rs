// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens the CLAT once packets can pass, and closes it when there is nothing to translate to.
//!
//! ask the kernel for the packet → set the way for both paths → does the kernel keep to it, does the router answer →
//! open, or report the obstacle. Repeated at every change of routes, rules, addresses and links, and from time to time.

use std::time::Duration;

use tokio::time::Instant;

use super::device::{Passage, Site};
use super::error::ClatError;
use super::router::Verdict;
use super::rules::Side6;
use super::Clat;
use diolkos_datapath::choice;
use diolkos_kernel::net::Medium;
use diolkos_service::failure::Failure;

/// Interval for what the kernel does not report: which of several routers it prefers, and whether one answers.
const AGAIN: Duration = Duration::from_secs(2);
/// Interval while the router does not answer.
const AGAIN_SILENT: Duration = Duration::from_millis(500);
/// Interval while it is asked for the first time, and between two checks of changing routes.
const AGAIN_SOON: Duration = Duration::from_millis(50);

/// The result of a check.
struct RouteCheck {
    passage: Option<Passage>,
    obstacle: Option<String>,
    /// True if packets are sent although there is an obstacle: the kernel may find another router for some of them.
    sends: bool,
    /// True if the obstacle will end in a moment, and is not worth a line in the log.
    is_pending: bool,
    /// True if the IPv4 routes are the obstacle: it would end if they went behind others, and then begin again.
    goes_round: bool,
}

impl RouteCheck {
    fn blocked(why: String) -> RouteCheck {
        RouteCheck {
            passage: None,
            obstacle: Some(why),
            sends: false,
            is_pending: false,
            goes_round: false,
        }
    }
}

impl Clat {
    /// Opens once packets can pass, and reports when they no longer can. Reads lists of routes again.
    pub(super) async fn look_at_way(&mut self) -> Result<(), Failure> {
        self.may_have_changed = true;
        if let Some(device) = &self.device {
            let errand = device.errand(&self.site.uplink);
            match self.site.net.way_varies(&errand).await {
                Ok(varies) => self.varies = varies,
                // Listing a table of a million routes takes long. One router for all is never wrong.
                Err(failure) => {
                    self.varies = false;
                    tracing::warn!(
                        "cannot determine whether routes differ within the prefix: {failure}"
                    );
                }
            }
        }
        self.ask_for_way().await
    }

    /// Asks soon for the way, because routes are changing, and the current way may be wrong.
    pub(super) fn ask_soon(&mut self) {
        let soon = self
            .asked
            .map_or_else(Instant::now, |asked| asked + AGAIN_SOON);
        self.asks = Some(self.asks.map_or(soon, |asks| asks.min(soon)));
    }

    /// The same without lists.
    pub(super) async fn ask_for_way(&mut self) -> Result<(), Failure> {
        self.asks = None;
        let Some(device) = &self.device else {
            return Ok(());
        };
        let side6 = device.side6;
        if self.stranded || self.wanted != Some(side6.pref64) {
            return Ok(());
        }
        if self.steps_aside().await? {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        self.asks = Some(Instant::now() + AGAIN);
        let found = match self.find_open_way().await {
            Ok(found) => found,
            // What works continues.
            Err(failure) => {
                tracing::warn!("cannot determine whether packets can pass: {failure}");
                return Ok(());
            }
        };
        let Some(device) = &mut self.device else {
            return Ok(());
        };
        device.send(&self.site.uplink, found.sends);
        self.is_pending = found.is_pending;
        let obstacle = found.obstacle;
        let before = std::mem::replace(&mut self.obstacle, obstacle.clone());
        if obstacle.is_some() && !found.is_pending && !found.sends && !found.goes_round {
            device.stand_behind(&self.site, true).await;
        }
        match obstacle {
            None => {
                device.stand_behind(&self.site, false).await;
                device.open(&self.site).await?;
                self.announce(side6);
            }
            Some(_) if found.is_pending => {}
            Some(why) if before.as_ref() == Some(&why) => {}
            // Open sockets stay open: the routes remain, behind all others, and senders get an ICMP error meanwhile.
            Some(why) if device.is_open => {
                tracing::warn!("nothing can pass: {why}: waiting until that changes");
                self.ready = None;
            }
            Some(why) => tracing::warn!("waiting: {why}"),
        }
        Ok(())
    }

    /// The same with the IPv4 routes in place: by them, a tunnel's own packets may come here, and be sent into the
    /// tunnel again.
    async fn find_open_way(&mut self) -> Result<RouteCheck, Failure> {
        let found = self.find_way().await?;
        let Site { net, uplink, .. } = &self.site;
        let Some(device) = &mut self.device else {
            return Ok(found);
        };
        if found.obstacle.is_some() || !uplink.is_virtual {
            return Ok(found);
        }
        device.stand_behind(&self.site, false).await;
        if !device.is_open {
            device.send(uplink, false);
            device.open(&self.site).await?;
        }
        let circle = self.circle.obstacle();
        Ok(
            match circle.or(net.comes_back(uplink, device.index).await?) {
                None => found,
                Some(why) => RouteCheck {
                    goes_round: true,
                    ..RouteCheck::blocked(why)
                },
            },
        )
    }

    /// Asks for the way, and sets it for both paths. Returns the obstacle, if any.
    async fn find_way(&mut self) -> Result<RouteCheck, Failure> {
        let Site { net, uplink, .. } = &self.site;
        let Some(device) = &mut self.device else {
            return Err(ClatError::NoDevice.into());
        };
        let asked = match uplink.obstacle6() {
            Some(why) => Err(why),
            None => net.way(&device.errand(uplink)).await?,
        };
        let found = match asked {
            Err(why) => RouteCheck::blocked(why),
            Ok(way) => RouteCheck {
                passage: Some(Passage {
                    way,
                    // A VPN may have come up since the lists were read.
                    varies: self.varies && way.is_own,
                }),
                obstacle: None,
                sends: true,
                is_pending: false,
                goes_round: false,
            },
        };
        device.leave_by(&self.site, found.passage).await;
        let Some(passage) = found.passage else {
            return Ok(found);
        };
        device.renew_exit(net, self.may_have_changed).await;
        self.may_have_changed = false;
        let mut astray = net.strays(&device.errand(uplink)).await?;
        if astray.is_some() && device.put_exit_back(net).await {
            astray = net.strays(&device.errand(uplink)).await?;
        }
        let obstacle = device.obstacle().or(astray);
        if let Some(why) = obstacle.or_else(|| device.loses_packets(uplink)) {
            return Ok(RouteCheck::blocked(why));
        }
        let router = passage.way.router;
        let Some(router) = router.filter(|_| uplink.medium == Medium::Ethernet) else {
            return Ok(found);
        };
        let name = &uplink.name;
        match self.router.ask(net, uplink.index, router).await? {
            Verdict::Answers => Ok(found),
            // The router has just changed: packets for it wait in the kernel.
            Verdict::Pending if self.ready.is_some() => Ok(found),
            Verdict::Pending => {
                self.asks = Some(Instant::now() + AGAIN_SOON);
                let why =
                    format!("asking the router {router} on {name} for its link-layer address");
                Ok(RouteCheck {
                    obstacle: Some(why),
                    is_pending: true,
                    ..found
                })
            }
            Verdict::Silent => {
                self.asks = Some(Instant::now() + AGAIN_SILENT);
                let why = format!("the router {router} does not answer on {name}");
                Ok(RouteCheck {
                    obstacle: Some(why),
                    sends: passage.varies,
                    ..found
                })
            }
        }
    }

    pub(super) fn announce(&mut self, side6: Side6) {
        if self.ready.replace(side6) == Some(side6) {
            return;
        }
        let how = match self.is_doubtful() {
            true => "not ready",
            false => "ready",
        };
        tracing::info!("{how}: {}", self.description());
    }

    /// Describes the translation and the way of packets in one line.
    pub(super) fn description(&self) -> String {
        let Some(device) = &self.device else {
            return String::new();
        };
        format!(
            "{} <-> {} on {}, prefix {}, datapath {}",
            self.site.settings.clat.v4(),
            device.side6.address,
            self.site.uplink.name,
            device.side6.pref64,
            choice::name(device.fast.as_deref())
        )
    }

    /// Removes the IPv4 routes until there is a reason to open.
    pub(super) async fn close(&mut self, why: &str) {
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

    /// Waits until the uplink has another prefix, because there is no address to translate to.
    pub(super) async fn strand(&mut self, why: &str) {
        if self.stranded && self.obstacle.as_deref() == Some(why) {
            return;
        }
        self.stranded = true;
        // Our own answer must not make another attempt find the address taken.
        self.answering = None;
        self.close(why).await;
        self.obstacle = Some(why.to_owned());
    }
}
