// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The actions of the kernel by itself, whatever the process does.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint6, Protocol};
use diolkos_node::gateway::Lead;
use diolkos_node::order::BUCKETS;
use diolkos_node::NodeId;

use crate::truth::Key;

/// The bindings that the kernel translates by itself.
pub struct Program {
    pub own: BTreeMap<Key, Binding>,
    /// Sessions from copies, with their owners.
    pub copies: BTreeMap<Key, (usize, Binding)>,
    pub until: Vec<Duration>,
    /// By owner: whether it accepts its packets.
    pub takes: Vec<bool>,
    /// The destinations of packets of unknown hosts.
    pub homes: Vec<Option<NodeId>>,
    /// By bucket: whether it may open bindings. The real program does if a host opens many; this one never
    /// does.
    pub opens: Vec<bool>,
    /// By bucket: whether packets that show no port go to the slow path.
    pub keeps_portless: Vec<bool>,
    /// When a host last used a binding of this node by the program.
    pub seen: BTreeMap<Key, Duration>,
    /// How often it was asked to end sessions; it does so every now and then.
    pub asked: u32,
    /// The destinations of packets of some bindings; the oldest makes room.
    pub away: VecDeque<(Endpoint6, Protocol, NodeId)>,
}

/// Maximum number of bindings elsewhere that a program remembers.
const AWAY: usize = 3;

impl Program {
    pub fn new(nodes: usize) -> Program {
        Program {
            own: BTreeMap::new(),
            copies: BTreeMap::new(),
            until: vec![Duration::ZERO; nodes],
            takes: vec![false; nodes],
            homes: vec![None; BUCKETS],
            opens: vec![false; BUCKETS],
            keeps_portless: vec![false; BUCKETS],
            away: VecDeque::new(),
            asked: 0,
            seen: BTreeMap::new(),
        }
    }

    pub fn lead(&mut self, lead: Lead) {
        self.homes[lead.bucket] = lead.home;
        self.opens[lead.bucket] = lead.opens;
        self.keeps_portless[lead.bucket] = lead.keeps_portless;
    }

    /// Returns to the state at the start of a new process; with `knows`, sessions of this node's bindings
    /// continue.
    pub fn begin_anew(&mut self, knows: bool) {
        let own = std::mem::take(&mut self.own);
        *self = Program::new(self.until.len());
        if knows {
            self.own = own;
        }
    }

    /// Sends packets of this host to that node for some time.
    pub fn lead_away(&mut self, host: Endpoint6, protocol: Protocol, to: NodeId) {
        self.away.retain(|(h, p, _)| (h, p) != (&host, &protocol));
        self.away.push_back((host, protocol, to));
        if self.away.len() > AWAY {
            self.away.pop_front();
        }
    }

    /// Returns the node to which a packet of a host goes that has no session here; None for the slow path.
    pub fn way_of_host(
        &self,
        me: NodeId,
        host: Endpoint6,
        protocol: Protocol,
        bucket: usize,
    ) -> Option<NodeId> {
        let mut away = self.away.iter();
        let known = away.find(|(h, p, _)| (*h, *p) == (host, protocol));
        let known = known.map(|(.., node)| *node);
        let known = known.filter(|node| self.takes[node.index()]);
        known.or(self.homes[bucket]).filter(|node| *node != me)
    }

    /// Returns the binding by which it translates a packet of a host.
    pub fn of_host(&self, clock: Duration, is_it: impl Fn(&Binding) -> bool) -> Option<Binding> {
        let own = self.own.values().find(|b| is_it(b));
        let is_allowed = |owner: usize| clock < self.until[owner];
        let mut copies = self.copies.values();
        let copy = copies.find(|(owner, b)| is_it(b) && is_allowed(*owner));
        own.copied().or(copy.map(|(_, b)| *b))
    }

    /// Returns the binding for which it translates a port.
    pub fn of_port(&self, clock: Duration, key: &Key) -> Option<Binding> {
        let copy = self.copies.get(key);
        let copy = copy.filter(|(owner, _)| clock < self.until[*owner]);
        self.own.get(key).copied().or(copy.map(|(_, b)| *b))
    }
}
