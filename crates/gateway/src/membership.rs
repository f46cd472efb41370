// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller of one of several gateways: events among them, and packets that wait for them.

use std::time::Duration;

use diolkos_fastpath::Gateway as Hop;
use diolkos_node::gateway::Order;
use diolkos_node::{Event as NodeEvent, Node, NodeId};

use super::controller::Controller;
use super::deferral::Departing;
use super::hands;
use super::peers::Peers;

impl Controller {
    /// Serves hosts together with other gateways from now on. `peers` is created for these tables, and has no copies
    /// yet.
    pub fn join(&self, peers: Peers) {
        let inner = &mut *self.lock();
        let bindings = inner.nat64.state().bindings();
        inner.mirror.join(peers, bindings.map(|view| view.binding));
    }

    /// Handles an event among the gateways. Messages to other gateways are appended to `orders`, and must be carried
    /// out in that order. Packets that waited for another gateway, and may leave now, are appended to `departing`.
    pub fn hear(&self, event: NodeEvent<'_>, orders: &mut Vec<Order>, departing: &mut Departing) {
        let inner = &mut *self.lock();
        let (state, mirror) = (inner.nat64.state_mut(), &mut inner.mirror);
        hands::hear(event, state, mirror, &mut inner.leases, orders, departing);
    }

    /// Sends packets that have waited.
    pub fn send(&self, departing: &mut Departing) {
        self.tally.deferred(departing.send());
    }

    /// Stops the deferral: no packet waits for other gateways any more.
    pub fn stop_deferring(&self) {
        let inner = &mut *self.lock();
        let mirror = &mut inner.mirror;
        let deferral = mirror.peers.as_mut();
        let mut departing = Departing::default();
        if let Some(mut deferral) = deferral.and_then(|peers| peers.deferral.take()) {
            let all = (None, Duration::ZERO);
            hands::release(
                &mut deferral,
                all,
                inner.nat64.state(),
                mirror,
                &mut departing,
            );
        }
        self.send(&mut departing);
    }

    /// Sets how another gateway is reached from now on; None if it cannot be reached.
    pub fn reach(&self, node: NodeId, hop: Option<Hop>) {
        if let Some(peers) = &mut self.lock().mirror.peers {
            peers.reach(node, hop);
        }
    }

    /// Calls `see` with this gateway's view of the cluster, if it is in one.
    pub fn look_at_node<T>(&self, see: impl FnOnce(&Node) -> T) -> Option<T> {
        let inner = &*self.lock();
        inner.mirror.peers.as_ref().map(|peers| see(peers.node()))
    }
}
