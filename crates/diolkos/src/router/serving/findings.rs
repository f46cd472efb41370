// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a router beside its links and routes: looked for, told to the log when it begins and ends, and listed.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Router;
use crate::announce::Announcer;
use crate::control::{Finding, FindingKind};
use crate::router::bypassed;
use diolkos_config::Settings;
use diolkos_service::failure::Failure;

/// Between two looks at addresses for which nobody seems to answer: nobody tells of proxied neighbours, nor of packets.
pub(in crate::router) const SUSPICION: Duration = Duration::from_secs(2);

impl<R: Fn() -> Result<Settings, Failure>> Router<'_, R> {
    /// That it runs, and whether packets can pass.
    pub(in crate::router) fn announce(&self) {
        self.gateway.announce(match self.is_ready() {
            true => "ready",
            false => "not ready",
        });
    }

    /// Nothing keeps packets from passing.
    fn is_ready(&self) -> bool {
        let is_obstacle = |its: &Finding| its.kind == FindingKind::Obstacle;
        self.obstacles.is_empty()
            && self.unforwarded.is_empty()
            && self.contradiction.is_none()
            && !self.findings.iter().any(is_obstacle)
    }

    /// Do nodes of the networks around send here, or ask neighbours of whom nobody answers?
    pub(in crate::router) async fn look_at_networks(&mut self) {
        self.has_new_links = false;
        let (settings, own) = (&self.gateway.settings, self.gateway.index);
        let came = self.gateway.translated();
        match self.unannounced.look(self.net, settings, own, came).await {
            Ok(unannounced) => self.unannounced = unannounced,
            Err(failure) => tracing::warn!("cannot determine who answers for addresses: {failure}"),
        }
        self.suspicion_next = Instant::now() + SUSPICION;
        self.find();
    }

    /// Says what is wrong now, and what is not any more.
    pub(in crate::router) fn find(&mut self) {
        let gateway = &*self.gateway;
        let has_programs = gateway.translation.fast().is_some();
        let bypassed = bypassed::findings(&gateway.settings, has_programs, self.bypassed.now());
        let now = self.unannounced.findings(gateway.translated());
        let taken = gateway.announcer.iter().flat_map(Announcer::findings);
        let now = now.into_iter().chain(bypassed).chain(taken);
        let now: BTreeSet<Finding> = now.chain(gateway.cluster_findings()).collect();
        for new in now.difference(&self.findings) {
            tracing::warn!("{}", new.text);
        }
        for over in self.findings.difference(&now) {
            tracing::info!("no longer: {}", over.text);
        }
        self.findings = now;
        let is_ready = self.is_ready();
        if !std::mem::replace(&mut self.was_ready, is_ready) && is_ready {
            tracing::info!("ready: {}", self.gateway.description());
        }
    }

    /// All that followers hear of.
    pub(in crate::router) fn all_findings(&self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.findings.iter().cloned().collect();
        all.extend(self.gateway.translation.findings());
        all.extend(self.metrics.findings());
        all.extend(self.expiry.trouble());
        all
    }
}
