// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node with its tables: what the node says is done at once, while nobody else uses the tables.
//!
//! ```text
//! event ─► node ─► actions ─┬─► tables, and the programs that have a copy of them
//!                           └─► orders: what goes to other nodes, the engine, routes and the operator
//! ```
//!
//! Whoever holds the lock of the tables calls it, so no packet comes between an event and what follows from it; and orders are
//! carried out later, in their order, when the tables have done all that stands before them.
//!
//! Two things are done here that are no node's business. Copies of an owner that takes packets itself are not used: its packets
//! go to it. And sessions of copies that are all to end at once end a few at a time: until the last has, none is used.

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
    /// Sessions made from copies of this owner's bindings are translated until this moment of the node's clock; zero: not at all.
    fn use_copies(&mut self, owner: NodeId, until: Moment);
    /// End the sessions made from this copy.
    fn forget(&mut self, protocol: Protocol, v4: Endpoint4);
    /// End some of the sessions made from copies of this owner's bindings, which are not in use. True if none is left.
    fn forget_some(&mut self, owner: NodeId) -> bool;
    /// Take a binding of this node that another one knew. False if they have no room for it, or a side of it is bound otherwise.
    fn install(&mut self, binding: Binding) -> bool;
    /// The port is not free, though no binding has it.
    fn hold(&mut self, protocol: Protocol, v4: Endpoint4);
    /// The port is free.
    fn free(&mut self, protocol: Protocol, v4: Endpoint4);
    /// Where packets go of hosts whose bucket it is and that have no session here ([`Node::leads_to`]); none or this node itself: to the slow path. `opens`: programs
    /// may open bindings for these hosts, as [`Node::opens_alone`] says.
    fn lead(&mut self, bucket: usize, home: Option<NodeId>, opens: bool);
    /// Packets to the addresses of this node go there, if they have no session here; otherwise to the slow path.
    fn reach(&mut self, owner: NodeId, takes: bool);
    /// Bindings may be opened here, or no longer.
    fn serve(&mut self, serves: bool);
    /// What has changed since this was last asked, but for what the node knows already: bindings that came into a port that
    /// became free.
    fn changed(&mut self) -> Option<Changed>;
}

/// A binding of this node that has come, or gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// It is there.
    Opened(Binding),
    /// It is not, or no longer.
    Closed(Protocol, Endpoint4),
}

/// What is to be done outside, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Send a message.
    Send {
        /// To whom.
        peer: NodeId,
        /// On which connection.
        connection: u64,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Close a connection, and make another one.
    Close {
        /// With whom.
        peer: NodeId,
        /// Which one.
        connection: u64,
    },
    /// Ask the engine, and answer with this token.
    Ask {
        /// Names the request.
        token: u64,
        /// The request.
        request: Request,
    },
    /// Attract packets, or do not.
    Attract(bool),
    /// Let packets pass, and then say that time passes.
    Again,
    /// Leave, and begin anew with this file ([`Action::GoOver`]).
    GoOver(u64),
    /// All is said: the process may end, and its programs with it.
    Left,
    /// Something for the operator.
    Report(Report),
}

/// What is in force for the copies of an owner's bindings.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    /// What the node allows.
    until: Moment,
    /// What the tables were told.
    in_force: Moment,
    /// It takes its packets itself.
    takes: bool,
    /// Sessions that have to end are left.
    ending: bool,
}

/// A node with its tables.
#[derive(Debug)]
pub struct Gateway {
    node: Node,
    copies: Vec<Copies>,
    /// By bucket: where packets are led, and whether programs open bindings.
    homes: Vec<(Option<NodeId>, bool)>,
    /// All of them may have changed.
    has_moved: bool,
    /// Some that may have.
    moved: Vec<usize>,
    serves: bool,
    actions: Vec<Action>,
}

impl Gateway {
    /// Tables have no sessions of copies yet, and programs no leave to use any.
    pub fn new(node: Node) -> Gateway {
        Gateway {
            copies: vec![Copies::default(); node.members()],
            homes: vec![(None, false); BUCKETS],
            has_moved: true,
            moved: Vec::new(),
            serves: false,
            actions: Vec::new(),
            node,
        }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// A binding that the process before this one had ([`Node::know`]).
    pub fn know(&mut self, binding: Binding) -> bool {
        self.node.know(binding)
    }

    /// The tables have made a binding of this node.
    pub fn opened(&mut self, now: Moment, binding: Binding) {
        self.node
            .handle(now, Event::Opened(binding), &mut self.actions);
        debug_assert!(self.actions.is_empty(), "nothing follows at once");
    }

    /// A binding of this node has ended, in programs as well.
    pub fn closed(&mut self, now: Moment, protocol: Protocol, v4: Endpoint4) {
        self.node
            .handle(now, Event::Closed(protocol, v4), &mut self.actions);
        debug_assert!(self.actions.is_empty(), "nothing follows at once");
    }

    /// Something happens outside.
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
            match changed {
                Changed::Opened(binding) => self.opened(now, binding),
                Changed::Closed(protocol, v4) => self.closed(now, protocol, v4),
            }
        }
    }

    /// What to do with a packet of the IPv6 side ([`Node::who`]).
    pub fn who(&mut self, now: Moment, asked: Asked) -> Way {
        let way = self.node.who(now, asked);
        self.unless_ending(way)
    }

    /// What to do with a packet of the IPv4 side ([`Node::who4`]).
    pub fn who4(&mut self, now: Moment, v4: Endpoint4, protocol: Protocol, via: Via) -> Way {
        let way = self.node.who4(now, v4, protocol, via);
        self.unless_ending(way)
    }

    /// Sessions of a copy, made while others of its owner end, would end with them, or be used too late.
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
                    self.closed(now, protocol, v4);
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

    /// Has the tables follow what the node says now.
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
        for bucket in all.chain(self.moved.drain(..)) {
            let leads = self.node.leads(now, bucket);
            if std::mem::replace(&mut self.homes[bucket], leads) != leads {
                let (home, opens) = leads;
                tables.lead(bucket, home, opens);
            }
        }
    }
}
