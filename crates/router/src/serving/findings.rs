// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Problems of a router apart from its links and routes: they are detected, logged when they begin and end, and listed.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use ipnet::IpNet;

use super::Router;
use crate::announce::Announcer;
use crate::bypassed;
use crate::outside::Outside;
use crate::routes::Routes;
use diolkos_config::Settings;
use diolkos_control::translator::{Finding, FindingKind, Reason};
use diolkos_kernel::net::RouteNews;
use diolkos_p4::Switch;
use diolkos_service::failure::Failure;

/// Interval between two checks of addresses that no node seems to answer for: neither proxied neighbours nor packets
/// cause a notification.
pub(crate) const SUSPICION: Duration = Duration::from_secs(2);

impl<R: Fn() -> Result<Settings, Failure>> Router<'_, R> {
    /// Announces that it runs, and whether packets can pass.
    pub(crate) fn announce(&self) {
        self.gateway.announce(match self.is_ready() {
            true => "ready",
            false => "not ready",
        });
    }

    /// Returns true if nothing prevents packets from passing.
    fn is_ready(&self) -> bool {
        let is_obstacle = |its: &Finding| its.kind == FindingKind::Obstacle;
        self.obstacles.is_empty()
            && self.unforwarded.is_empty()
            && self.contradiction.is_none()
            && !self.findings.iter().any(is_obstacle)
    }

    /// Checks whether nodes of the surrounding networks send here, or ask for neighbours that do not answer.
    pub(crate) async fn look_at_networks(&mut self) {
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

    /// Returns true if routing may refuse other packets now, which programs translate all the same.
    pub(crate) fn heeds_refusals(&mut self, news: &RouteNews) -> bool {
        let routes = &self.gateway.routes;
        let metric = Routes::metric(&self.gateway.settings);
        let concerns = |to: &IpNet| routes.lose_to(to, 0, metric.max(1));
        self.has_new_rules |=
            self.bypassed.heeds_routing() && (news.moves_rules() || news.may_concern(concerns));
        self.has_new_rules
    }

    /// Lists again what routing refuses, if it may have changed.
    pub(crate) async fn look_at_refusals(&mut self) {
        if std::mem::take(&mut self.has_new_rules) {
            let gateway = &*self.gateway;
            let (settings, routes) = (&gateway.settings, &gateway.routes);
            self.bypassed
                .look_at_routing(self.net, settings, routes)
                .await;
            self.find();
        }
    }

    /// Logs new problems, and those that have ended.
    pub(crate) fn find(&mut self) {
        let gateway = &*self.gateway;
        let has_programs = gateway.translation.fast().is_some();
        let bypassed = bypassed::findings(&gateway.settings, has_programs, &self.bypassed.now());
        let now = self.unannounced.findings(gateway.translated());
        let taken = gateway.announcer.iter().flat_map(Announcer::findings);
        let outside = gateway.outside.iter().flat_map(Outside::findings);
        let now = now.into_iter().chain(bypassed).chain(taken).chain(outside);
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

    /// Returns all findings for clients that watch the status.
    pub(crate) fn all_findings(&self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.findings.iter().cloned().collect();
        if let Some(stateful) = self.gateway.translation.stateful() {
            all.extend(stateful.findings());
        }
        all.extend(self.metrics.findings());
        all.extend(self.expiry.trouble());
        let switch = self.gateway.translation.switch().and_then(Switch::trouble);
        all.extend(switch.map(|text| Finding::trouble(Reason::Switch, text)));
        all
    }
}
