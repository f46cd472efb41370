// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other gateways that serve the same hosts, as the tables know them: who is asked about a packet without a binding here, and who
//! hears of bindings.
//!
//! All of it happens under the lock of the tables, and waits for nothing.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use diolkos_core::session::{Event, Missing, Way};
use diolkos_core::Reason;
use diolkos_node::gateway::{Changed, Gateway};
use diolkos_node::{Asked, Node, NodeId, Reason as Why, Via, Way as NodeWay};
use diolkos_sys::clock;
use diolkos_sys::fastpath::{Forwarding, Gateway as Hop, Homes, HostPort, Owner, Sessions};

use super::conversion::number;
use super::deferral::Deferral;
use crate::slowpath::Ways;

/// For so long, programs send packets of a host's port by what was known of it once: the binding may have ended meanwhile.
const AWAY: Duration = Duration::from_secs(20);
/// Ports that programs know so at most, some 20 MB of memory here. Packets of more go the long way.
const MOST_AWAY: usize = 1 << 18;
/// Of these, so many are forgotten between two packets.
const PORTION: usize = 4096;

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
    pub(super) gateway: Gateway,
    pub(super) programs: Programs,
    /// By node: how it is reached, and whether it takes packets.
    pub(super) reached: Vec<(Option<Hop>, bool)>,
    /// By which way the packet came that is translated now.
    via: Via,
    /// Ports of which programs know which other gateway has them; and until when, the oldest first.
    away: (HashMap<HostPort, NodeId>, VecDeque<(Duration, HostPort)>),
    /// Packets of new bindings that wait, if any do.
    pub(super) deferral: Option<Deferral>,
}

impl Peers {
    /// Without copies. `deferral`: packets of new bindings wait for the others there.
    pub fn new(gateway: Gateway, programs: Programs, deferral: Option<Deferral>) -> Peers {
        Peers {
            reached: vec![(None, false); gateway.node().members()],
            gateway,
            programs,
            via: Via::Outside,
            away: Default::default(),
            deferral,
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
        self.deferral.iter_mut().for_each(Deferral::begin);
    }

    /// The tables have changed.
    pub fn event(&mut self, event: &Event) {
        let now = clock::kernel_boottime;
        match changed_by(event) {
            Some(Changed::Opened(binding)) => {
                let now = now();
                self.gateway.opened(now, binding);
                if let Some(deferral) = &mut self.deferral {
                    deferral.opened(self.gateway.node(), &binding, now);
                }
            }
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

    /// Programs send the next packets of a host's port to the gateway that has its binding, if they do not lead there anyway.
    fn note_away(&mut self, missing: Missing, owner: NodeId, now: Duration) {
        let Missing::V6(protocol, host) = missing else {
            return;
        };
        let node = self.node();
        if self.via != Via::Outside || node.leads_to(now, node.bucket(host.addr)) == Some(owner) {
            return;
        }
        let port = HostPort {
            protocol: number(protocol),
            addr: host.addr,
            port: host.port,
        };
        let (known, order) = &mut self.away;
        let is_full = known.len() >= MOST_AWAY;
        match known.entry(port) {
            Entry::Occupied(its) if *its.get() == owner => return,
            Entry::Occupied(mut its) => *its.get_mut() = owner,
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(its) => {
                its.insert(owner);
                order.push_back((now + AWAY, port));
            }
        }
        if let Err(error) = self.programs.homes.set_away(port, of(owner)) {
            tracing::debug!("packets of {host} go on the long way: {error}");
        }
    }

    /// Has programs ask again for ports that they have known for a while.
    pub(super) fn forget_away(&mut self, now: Duration) {
        let (known, order) = &mut self.away;
        for _ in 0..PORTION {
            let Some(&(_, port)) = order.front().filter(|(until, _)| now >= *until) else {
                return;
            };
            order.pop_front();
            known.remove(&port);
            if let Err(error) = self.programs.homes.clear_away(port) {
                tracing::debug!("packets of a port go on to a gateway that had it: {error}");
            }
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

/// Packets go to a gateway that takes them, if the way to it is known.
pub(super) fn lead(programs: &Programs, node: NodeId, (hop, takes): (Option<Hop>, bool)) {
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
pub(super) fn of(node: NodeId) -> Owner {
    Owner::node(node.0).expect("a cluster has no more nodes than programs know")
}
