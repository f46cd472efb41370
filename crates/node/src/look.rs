// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides what a node does with a packet.
//!
//! # Why no packet loops
//!
//! Nodes may have different views of which nodes are reachable and which have a binding. A packet of the IPv6 side that
//! another node has forwarded is forwarded again only by a node that precedes the sender in the subscriber's order; if
//! the sender is unknown ([`Via::SomeNode`]), only by the first node of the order. So the positions of the nodes on its
//! path fall, except for the last step. A packet of the IPv4 side is forwarded once.

use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};

use crate::config::NodeId;
use crate::interface::{Reason, Way};
use crate::message::Status;
use crate::node::Node;
use crate::store::State;
use crate::Moment;

/// The way on which a packet arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// From hosts or servers.
    Outside,
    /// Forwarded by this node of the cluster.
    Node(NodeId),
    /// Forwarded by one of several other nodes.
    SomeNode,
}

/// The properties of a packet of the IPv6 side, or of the packet quoted in an ICMPv6 error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The host's address and port: the source, and of a quoted packet the destination.
    pub host: Endpoint6,
    /// The protocol.
    pub protocol: Protocol,
    /// Where it has come from.
    pub via: Via,
    /// True if it may open a binding; an error may not.
    pub opens: bool,
}

impl Node {
    /// Decides what to do with a packet of the IPv6 side. After [`Way::Copy`], changes of the copy are reported
    /// ([`crate::Action::Forget`]).
    pub fn who(&mut self, now: Moment, asked: Asked) -> Way {
        let (host, protocol) = (asked.host, asked.protocol);
        if self.status(now) == Status::Left {
            return Way::Drop(Reason::NotServing);
        }
        if self.bindings.find_v6(protocol, host).is_some() {
            return Way::Here;
        }
        let me = self.config.me;
        let bucket = self.order.bucket(self.config.subscriber(host.addr));
        let place = |node| self.order.place(bucket, node);
        let is_last = match asked.via {
            Via::Outside => false,
            Via::Node(from) => place(from) < place(me),
            Via::SomeNode => place(me) > 0,
        };
        let (mut usable, mut waits) = (None, false);
        for owner in self.others() {
            let peer = &self.peers[owner.index()];
            let Some(at) = peer.copies.find_v6(protocol, host) else {
                continue;
            };
            // The host gets another binding if the flow is lost anyway.
            let is_lost = peer.is_void || now >= peer.deadline + self.config.timing.term;
            waits |= peer.is_up || !is_lost;
            // Also to the sender: of fragments, programs know no more than the home.
            if peer.takes(now) && !is_last {
                return Way::Forward(owner);
            }
            if peer.may_use(now) {
                usable = Some((owner, at));
            }
        }
        match usable {
            Some((owner, at)) => self.use_copy(owner, at),
            None if !asked.opens => Way::Drop(Reason::NoBinding),
            None if waits && is_last => Way::Drop(Reason::Stale),
            None if waits => Way::Drop(Reason::Unreachable),
            None => self.where_to_open(now, bucket, asked.via),
        }
    }

    /// Decides what to do with a packet of the IPv4 side, or, for an ICMPv4 error, with the source of the packet that
    /// it quotes.
    pub fn who4(&mut self, now: Moment, v4: Endpoint4, protocol: Protocol, via: Via) -> Way {
        let Some(owner) = self.owners.of(v4.addr) else {
            return Way::Drop(Reason::Foreign);
        };
        if self.status(now) == Status::Left {
            return Way::Drop(Reason::NotServing);
        }
        if owner == self.config.me {
            let at = self.bindings.find_v4(protocol, v4);
            let is_live = at.is_some_and(|at| self.bindings.get(at).state != State::Resting);
            return match is_live {
                true => Way::Here,
                false => Way::Drop(Reason::NoBinding),
            };
        }
        let peer = &self.peers[owner.index()];
        if peer.takes(now) && via == Via::Outside {
            return Way::Forward(owner);
        }
        if !peer.may_use(now) {
            return Way::Drop(Reason::Unreachable);
        }
        match peer.copies.find_v4(protocol, v4) {
            Some(at) => self.use_copy(owner, at),
            None => Way::Drop(Reason::NoBinding),
        }
    }

    /// Returns the home of the subscribers of a bucket, in this node's view: the first node in the bucket's order that
    /// takes new ones.
    pub fn home(&self, now: Moment, bucket: usize) -> Option<NodeId> {
        let takes = |&&node: &&NodeId| match node == self.config.me {
            true => self.status(now) == Status::Serving,
            false => self.peers[node.index()].serves,
        };
        self.order.row(bucket).iter().find(takes).copied()
    }

    /// Returns the bucket of the host of one of this node's bindings; None if there is no such binding.
    pub fn bucket_of(&self, protocol: Protocol, v4: Endpoint4) -> Option<usize> {
        let at = self.bindings.find_v4(protocol, v4)?;
        Some(self.bucket(self.bindings.get(at).binding().v6.addr))
    }

    /// Returns the bucket of a host.
    pub fn bucket(&self, host: std::net::Ipv6Addr) -> usize {
        self.order.bucket(self.config.subscriber(host))
    }

    /// Returns true if programs may open bindings for hosts of a bucket: this node is their home, and no other one has
    /// a binding of theirs. Programs do not know copies without a session, so a flow that continues by a copy would get
    /// another address. Nor do programs wait for another node ([`crate::Config::defer`]).
    pub fn opens_alone(&self, now: Moment, bucket: usize) -> bool {
        self.leads(now, bucket).1
    }

    /// Returns where programs send packets of a bucket that have no session and no binding of this node; None: to the
    /// slow path, which asks the node. That is the case where a node other than the home has bindings: the home may be
    /// a node that does not forward again, so the packets have to go to the owner at once.
    pub fn leads_to(&self, now: Moment, bucket: usize) -> Option<NodeId> {
        self.leads(now, bucket).0
    }

    /// Returns true if packets of a bucket that show no port go to the slow path: they may be fragments of bindings of
    /// this node, as while it drains, and the home may be a node that does not send them back.
    pub fn keeps_portless(&self, now: Moment, bucket: usize) -> bool {
        self.bound_in[bucket] > 0 && self.home(now, bucket) != Some(self.config.me)
    }

    /// Returns both ([`Node::leads_to`], [`Node::opens_alone`]): they are computed for all buckets whenever a node
    /// comes or goes.
    pub(crate) fn leads(&self, now: Moment, bucket: usize) -> (Option<NodeId>, bool) {
        let home = self.home(now, bucket);
        let (mut is_shared, mut is_mixed) = (false, false);
        for (owner, peer) in (0..).map(NodeId).zip(&self.peers) {
            let has_some = peer.copies_of.get(bucket).is_some_and(|count| *count > 0);
            is_shared |= has_some;
            is_mixed |= has_some && Some(owner) != home;
        }
        let opens = !self.config.defer && home == Some(self.config.me) && !is_shared;
        (home.filter(|_| !is_mixed), opens)
    }

    /// Returns true if packets of this owner's bindings should be sent to it.
    pub fn takes(&self, owner: NodeId, now: Moment) -> bool {
        let peer = self.peers.get(owner.index());
        peer.is_some_and(|peer| peer.takes(now))
    }

    fn where_to_open(&self, now: Moment, bucket: usize, via: Via) -> Way {
        let me = self.config.me;
        let opens = matches!(self.status(now), Status::Serving | Status::Draining);
        let here = match opens {
            true => Way::Open,
            false => Way::Drop(Reason::NotServing),
        };
        let place = |node| self.order.place(bucket, node);
        match (self.home(now, bucket), via) {
            (Some(home), Via::Outside) if home != me => Way::Forward(home),
            (Some(home), Via::Node(from)) if place(home) < place(me) && place(me) < place(from) => {
                Way::Forward(home)
            }
            _ => here,
        }
    }

    fn use_copy(&mut self, owner: NodeId, at: u32) -> Way {
        let entry = self.peers[owner.index()].copies.get_mut(at);
        entry.state = State::Used;
        Way::Copy(entry.binding())
    }
}
