// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures for a monitoring system (Prometheus and programs that read its formats) by HTTP, and the readiness of the program.
//!
//! request to the program → [`diolkos_figures::figures`] → families (the names of the figures) → text → http → socket
//!
//! Every client that can reach the socket may read. The cost of clients is bounded: connections in all and of each client,
//! their duration, the size of a request, and how often the program is asked ([`latest`]).

mod cluster;
mod family;
mod http;
mod latest;
mod names;
mod process;
mod socket;
mod state;

use std::sync::Arc;

use crate::translator::{Asker, Finding, Reason};
use diolkos_config::{MetricsAddress, Settings};
use diolkos_service::supervise::{Task, Watch};

pub use socket::READERS;

use latest::Latest;
use socket::Unserved;

/// The addresses at which figures are served. Dropping it ends the service.
pub struct Metrics {
    watch: Watch,
    latest: Arc<Latest>,
    unserved: Unserved,
    served: Vec<(MetricsAddress, Task)>,
}

impl Metrics {
    /// Starts to serve. An address that cannot be bound is retried, and logged once.
    pub fn start(settings: &Settings, asker: Asker, watch: &Watch) -> Metrics {
        process::note_start();
        let beside = settings.dns64_alone().is_none();
        let dns64 = settings.dns64.as_ref().filter(|_| beside);
        let dns64 = dns64.map(|dns64| dns64.name.clone());
        let mut metrics = Metrics {
            watch: watch.clone(),
            latest: Arc::new(Latest::new(asker, dns64)),
            unserved: Unserved::default(),
            served: Vec::new(),
        };
        metrics.follow(settings);
        metrics
    }

    /// Applies another configuration: connections at addresses that stay are not disturbed.
    pub fn follow(&mut self, settings: &Settings) {
        let listen = &settings.metrics.listen;
        self.served.retain(|(place, _)| listen.contains(place));
        let missing =
            |place: &&MetricsAddress| !self.served.iter().any(|(served, _)| served == *place);
        let new: Vec<MetricsAddress> = listen.iter().filter(missing).cloned().collect();
        for place in new {
            let work = socket::serve(place.clone(), self.latest.clone(), self.unserved.clone());
            let task = self.watch.task("a place for metrics", work);
            self.served.push((place, task));
        }
    }

    /// The addresses that cannot be bound at the moment.
    pub fn findings(&self) -> Vec<Finding> {
        let reasons = self.unserved.reasons().into_iter();
        reasons
            .map(|why| Finding::trouble(Reason::Metrics, why))
            .collect()
    }
}
