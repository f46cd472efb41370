// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router while it runs: what it owns, in the order in which it ends.

use std::sync::Arc;

use diolkos_fastpath::{ForwardPath, Inline};
use diolkos_sys::tun::Queue;

use super::outside::Outside;
use super::routes::Routes;
use super::stateful::Stateful;
use super::survey::device_mtu;
use super::translation::Translation;
use crate::announce::Announcer;
use diolkos_cluster::Cluster;
use diolkos_config::{AutoValues, Settings};
use diolkos_datapath::labels::Labels;
use diolkos_datapath::slowpath::SlowPath;
use diolkos_gateway::Controller;
use diolkos_kernel::forwarding::Forwarding;
use diolkos_kernel::net::DeviceConfig;
use diolkos_service::failure::Failure;

/// The TUN device and what translates on it. When this is dropped, the device is removed with all its routes, unless it
/// stays.
pub struct Gateway {
    pub index: u32,
    pub settings: Settings,
    pub found: AutoValues,
    pub routes: Routes,
    /// Its membership in a cluster, which ends before the tables do.
    pub cluster: Option<Cluster>,
    /// The program that forwards to other gateways, until it has joined the cluster.
    pub forward: Option<ForwardPath>,
    // In the order in which they must end: answers end first, and nothing is led to a device that is gone.
    pub announcer: Option<Announcer>,
    pub translation: Translation,
    /// The owner of a NAT64's tables.
    pub controller: Option<Arc<Controller>>,
    /// Lets marks survive the slow path.
    pub labels: Labels,
    /// Indices of the interfaces at which packets are translated before any routing.
    pub inline: Vec<u32>,
    /// All of them, as the programs know them.
    pub known: Vec<Inline>,
    pub forwarding: Forwarding,
    pub slow: SlowPath,
    /// A further queue of the device, to change the device.
    pub device: Queue,
    /// The address of an interface that nodes share. Without the rules, packets would leave with the address inside.
    pub outside: Option<Outside>,
    /// True if known sessions continue in the kernel when this ends.
    pub stays: bool,
    /// True if the operator has told this to end.
    pub ends: bool,
    /// The file for which this gateway of a cluster was last armed, and its hash.
    pub next: Option<(u64, Settings)>,
}

/// Cleans up, however it ends.
impl Drop for Gateway {
    fn drop(&mut self) {
        self.cluster = None;
        self.slow.stop();
        if let Err(failure) = self.finish_tables() {
            tracing::error!("{failure}");
        }
        self.translation.leave_switch(self.ends);
        if self.stays {
            self.forwarding.keep();
        }
    }
}

impl Gateway {
    /// Returns the owner of the tables, and the threads that keep them, if this is a NAT64.
    pub fn tables(&self) -> Option<(&Arc<Controller>, &Stateful)> {
        self.controller.as_ref().zip(self.translation.stateful())
    }

    /// Ends the threads that change the tables, and writes them, once no packet arrives any more.
    pub fn finish_tables(&mut self) -> Result<(), Failure> {
        match (self.translation.stateful_mut(), &self.controller) {
            (Some(stateful), Some(controller)) => stateful.finish(controller),
            _ => Ok(()),
        }
    }

    /// Returns what has to stay on the device.
    pub fn own(&self) -> DeviceConfig {
        own(self.index, &self.settings, self.found, &self.routes)
    }
}

/// Returns what a configuration has on the device.
pub fn own(index: u32, settings: &Settings, found: AutoValues, routes: &Routes) -> DeviceConfig {
    DeviceConfig {
        mtu: device_mtu(settings, found),
        ..routes.own(index, Routes::metric(settings))
    }
}
