// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of the device's packets out of the host: asked for, taken, renewed, and shut.

use std::time::Instant;

use diolkos_fastpath::WayOut;
use diolkos_kernel::net::{Errand, ExitRoute, Link, Medium, Net};
use diolkos_service::failure::Failure;

use super::device::{ClatDevice, Passage, Site};

impl ClatDevice {
    /// Describes the way of outgoing packets, for people.
    pub fn way_in_words(&self, uplink: &Link) -> String {
        let router = self.passage.and_then(|passage| passage.way.router);
        let name = &uplink.name;
        match (self.passage, router) {
            (Some(Passage { varies: true, .. }), _) => format!("through {name}, by route"),
            (_, Some(router)) => format!("through {name}, by the router {router}"),
            (_, None) => format!("through {name}"),
        }
    }

    /// Returns the packet that the kernel is asked about.
    pub fn errand<'a>(&self, uplink: &'a Link) -> Errand<'a> {
        Errand {
            uplink,
            from: self.side6.address,
            to: self.side6.pref64,
            forwarded_from: self.fast.is_none().then_some(self.index),
        }
    }

    /// Has packets take this way from now on. Without a way, nothing is sent.
    pub async fn leave_by(&mut self, site: &Site, passage: Option<Passage>) {
        if passage.is_none() {
            self.send(&site.uplink, false);
        }
        // Without a way the old exit stays: it misleads no packet, and the next way may be the same.
        self.passage = passage.or(self.passage);
        let done = match self.exit(site, self.side6) == self.own.exit {
            true => Ok(()),
            false => self.lay(site, self.is_open).await,
        };
        self.renewed_by(done, true);
    }

    /// Restores the exit, if there is one, because other software may have removed it. Returns false if there is none.
    pub async fn put_exit_back(&mut self, net: &Net) -> bool {
        let Some(exit) = &self.own.exit else {
            return false;
        };
        let done = net.set_exit(exit).await;
        self.renewed_by(done, false);
        true
    }

    /// Renews the exit, which expires by itself after a kill: in time, or because other software may have removed it.
    pub async fn renew_exit(&mut self, net: &Net, may_be_gone: bool) {
        let Some(exit) = &self.own.exit else { return };
        if may_be_gone || self.renewed.elapsed() >= ExitRoute::RENEWAL {
            let done = net.renew_exit(exit).await;
            self.renewed_by(done, false);
        }
    }

    pub(super) fn renewed_by(&mut self, done: Result<(), Failure>, is_same: bool) {
        match done {
            Ok(()) if is_same => {}
            Ok(()) => self.renewed = Instant::now(),
            Err(failure) => {
                let text = failure.to_string();
                if self.refusal != text {
                    tracing::warn!("{text}");
                    self.refusal = text;
                }
            }
        }
    }

    /// Removes what is not removed with the device.
    pub async fn leave(&self, net: &Net) {
        if let Some(exit) = &self.own.exit {
            if let Err(failure) = net.remove_exit(exit).await {
                tracing::debug!("{failure}");
            }
        }
    }

    /// Has the device send, or not: then packets that come to it are dropped, counted and answered.
    pub fn send(&mut self, uplink: &Link, is_open: bool) {
        let is_open = is_open && self.passage.is_some();
        self.gate.set_open(is_open);
        let Some(fast) = &mut self.fast else { return };
        let way = match self.passage.filter(|_| is_open) {
            None => WayOut::Nowhere,
            // A link without neighbours needs nothing else.
            Some(_) if uplink.medium != Medium::Ethernet => WayOut::ByRoute,
            Some(Passage { varies: true, .. }) => WayOut::ByRoute,
            Some(Passage { way, .. }) => way.router.map_or(WayOut::OnLink, WayOut::Router),
        };
        if self.told == Some(way) {
            return;
        }
        tracing::debug!("way to the prefix: {way:?}");
        match fast.set_way(way) {
            Ok(()) => self.told = Some(way),
            Err(error) => tracing::warn!("cannot pass the next hop to the fast path: {error}"),
        }
    }
}
