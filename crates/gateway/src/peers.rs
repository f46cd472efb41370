// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other gateways that serve the same hosts, as the tables know them: which one is asked about a packet without a
//! binding here, and which ones are told of bindings.
//!
//! All of it happens under the lock of the tables, and never blocks.

use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{Gateway as Hop, HostPort, Owner};
use diolkos_nat64::session::{Event, Missing, Way};
use diolkos_node::gateway::{Changed, Gateway, Lead};
use diolkos_node::{Asked, Node, NodeId, Reason as Why, Via, Way as NodeWay};
use diolkos_xlat::Reason;

use super::away::Away;
use super::conversion::number;
use super::deferral::Deferral;
use super::programs::{of, Programs};
use diolkos_datapath::slowpath::Ways;

/// The other gateways.
#[derive(Debug)]
pub struct Peers {
    pub(super) gateway: Gateway,
    pub(super) programs: Box<dyn Programs>,
    /// How the slow path reaches the others.
    pub(super) ways: Arc<Ways>,
    /// By gateway: how it is reached, and whether it accepts packets.
    pub(super) reached: Vec<(Option<Hop>, bool)>,
    /// How the packet arrived that is being translated.
    via: Via,
    /// Ports of copies that programs have been told of.
    pub away: Away,
    /// Packets of new bindings that wait, if deferral is on.
    pub(super) deferral: Option<Deferral>,
}

impl Peers {
    /// Creates the peers without copies. With `deferral`, packets of new bindings wait there for the other gateways.
    pub fn new(
        gateway: Gateway,
        programs: Box<dyn Programs>,
        ways: Arc<Ways>,
        deferral: Option<Deferral>,
    ) -> Peers {
        Peers {
            reached: vec![(None, false); gateway.node().members()],
            gateway,
            programs,
            ways,
            via: Via::Outside,
            away: Away::default(),
            deferral,
        }
    }

    /// Returns this gateway's view of the cluster.
    pub fn node(&self) -> &Node {
        self.gateway.node()
    }

    /// Notes that a packet has arrived. `link` is the interface between gateways by which it arrived, or 0.
    pub fn begin(&mut self, link: u32) {
        let me = self.node().me();
        self.via = match (link, self.node().members()) {
            (0, _) => Via::Outside,
            (_, 2) => Via::Node(NodeId(1 - me.0)),
            _ => Via::SomeNode,
        };
        self.deferral.iter_mut().for_each(Deferral::begin);
    }

    /// Handles a change of the tables. `now` is a time of CLOCK_BOOTTIME, here and below.
    pub fn event(&mut self, now: Duration, event: &Event) {
        let lead = match changed_by(event) {
            Some(Changed::Opened(binding)) => {
                let lead = self.gateway.opened(now, binding);
                if let Some(deferral) = &mut self.deferral {
                    deferral.opened(self.gateway.node(), &binding, now);
                }
                lead
            }
            Some(Changed::Closed(protocol, v4)) => self.gateway.closed(now, protocol, v4),
            None => None,
        };
        if let Some(lead) = lead {
            set_home(&*self.programs, self.node().me(), lead);
        }
    }

    /// Decides what to do with a packet that has no binding here.
    pub fn missing(&mut self, now: Duration, missing: Missing, opens: bool) -> Way {
        let via = self.via;
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

    /// Has the programs send the next packets of a host's port to the gateway that has its binding, unless they do so
    /// anyway.
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
        self.away.note(now, port, owner, &*self.programs);
    }

    /// Sets how another gateway is reached from now on.
    pub fn reach(&mut self, node: NodeId, hop: Option<Hop>) {
        if let Some((known, takes)) = self.reached.get_mut(node.index()) {
            if *known == hop {
                return;
            }
            *known = hop;
            lead(&*self.programs, &self.ways, node, hop, *takes);
        }
    }
}

/// Directs packets to a gateway that accepts them, if the way to it is known.
pub(super) fn lead(
    programs: &dyn Programs,
    ways: &Ways,
    node: NodeId,
    hop: Option<Hop>,
    takes: bool,
) {
    let hop = hop.filter(|_| takes);
    // The slow path relies on the programs.
    ways.set(node.0, None);
    match programs.lead(node, hop) {
        Ok(()) => ways.set(node.0, hop.map(|hop| hop.mtu)),
        Err(error) => {
            tracing::warn!("the program that forwards to other gateways cannot be told: {error}");
        }
    }
}

/// Sends packets of a bucket's hosts that have no session here where the node says.
pub(super) fn set_home(programs: &dyn Programs, me: NodeId, lead: Lead) {
    // Programs open bindings where the home is `OURS`. There is no route to this gateway's own number, so packets go to
    // the slow path.
    let owner = match lead.opens {
        true => Owner::OURS,
        false => of(lead.home.unwrap_or(me)),
    };
    programs.set_home(lead.bucket, owner, lead.keeps_portless);
}

/// Returns what the other gateways have to know of an event.
pub fn changed_by(event: &Event) -> Option<Changed> {
    match event {
        Event::BindingOpened(binding) => Some(Changed::Opened(*binding)),
        Event::BindingClosed(binding) => Some(Changed::Closed(binding.protocol, binding.v4)),
        _ => None,
    }
}
