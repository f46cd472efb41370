// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other gateways that serve the same hosts, as the tables know them: who is asked about a packet without a binding here, who
//! hears of bindings, and how what the others say comes into the tables and the programs.
//!
//! All of it happens under the lock of the tables, and waits for nothing.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Protocol};
use diolkos_core::session::{Event, Missing, State, Way};
use diolkos_core::Reason;
use diolkos_node::gateway::{Changed, Gateway, Order, Tables};
use diolkos_node::{Asked, Event as NodeEvent, NodeId, Reason as Why, Via, Way as NodeWay};
use diolkos_sys::clock;
use diolkos_sys::fastpath::{Forwarding, Homes, Owner, Sessions};

use super::leases::Leases;
use super::mirror::Mirror;

/// Sessions of copies that are ended between two packets.
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
}

/// The others.
#[derive(Debug)]
pub struct Peers {
    gateway: Gateway,
    programs: Option<Programs>,
    /// By which way the packet came that is translated now.
    pub via: Via,
}

impl Peers {
    /// Without copies.
    pub fn new(gateway: Gateway, programs: Option<Programs>) -> Peers {
        Peers {
            gateway,
            programs,
            via: Via::Outside,
        }
    }

    /// The node, to look at.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The tables have changed.
    pub fn event(&mut self, event: &Event, now: Duration) {
        match Changed::of(event) {
            Some(Changed::Opened(binding)) => self.gateway.opened(now, binding),
            Some(Changed::Closed(protocol, v4)) => self.gateway.closed(now, protocol, v4),
            None => {}
        }
    }

    /// What to do with a packet that has no binding here.
    pub fn missing(&mut self, missing: Missing, opens: bool, now: Duration) -> Way {
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
            NodeWay::Forward(node) => Way::Forward(node.0),
            NodeWay::Open => Way::Open,
            NodeWay::Here => Way::Drop(Reason::ForwardedAstray),
            NodeWay::Drop(why) => Way::Drop(match why {
                Why::NoBinding | Why::Foreign => Reason::NoBinding,
                Why::Unreachable => Reason::OwnerUnreachable,
                Why::Stale => Reason::ForwardedAstray,
                Why::NotServing => Reason::NotServing,
            }),
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
    let now = clock::kernel_boottime();
    let Some(mut peers) = mirror.peers.take() else {
        return;
    };
    let mut hands = Hands {
        state,
        mirror,
        leases,
        programs: peers.programs.as_ref(),
        me: peers.gateway.node().me(),
    };
    peers.gateway.handle(now, event, &mut hands, orders);
    mirror.take_out();
    mirror.peers = Some(peers);
}

/// The tables and programs, as the gateway changes them.
struct Hands<'a> {
    state: &'a mut State,
    mirror: &'a mut Mirror,
    leases: &'a mut Leases,
    programs: Option<&'a Programs>,
    me: NodeId,
}

impl Tables for Hands<'_> {
    fn use_copies(&mut self, owner: NodeId, until: Duration) {
        self.state.set_deadline(owner.0, until);
        if let Some(programs) = self.programs {
            programs.sessions.set_deadline(of(owner), until);
        }
    }

    fn forget(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.state.forget(protocol, v4, usize::MAX, self.mirror);
    }

    fn forget_some(&mut self, owner: NodeId) -> bool {
        self.state.forget_all(owner.0, PORTION, self.mirror)
    }

    fn install(&mut self, binding: Binding) -> bool {
        let (now, known) = (clock::monotonic(), self.mirror.aside.len());
        let installed = self.state.inherit(binding, now, self.mirror);
        // The gateway knows of it.
        self.mirror.aside.truncate(known);
        installed.is_ok()
    }

    fn hold(&mut self, protocol: Protocol, v4: Endpoint4) {
        if !self.state.hold(protocol, v4) {
            tracing::warn!("{v4} is bound here though another gateway may use it");
        }
    }

    fn free(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.state.free(protocol, v4, self.mirror);
    }

    fn lead(&mut self, bucket: usize, home: Option<NodeId>) {
        // Programs open nothing for hosts that are at home elsewhere.
        self.leases.end_all(self.state);
        if let Some(programs) = self.programs {
            let owner = home.filter(|home| *home != self.me);
            programs.homes.set_home(bucket, owner.map_or(Owner::OURS, of));
        }
    }

    fn reach(&mut self, _owner: NodeId, _takes: bool) {}

    fn serve(&mut self, serves: bool) {
        if !serves {
            self.leases.end_all(self.state);
        }
        self.state.serve(serves);
    }

    fn changed(&mut self) -> Option<Changed> {
        match self.mirror.aside.is_empty() {
            true => None,
            false => Some(self.mirror.aside.remove(0)),
        }
    }
}

/// As programs know a node.
pub fn of(node: NodeId) -> Owner {
    Owner::node(node.0).expect("a cluster has no more nodes than programs know")
}
