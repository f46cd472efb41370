// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens the CLAT once packets can pass, and closes it when there is nothing to translate to.

use super::device::Site;
use super::rules::Side6;
use super::Clat;
use crate::datapath;
use crate::failure::Failure;
use crate::net::Way;

impl Clat {
    /// Opens once something can pass, and says when nothing can any more.
    pub(super) async fn look_at_way(&mut self) -> Result<(), Failure> {
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
        let Some(device) = &self.device else {
            return Ok(());
        };
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

    pub(super) fn announce(&mut self, side6: Side6) {
        if self.ready.replace(side6) == Some(side6) {
            return;
        }
        tracing::info!("ready: {}", self.description());
    }

    /// What is translated into what, and which way packets take, in one line.
    pub(super) fn description(&self) -> String {
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

    /// There is no address to translate to until the uplink has another prefix.
    pub(super) async fn strand(&mut self, why: &str) {
        self.stranded = true;
        // Whoever tries the address out again must not hear from us that it is taken.
        self.answering = None;
        self.close(why).await;
        self.obstacle = Some(why.to_owned());
    }
}
