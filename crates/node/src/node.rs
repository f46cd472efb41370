// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One node: its state, and what others may ask it.

use crate::armed::Armed;
use crate::config::{Config, Fault, NodeId, Owners};
use crate::filed::Admission;
use crate::interface::{Action, Report};
use crate::message::{BindingChange, Status, MAX_CHANGES};
use crate::order::{Order, BUCKETS};
use crate::peer::{Link, Peer, Telling};
use crate::record::Own;
use crate::rests::{Log, Rest, Rests};
use crate::store::{State, Store};
use crate::Moment;
use diolkos_nat64::config::Binding;
use std::net::Ipv4Addr;

/// Maximum number of copies that one call of [`Node::handle`] sends, receives, gives back or removes, and of ports that
/// it frees, whatever other nodes send: the tables are locked meanwhile, and packets wait. If more is left,
/// [`Action::Again`] follows.
pub const TURN: usize = 2048;
/// Number of table slots that may be scanned for each of these.
pub(crate) const LOOKS: usize = 32;

const _: () = assert!(MAX_CHANGES <= TURN);

/// One node of a cluster.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: Config,
    pub(crate) owners: Owners,
    pub(crate) order: Order,
    pub(crate) started: Moment,
    pub(crate) own: Own,
    pub(crate) admission: Admission,
    pub(crate) bindings: Store,
    /// Number of its bindings by bucket of the host; ports that rest are not counted.
    pub(crate) bound_in: Vec<u32>,
    pub(crate) log: Log,
    pub(crate) rests: Rests,
    pub(crate) peers: Vec<Peer>,
    pub(crate) tokens: u64,
    /// The highest revision of an engine that was seen.
    pub(crate) seen: (u64, u64),
    /// Since when all of its ports are settled.
    pub(crate) settled: Option<Moment>,
    /// True if copies of others' bindings have been received since.
    pub(crate) has_read: bool,
    pub(crate) short_until: Moment,
    pub(crate) drains: bool,
    pub(crate) armed: Option<Armed>,
    /// When it was told to leave, and whether it has left.
    pub(crate) leaves: Option<Moment>,
    pub(crate) has_left: bool,
    pub(crate) attracts: bool,
    /// Number of invalid messages from others.
    pub(crate) strange: u64,
    /// Number of table slots that may still be scanned in this turn.
    pub(crate) left: usize,
    /// The peer that the next turn serves first.
    pub(crate) first: usize,
}

impl Node {
    /// Creates the node of a new process. `incarnation` is random and unique to the process. `keys` are secret.
    pub fn new(
        config: Config,
        incarnation: u64,
        keys: [u64; 2],
        now: Moment,
    ) -> Result<Node, Fault> {
        let owners = config.check()?;
        let order = Order::new(&config);
        let peers = config.members.iter().map(|_| Peer::new(keys)).collect();
        let own = Own::new(config.me, incarnation, config.deal());
        let mut node = Node {
            owners,
            order,
            started: now,
            own,
            admission: Admission::default(),
            bindings: Store::new(keys),
            bound_in: vec![0; BUCKETS],
            log: Log::default(),
            rests: Rests::default(),
            peers,
            tokens: 0,
            seen: (0, 0),
            settled: None,
            has_read: false,
            short_until: Moment::ZERO,
            drains: false,
            armed: None,
            leaves: None,
            has_left: false,
            attracts: false,
            strange: 0,
            left: 0,
            first: 0,
            config,
        };
        let me = node.config.me.index();
        node.peers[me].settled = true;
        Ok(node)
    }

    /// Adds a binding that the process before this one had. Call it before the first event, and only if *all* changes
    /// of that process are known and it had the same file, for example from tables that its programs shared: an old
    /// copy would bring back a port that has another subscriber now. Returns false if the binding is not this node's.
    pub fn know(&mut self, binding: Binding) -> bool {
        let is_new = self
            .bindings
            .find_v4(binding.protocol, binding.v4)
            .is_none()
            && self
                .bindings
                .find_v6(binding.protocol, binding.v6)
                .is_none();
        if !is_new || self.owners.of(binding.v4.addr) != Some(self.config.me) {
            return false;
        }
        self.insert(&binding);
        true
    }

    /// Returns the state that it reports of itself.
    pub fn status(&self, now: Moment) -> Status {
        match self.has_rested(now) && self.has_read {
            _ if self.leaves.is_some() => Status::Left,
            false => Status::Starting,
            true if self.drains => Status::Draining,
            true => Status::Serving,
        }
    }

    /// Returns true if no packet can still be in flight for the subscriber that a port had before this process.
    pub(crate) fn has_rested(&self, now: Moment) -> bool {
        let rested = |settled| now >= settled + self.config.timing.rest;
        self.settled.is_some_and(rested)
    }

    /// Returns true if this node may make this binding: the port is free and does not rest for another subscriber.
    pub fn may_open(&self, now: Moment, binding: &Binding) -> bool {
        let is_mine = self.owners.of(binding.v4.addr) == Some(self.config.me);
        let serves = matches!(self.status(now), Status::Serving | Status::Draining);
        let has_none = self
            .bindings
            .find_v6(binding.protocol, binding.v6)
            .is_none();
        let at = self.bindings.find_v4(binding.protocol, binding.v4);
        let is_free = at.is_none_or(|at| {
            let entry = self.bindings.get(at);
            let subscribers =
                [entry.binding(), *binding].map(|b| self.config.subscriber(b.v6.addr));
            entry.state == State::Resting && subscribers[0] == subscribers[1]
        });
        is_mine && serves && has_none && is_free
    }

    /// Returns true if copies of this owner's bindings may be used now.
    pub fn may_use(&self, owner: NodeId, now: Moment) -> bool {
        let peer = self.peers.get(owner.index());
        peer.is_some_and(|peer| peer.may_use(now))
    }

    /// Returns the number of bindings, of resting ports, and of copies of each node's bindings.
    pub fn counts(&self) -> (u32, u32, Vec<u32>) {
        let copies = self.peers.iter().map(|peer| peer.copies.len());
        (
            self.bindings.len(),
            self.bindings.resting(),
            copies.collect(),
        )
    }

    /// Returns the bindings of this node, or the copies of another one's.
    pub fn bindings_of(&self, owner: NodeId) -> impl Iterator<Item = Binding> + '_ {
        let store = match owner == self.config.me {
            true => &self.bindings,
            false => &self.peers[owner.index()].copies,
        };
        let places = store.places(0, usize::MAX);
        places
            .filter_map(|(_, entry)| entry.filter(|e| e.state != State::Resting))
            .map(|entry| entry.binding())
    }

    /// Returns this node's position in the file.
    pub fn me(&self) -> NodeId {
        self.config.me
    }

    /// Returns the number of nodes in the file.
    pub fn members(&self) -> usize {
        self.config.members.len()
    }

    /// Returns the subscriber of a host.
    pub fn subscriber(&self, host: std::net::Ipv6Addr) -> u128 {
        self.config.subscriber(host)
    }

    /// Returns the number of the last change of this node's bindings; 0 if there was none.
    pub fn last_change(&self) -> u64 {
        self.log.head()
    }

    /// Returns the last change of this node's bindings that is acknowledged by another node that would continue their
    /// flows if this one died now: it is reachable and has a complete snapshot. None if there is no such node, so that
    /// waiting is pointless.
    pub fn acknowledged(&self) -> Option<u64> {
        let may_go_on = |peer: &&Peer| {
            let link = peer.link.as_ref();
            let says = |link: &Link| {
                let takes_part = matches!(link.status, Status::Serving | Status::Draining);
                takes_part && link.telling == Telling::Ended
            };
            peer.is_up && link.is_some_and(says)
        };
        let peers = self.peers.iter().filter(may_go_on);
        peers.map(|peer| peer.acked).max()
    }

    /// Returns the owner of an address.
    pub fn owner(&self, addr: Ipv4Addr) -> Option<NodeId> {
        self.owners.of(addr)
    }

    /// Returns the number of invalid messages from others.
    pub fn strange(&self) -> u64 {
        self.strange
    }

    /// Returns true if there is a current connection with this node.
    pub fn is_connected(&self, peer: NodeId) -> bool {
        let peer = self.peers.get(peer.index());
        peer.is_some_and(|peer| peer.link.is_some())
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = NodeId> {
        let (me, count) = (self.config.me, self.peers.len());
        (0..count as u8).map(NodeId).filter(move |&node| node != me)
    }

    pub(crate) fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    pub(crate) fn insert(&mut self, binding: &Binding) {
        self.bindings
            .insert(binding, 0, self.bindings.sides(binding));
        let bucket = self.bucket(binding.v6.addr);
        self.bound_in[bucket] += 1;
        let most = self.config.bounds.changes;
        self.log.push(BindingChange::Opened(*binding), most);
    }

    /// Begins the rest of a binding's port.
    pub(crate) fn rest(&mut self, now: Moment, at: u32) {
        let binding = self.bindings.get(at).binding();
        let bucket = self.bucket(binding.v6.addr);
        debug_assert!(self.bound_in[bucket] > 0, "each binding was counted");
        self.bound_in[bucket] -= 1;
        let closed = BindingChange::Closed(binding.protocol, binding.v4);
        let change = self.log.push(closed, self.config.bounds.changes);
        self.rests.count = self.rests.count.wrapping_add(1);
        let rest = self.rests.count;
        self.bindings.rest(at, rest);
        self.rests.used.push_back(Rest {
            at,
            rest,
            change,
            since: now,
        });
    }

    pub(crate) fn drop_link(&mut self, peer: NodeId, out: &mut Vec<Action>) {
        if let Some(link) = self.peers[peer.index()].link.take() {
            let connection = link.connection;
            out.push(Action::Close { peer, connection });
        }
    }

    pub(crate) fn is_strange(&mut self, peer: NodeId, out: &mut Vec<Action>) {
        self.strange += 1;
        out.push(Action::Report(Report::Strange(peer)));
    }
}
