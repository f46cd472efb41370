// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other gateways that serve the same hosts, as the tables know them: who is asked about a packet without a binding here, who
//! hears of bindings, and how what the others say comes into the tables and the programs.
//!
//! All of it happens under the lock of the tables, and waits for nothing.

use std::sync::Arc;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Protocol};
use diolkos_core::session::{Event, Missing, State, Way};
use diolkos_core::Reason;
use diolkos_node::gateway::{Changed, Gateway, Order, Tables};
use diolkos_node::{Asked, Event as NodeEvent, Node, NodeId, Reason as Why, Via, Way as NodeWay};
use diolkos_sys::clock;
use diolkos_sys::fastpath::{Forwarding, Gateway as Hop, Homes, HostPort, Owner, Sessions};

use super::conversion::number;
use super::leases::Leases;
use super::mirror::Mirror;
use crate::slowpath::Ways;

/// Entries that are looked at for sessions of copies that have to end, between two packets.
const PORTION: usize = 512;

/// What programs know of the others.
#[derive(Debug)]
pub struct Programs {
    /// Until when copies serve.
    pub sessions: Arc<Sessions>,
    /// Which gateway opens a host's bindings.
    pub homes: Arc<Homes>,
    /// How the others are reached.
    pub forwarding: Arc<Forwarding>,
    /// The same for the slow path.
    pub ways: Arc<Ways>,
}

/// The others.
#[derive(Debug)]
pub struct Peers {
    gateway: Gateway,
    programs: Programs,
    /// By node: how it is reached, and whether it takes packets.
    reached: Vec<(Option<Hop>, bool)>,
    /// By which way the packet came that is translated now.
    via: Via,
}

impl Peers {
    /// Without copies.
    pub fn new(gateway: Gateway, programs: Programs) -> Peers {
        Peers {
            reached: vec![(None, false); gateway.node().members()],
            gateway,
            programs,
            via: Via::Outside,
        }
    }

    /// The node, to look at.
    pub fn node(&self) -> &Node {
        self.gateway.node()
    }

    /// A packet comes. `link`: the interface between gateways by which it came, or 0.
    pub fn begin(&mut self, link: u32) {
        let me = self.node().me();
        self.via = match (link, self.node().members()) {
            (0, _) => Via::Outside,
            (_, 2) => Via::Node(NodeId(1 - me.0)),
            _ => Via::SomeNode,
        };
    }

    /// The tables have changed.
    pub fn event(&mut self, event: &Event) {
        let now = clock::kernel_boottime;
        match changed_by(event) {
            Some(Changed::Opened(binding)) => self.gateway.opened(now(), binding),
            Some(Changed::Closed(protocol, v4)) => self.gateway.closed(now(), protocol, v4),
            None => {}
        }
    }

    /// What to do with a packet that has no binding here.
    pub fn missing(&mut self, missing: Missing, opens: bool) -> Way {
        let (now, via) = (clock::kernel_boottime(), self.via);
        let way = match missing {
            Missing::V6(protocol, host) => {
                let asked = Asked {
                    host,
                    protocol,
                    via,
                    opens,
                };
                self.gateway.who(now, asked)
            }
            Missing::V4(protocol, v4) => self.gateway.who4(now, v4, protocol, via),
        };
        match way {
            NodeWay::Copy(binding) => Way::Copy(binding),
            NodeWay::Forward(owner) => {
                self.note_away(missing, owner, now);
                Way::Forward(owner.0)
            }
            NodeWay::Open => Way::Open,
            // The tables and the node are told of each binding together.
            NodeWay::Here => Way::Drop(Reason::NoBinding),
            NodeWay::Drop(why) => Way::Drop(match why {
                Why::NoBinding | Why::Foreign => Reason::NoBinding,
                Why::Unreachable => Reason::OwnerUnreachable,
                Why::Stale => Reason::ForwardedAstray,
                Why::NotServing => Reason::NotServing,
            }),
        }
    }

    /// Programs send the next packets of a host's port to the gateway that has its binding, if that is not the home.
    fn note_away(&self, missing: Missing, owner: NodeId, now: Duration) {
        let Missing::V6(protocol, host) = missing else {
            return;
        };
        let node = self.node();
        if self.via != Via::Outside || node.home(now, node.bucket(host.addr)) == Some(owner) {
            return;
        }
        let port = HostPort {
            protocol: number(protocol),
            addr: host.addr,
            port: host.port,
        };
        if let Err(error) = self.programs.homes.set_away(port, of(owner)) {
            tracing::debug!("packets of {host} go on by its home: {error}");
        }
    }

    /// How another gateway is reached from now on.
    pub fn reach(&mut self, node: NodeId, hop: Option<Hop>) {
        if let Some((known, _)) = self.reached.get_mut(node.index()) {
            if *known == hop {
                return;
            }
            *known = hop;
            lead(&self.programs, node, self.reached[node.index()]);
        }
    }
}

/// Something happens among the gateways. What goes out is carried out later, in this order, without the lock.
pub fn hear(
    event: NodeEvent<'_>,
    state: &mut State,
    mirror: &mut Mirror,
    leases: &mut Leases,
    orders: &mut Vec<Order>,
) {
    let Some(mut peers) = mirror.peers.take() else {
        return;
    };
    mirror.gather();
    let mut hands = Hands {
        state,
        mirror,
        leases,
        programs: &peers.programs,
        reached: &mut peers.reached,
    };
    let now = clock::kernel_boottime();
    peers.gateway.handle(now, event, &mut hands, orders);
    // Before an order says so to others.
    mirror.take_out();
    mirror.peers = Some(peers);
}

/// The tables and programs, as the gateway changes them.
struct Hands<'a> {
    state: &'a mut State,
    mirror: &'a mut Mirror,
    leases: &'a mut Leases,
    programs: &'a Programs,
    reached: &'a mut Vec<(Option<Hop>, bool)>,
}

impl Tables for Hands<'_> {
    fn use_copies(&mut self, owner: NodeId, until: Duration) {
        self.state.set_deadline(owner.0, until);
        self.programs.sessions.set_deadline(of(owner), until);
    }

    fn forget(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.state.forget(protocol, v4, usize::MAX, self.mirror);
    }

    fn forget_some(&mut self, owner: NodeId) -> bool {
        self.state.forget_all(owner.0, PORTION, self.mirror)
    }

    fn install(&mut self, binding: Binding) -> bool {
        let now = clock::monotonic();
        let installed = self.state.inherit(binding, now, self.mirror);
        // The gateway knows of it.
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

    fn lead(&mut self, bucket: usize, home: Option<NodeId>) {
        // No way leads to this node itself, so programs leave such packets to the slow path.
        let owner = home.map_or(Owner::OURS, of);
        self.programs.homes.set_home(bucket, owner);
    }

    fn reach(&mut self, owner: NodeId, takes: bool) {
        self.reached[owner.index()].1 = takes;
        lead(self.programs, owner, self.reached[owner.index()]);
    }

    fn serve(&mut self, serves: bool) {
        if !serves {
            self.leases.end_all(self.state);
        }
        self.state.serve(serves);
    }

    fn changed(&mut self) -> Option<Changed> {
        self.mirror.aside.pop_front()
    }
}

/// Packets go to a gateway that takes them, if the way to it is known.
fn lead(programs: &Programs, node: NodeId, (hop, takes): (Option<Hop>, bool)) {
    let hop = hop.filter(|_| takes);
    // The slow path relies on the programs.
    programs.ways.set(node.0, None);
    match programs.forwarding.lead(of(node), hop) {
        Ok(()) => programs.ways.set(node.0, hop.map(|hop| hop.mtu)),
        Err(error) => {
            tracing::warn!("the program that forwards to other gateways cannot be told: {error}");
        }
    }
}

/// What the node of the other gateways has to know of an event.
pub fn changed_by(event: &Event) -> Option<Changed> {
    match event {
        Event::BindingOpened(binding) => Some(Changed::Opened(*binding)),
        Event::BindingClosed(binding) => Some(Changed::Closed(binding.protocol, binding.v4)),
        _ => None,
    }
}

/// As programs know a node.
pub fn of(node: NodeId) -> Owner {
    Owner::node(node.0).expect("a cluster has no more nodes than programs know")
}
