// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies what other gateways say to the tables and the programs: under the lock of the tables, and before an order
//! follows from it.

use std::time::Duration;

use diolkos_fastpath::Gateway as Hop;
use diolkos_nat64::config::{Binding, Endpoint4, Protocol};
use diolkos_nat64::session::State;
use diolkos_node::gateway::{Changed, Lead, Order, Tables};
use diolkos_node::{Event, NodeId};

use super::deferral::{Deferral, Departing};
use super::leases::Leases;
use super::mirror::Mirror;
use super::peers::{lead, set_home};
use super::programs::Programs;
use diolkos_datapath::slowpath::Ways;

/// Number of entries that are scanned, between two packets, for sessions of copies that have to end.
const PORTION: usize = 512;

/// Handles an event among the gateways. Outgoing messages are carried out later, in this order and without the lock;
/// packets that waited for another gateway leave in the same way.
pub fn hear(
    event: Event<'_>,
    state: &mut State,
    mirror: &mut Mirror,
    leases: &mut Leases,
    orders: &mut Vec<Order>,
    departing: &mut Departing,
) {
    let Some(mut peers) = mirror.peers.take() else {
        return;
    };
    mirror.gather();
    let now = (mirror.clocks.boottime)();
    if matches!(event, Event::Tick) {
        peers.away.forget(now, &*peers.programs);
    }
    let mut hands = Hands {
        me: peers.node().me(),
        state,
        mirror,
        leases,
        programs: &*peers.programs,
        ways: &peers.ways,
        reached: &mut peers.reached,
    };
    peers.gateway.handle(now, event, &mut hands, orders);
    // The maps must change before an order tells others so.
    mirror.take_out();
    let known = peers.node().acknowledged();
    if let Some(deferral) = &mut peers.deferral {
        deferral.is_attended();
        release(deferral, known, now, state, mirror, departing);
    }
    mirror.peers = Some(peers);
}

/// Treats bindings that another gateway knows now, and those whose time is over, like any others from now on.
pub fn release(
    deferral: &mut Deferral,
    known: Option<u64>,
    now: Duration,
    state: &State,
    mirror: &mut Mirror,
    departing: &mut Departing,
) {
    while let Some(released) = deferral.release(known, now, departing) {
        let (protocol, v6) = released.port;
        for peer in released.peers {
            let session = state.session(protocol, v6, peer);
            session.iter().for_each(|session| mirror.copy(session));
        }
    }
}

/// The tables and programs, as the gateway changes them.
struct Hands<'a> {
    me: NodeId,
    state: &'a mut State,
    mirror: &'a mut Mirror,
    leases: &'a mut Leases,
    programs: &'a dyn Programs,
    ways: &'a Ways,
    reached: &'a mut Vec<(Option<Hop>, bool)>,
}

impl Tables for Hands<'_> {
    fn use_copies(&mut self, owner: NodeId, until: Duration) {
        self.state.set_deadline(owner.0, until);
        self.programs.use_copies(owner, until);
    }

    fn forget(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.state.forget(protocol, v4, usize::MAX, self.mirror);
    }

    fn forget_some(&mut self, owner: NodeId) -> bool {
        self.state.forget_all(owner.0, PORTION, self.mirror)
    }

    fn install(&mut self, binding: Binding) -> bool {
        let now = (self.mirror.clocks.monotonic)();
        let installed = self.state.inherit(binding, now, self.mirror);
        // The gateway already knows of it.
        self.mirror
            .aside
            .retain(|changed| *changed != Changed::Opened(binding));
        installed.is_ok()
    }

    fn hold(&mut self, protocol: Protocol, v4: Endpoint4) {
        if !self.state.hold(protocol, v4) {
            tracing::debug!("the port of {v4} ({protocol}) is bound, or none of the pool");
        }
    }

    fn free(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.state.free(protocol, v4, self.mirror);
    }

    fn lead(&mut self, lead: Lead) {
        set_home(self.programs, self.me, lead);
    }

    fn reach(&mut self, owner: NodeId, takes: bool) {
        self.reached[owner.index()].1 = takes;
        let (hop, takes) = self.reached[owner.index()];
        lead(self.programs, self.ways, owner, hop, takes);
    }

    fn serve(&mut self, serves: bool) {
        if !serves {
            self.leases.end_all(self.state);
        }
        self.state.serve(serves, self.mirror);
    }

    fn changed(&mut self) -> Option<Changed> {
        self.mirror.aside.pop_front()
    }
}
