// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node with its tables: the node's decisions are applied at once, under the lock of the tables.
//!
//! ```text
//! event ─► node ─► actions ─┬─► tables, and the programs that have a copy of them
//!                           └─► orders: what goes to other nodes, the engine, routes and the operator
//! ```
//!
//! The caller holds the lock of the tables, so no packet comes between an event and its consequences. Orders are
//! carried out later, in order, when the tables have applied everything that precedes them.
//!
//! Two things are done here rather than in the node. Copies of an owner that accepts packets are not used: its packets
//! go to it. And when all sessions of copies have to end at once, they end a few at a time: until the last has ended,
//! none is used.

use diolkos_nat64::config::{Binding, Endpoint4, Protocol};

use crate::config::NodeId;
use crate::interface::{Action, Event, Reason, Report, Way};
use crate::look::{Asked, Via};
use crate::message::Status;
use crate::node::Node;
use crate::order::BUCKETS;
use crate::record::Request;
use crate::Moment;

/// The tables, and programs that translate by them.
pub trait Tables {
    /// Translates by sessions of copies of this owner's bindings until this time of the node's clock; zero: not at all.
    fn use_copies(&mut self, owner: NodeId, until: Moment);
    /// Ends the sessions made from this copy.
    fn forget(&mut self, protocol: Protocol, v4: Endpoint4);
    /// Ends some sessions made from copies of this owner's bindings, which are not in use. Returns true if none is
    /// left.
    fn forget_some(&mut self, owner: NodeId) -> bool;
    /// Takes a binding of this node that another node knew. Returns false if there is no room for it, or if one of its
    /// sides is bound otherwise.
    fn install(&mut self, binding: Binding) -> bool;
    /// Makes the port unavailable, although no binding has it.
    fn hold(&mut self, protocol: Protocol, v4: Endpoint4);
    /// Makes the port available.
    fn free(&mut self, protocol: Protocol, v4: Endpoint4);
    /// Sets where packets of a bucket's hosts go.
    fn lead(&mut self, lead: Lead);
    /// Sends packets to the addresses of this node there, if they have no session here; otherwise to the slow path.
    fn reach(&mut self, owner: NodeId, takes: bool);
    /// Allows or forbids to open bindings here.
    fn serve(&mut self, serves: bool);
    /// Returns the next change since the last call that the node does not know: a binding that came into a port that
    /// became free.
    fn changed(&mut self) -> Option<Changed>;
}

/// Where packets go that have no session here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// The bucket of their hosts.
    pub bucket: usize,
    /// The gateway ([`Node::leads_to`]); None or this node itself: the slow path.
    pub home: Option<NodeId>,
    /// True if programs may open bindings for these hosts ([`Node::opens_alone`]).
    pub opens: bool,
    /// True if packets that show no port go to the slow path all the same ([`Node::keeps_portless`]).
    pub keeps_portless: bool,
}

impl Lead {
    /// Before a node has said anything.
    fn nowhere(bucket: usize) -> Lead {
        Lead {
            bucket,
            home: None,
            opens: false,
            keeps_portless: false,
        }
    }
}

/// A change of a binding of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// It was opened.
    Opened(Binding),
    /// The port has no binding, or has lost it.
    Closed(Protocol, Endpoint4),
}

/// An action outside the tables, to be carried out in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Send a message.
    Send {
        /// The recipient.
        peer: NodeId,
        /// The connection.
        connection: u64,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Close a connection, and make another one.
    Close {
        /// The other node.
        peer: NodeId,
        /// The connection.
        connection: u64,
    },
    /// Send a request to the engine, and return its answer with this token.
    Ask {
        /// Identifies the request.
        token: u64,
        /// The request.
        request: Request,
    },
    /// Attract packets, or stop attracting them.
    Attract(bool),
    /// Let packets pass, and then send a tick.
    Again,
    /// Leave, and start again with this file ([`Action::GoOver`]).
    GoOver(u64),
    /// Everything is said: the process may end, and its programs with it.
    Left,
    /// Something for the operator.
    Report(Report),
}

/// The state of the copies of an owner's bindings.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    /// The end of use that the node allows.
    until: Moment,
    /// The end of use that the tables were told.
    in_force: Moment,
    /// True if the owner accepts its packets itself.
    takes: bool,
    /// True if some sessions that have to end are left.
    ending: bool,
}

/// A node with its tables.
#[derive(Debug)]
pub struct Gateway {
    node: Node,
    copies: Vec<Copies>,
    /// By bucket, where packets go.
    homes: Vec<Lead>,
    /// True if all of them may have changed.
    has_moved: bool,
    /// Buckets that may have changed.
    moved: Vec<usize>,
    serves: bool,
    actions: Vec<Action>,
}

impl Gateway {
    /// Creates a gateway. Tables have no sessions of copies yet, and programs may not use any.
    pub fn new(node: Node) -> Gateway {
        Gateway {
            copies: vec![Copies::default(); node.members()],
            homes: (0..BUCKETS).map(Lead::nowhere).collect(),
            has_moved: true,
            moved: Vec::new(),
            serves: false,
            actions: Vec::new(),
            node,
        }
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Adds a binding that the process before this one had ([`Node::know`]).
    pub fn know(&mut self, binding: Binding) -> bool {
        self.node.know(binding)
    }

    /// Notes that the tables have made a binding of this node. What it returns has to be told to programs at once
    /// ([`Tables::lead`]).
    #[must_use]
    pub fn opened(&mut self, now: Moment, binding: Binding) -> Option<Lead> {
        self.node
            .handle(now, Event::Opened(binding), &mut self.actions);
        debug_assert!(self.actions.is_empty(), "nothing follows at once");
        self.moved_to(now, self.node.bucket(binding.v6.addr))
    }

    /// Notes that a binding of this node has ended, in programs as well. What it returns has to be told to programs at
    /// once ([`Tables::lead`]).
    #[must_use]
    pub fn closed(&mut self, now: Moment, protocol: Protocol, v4: Endpoint4) -> Option<Lead> {
        let bucket = self.node.bucket_of(protocol, v4);
        self.node
            .handle(now, Event::Closed(protocol, v4), &mut self.actions);
        debug_assert!(self.actions.is_empty(), "nothing follows at once");
        self.moved_to(now, bucket?)
    }

    /// Handles an event.
    pub fn handle(
        &mut self,
        now: Moment,
        event: Event<'_>,
        tables: &mut impl Tables,
        orders: &mut Vec<Order>,
    ) {
        let mut actions = std::mem::take(&mut self.actions);
        self.node.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            self.act(now, action, tables, orders);
        }
        self.actions = actions;
        self.follow(now, tables);
        while let Some(changed) = tables.changed() {
            let lead = match changed {
                Changed::Opened(binding) => self.opened(now, binding),
                Changed::Closed(protocol, v4) => self.closed(now, protocol, v4),
            };
            lead.into_iter().for_each(|lead| tables.lead(lead));
        }
    }

    /// Decides what to do with a packet of the IPv6 side ([`Node::who`]).
    pub fn who(&mut self, now: Moment, asked: Asked) -> Way {
        let way = self.node.who(now, asked);
        self.unless_ending(way)
    }

    /// Decides what to do with a packet of the IPv4 side ([`Node::who4`]).
    pub fn who4(&mut self, now: Moment, v4: Endpoint4, protocol: Protocol, via: Via) -> Way {
        let way = self.node.who4(now, v4, protocol, via);
        self.unless_ending(way)
    }

    /// Drops packets of a copy while sessions of its owner are being ended: a new session would end with them, or be
    /// used too late.
    fn unless_ending(&self, way: Way) -> Way {
        let Way::Copy(binding) = way else { return way };
        let owner = self.node.owner(binding.v4.addr);
        let copies = owner.and_then(|owner| self.copies.get(owner.index()));
        match copies.is_some_and(|copies| !copies.ending) {
            true => way,
            false => Way::Drop(Reason::Unreachable),
        }
    }

    fn act(
        &mut self,
        now: Moment,
        action: Action,
        tables: &mut impl Tables,
        orders: &mut Vec<Order>,
    ) {
        match action {
            Action::SetDeadline { owner, until } => self.copies[owner.index()].until = until,
            Action::Forget(protocol, v4) => tables.forget(protocol, v4),
            Action::ForgetAll(owner) => {
                let copies = &mut self.copies[owner.index()];
                (copies.ending, copies.in_force) = (true, Moment::ZERO);
                tables.use_copies(owner, Moment::ZERO);
            }
            Action::Install(binding) => {
                if !tables.install(binding) {
                    // Others may still use it, so its port rests as that of any binding that ends.
                    let Binding { protocol, v4, .. } = binding;
                    tables.hold(protocol, v4);
                    let lead = self.closed(now, protocol, v4);
                    lead.into_iter().for_each(|lead| tables.lead(lead));
                }
            }
            Action::Hold(protocol, v4) => tables.hold(protocol, v4),
            Action::Free(protocol, v4) => tables.free(protocol, v4),
            Action::Homes => self.has_moved = true,
            Action::Home(bucket) => self.moved.push(bucket),
            Action::Send {
                peer,
                connection,
                bytes,
            } => orders.push(Order::Send {
                peer,
                connection,
                bytes,
            }),
            Action::Close { peer, connection } => orders.push(Order::Close { peer, connection }),
            Action::Ask { token, request } => orders.push(Order::Ask { token, request }),
            Action::Attract(attracts) => {
                self.has_moved = true;
                orders.push(Order::Attract(attracts));
            }
            Action::Again => orders.push(Order::Again),
            Action::GoOver(file) => orders.push(Order::GoOver(file)),
            Action::Left => orders.push(Order::Left),
            Action::Report(report) => orders.push(Order::Report(report)),
        }
    }

    /// Applies the node's current decisions to the tables.
    fn follow(&mut self, now: Moment, tables: &mut impl Tables) {
        let serves = matches!(self.node.status(now), Status::Serving | Status::Draining);
        if std::mem::replace(&mut self.serves, serves) != serves {
            tables.serve(serves);
        }
        let me = self.node.me();
        for (at, copies) in (0..).zip(&mut self.copies) {
            let owner = NodeId(at);
            if owner == me {
                continue;
            }
            if copies.ending {
                copies.ending = !tables.forget_some(owner);
            }
            let takes = self.node.takes(owner, now);
            if std::mem::replace(&mut copies.takes, takes) != takes {
                tables.reach(owner, takes);
            }
            let until = match takes || copies.ending {
                true => Moment::ZERO,
                false => copies.until,
            };
            if std::mem::replace(&mut copies.in_force, until) != until {
                tables.use_copies(owner, until);
            }
        }
        let all = 0..BUCKETS * usize::from(std::mem::take(&mut self.has_moved));
        let moved = std::mem::take(&mut self.moved);
        for bucket in all.chain(moved) {
            let lead = self.moved_to(now, bucket);
            lead.into_iter().for_each(|lead| tables.lead(lead));
        }
    }

    /// Returns where packets of a bucket go from now on, if that has changed.
    fn moved_to(&mut self, now: Moment, bucket: usize) -> Option<Lead> {
        let (home, opens) = self.node.leads(now, bucket);
        let lead = Lead {
            bucket,
            home,
            opens,
            keeps_portless: self.node.keeps_portless(now, bucket),
        };
        let before = std::mem::replace(&mut self.homes[bucket], lead);
        (before != lead).then_some(lead)
    }
}
