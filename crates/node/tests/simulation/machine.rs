// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: a process that may stand still or be killed, with the node, and programs that go on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::gateway::{Gateway, Tables};
use diolkos_node::order::BUCKETS;
use diolkos_node::{Node, NodeId};

use crate::truth::{key, key_of, subscriber, Key};

pub const PORTS: u16 = 8;
pub const FIRST_PORT: u16 = 5000;

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, node as u8)
}

/// What the kernel translates by itself.
pub struct Program {
    pub own: BTreeMap<Key, Binding>,
    /// Sessions from copies, with their owners.
    pub copies: BTreeMap<Key, (usize, Binding)>,
    pub until: Vec<Duration>,
    /// Whether an owner takes its packets.
    pub takes: Vec<bool>,
    /// Where packets of unknown hosts go.
    pub homes: Vec<Option<NodeId>>,
    /// How often it was asked to end sessions; it does so every now and then.
    asked: u32,
    /// Where those of some bindings go; the oldest makes room.
    pub away: VecDeque<(Endpoint6, Protocol, NodeId)>,
}

/// Bindings elsewhere that a program remembers.
const AWAY: usize = 3;
/// It ends a session when it is asked for so many times.
const SLOWNESS: u32 = 6;

impl Program {
    fn new(nodes: usize) -> Program {
        Program {
            own: BTreeMap::new(),
            copies: BTreeMap::new(),
            until: vec![Duration::ZERO; nodes],
            takes: vec![false; nodes],
            homes: vec![None; BUCKETS],
            away: VecDeque::new(),
            asked: 0,
        }
    }

    /// What a program of a new process knows: sessions of this node's bindings may go on.
    pub fn begin_anew(&mut self, knows: bool) {
        let own = std::mem::take(&mut self.own);
        *self = Program::new(self.until.len());
        if knows {
            self.own = own;
        }
    }

    /// Packets of this host go there for some time.
    pub fn lead_away(&mut self, host: Endpoint6, protocol: Protocol, to: NodeId) {
        self.away.retain(|(h, p, _)| (h, p) != (&host, &protocol));
        self.away.push_back((host, protocol, to));
        if self.away.len() > AWAY {
            self.away.pop_front();
        }
    }

    /// Where a packet of a host goes that has no session here; None: to the slow path.
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

    /// By what it translates a packet of a host.
    pub fn of_host(&self, clock: Duration, is_it: impl Fn(&Binding) -> bool) -> Option<Binding> {
        let own = self.own.values().find(|b| is_it(b));
        let is_allowed = |owner: usize| clock < self.until[owner];
        let mut copies = self.copies.values();
        let copy = copies.find(|(owner, b)| is_it(b) && is_allowed(*owner));
        own.copied().or(copy.map(|(_, b)| *b))
    }

    /// Whom it translates a port for.
    pub fn of_port(&self, clock: Duration, key: &Key) -> Option<Binding> {
        let copy = self.copies.get(key);
        let copy = copy.filter(|(owner, _)| clock < self.until[*owner]);
        self.own.get(key).copied().or(copy.map(|(_, b)| *b))
    }
}

/// A process.
pub struct Process {
    pub number: u64,
    pub gateway: Gateway,
    pub pool: Pool,
    pub has_left: bool,
}

impl Process {
    pub fn new(number: u64, me: usize, node: Node) -> Process {
        Process {
            number,
            gateway: Gateway::new(node),
            pool: Pool::new(me),
            has_left: false,
        }
    }
}

/// What the tables know of ports.
pub struct Pool {
    pub free: BTreeSet<Key>,
    /// Resting ports of each subscriber.
    pub resting: BTreeMap<Key, u64>,
    /// When a binding was last used.
    pub used: BTreeMap<Key, u64>,
}

impl Pool {
    fn new(me: usize) -> Pool {
        let ports = (0..2).flat_map(|protocol| (0..PORTS).map(move |port| (protocol, port)));
        let key = |(protocol, port)| (address(me).to_bits(), FIRST_PORT + port, protocol);
        Pool {
            free: ports.map(key).collect(),
            resting: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    pub fn take(&mut self, binding: &Binding, now: u64) {
        let key = key_of(binding);
        self.free.remove(&key);
        self.resting.remove(&key);
        self.used.insert(key, now);
    }

    /// Ports that a subscriber may get.
    pub fn choices(&self, who: u64, protocol: u8) -> Vec<Key> {
        let free = self.free.iter().copied();
        let its = self.resting.iter().filter(|(_, of)| **of == who);
        free.chain(its.map(|(key, _)| *key))
            .filter(|key| key.2 == protocol)
            .collect()
    }

    pub fn close(&mut self, binding: &Binding) {
        let key = key_of(binding);
        self.used.remove(&key);
        self.resting.insert(key, subscriber(binding));
    }
}

/// The tables and programs of a machine, as its gateway changes them.
pub struct Hands<'a> {
    pub program: &'a mut Program,
    pub pool: &'a mut Pool,
    pub now: u64,
    /// A port was freed that was free.
    pub error: Option<String>,
}

impl Tables for Hands<'_> {
    fn use_copies(&mut self, owner: NodeId, until: Duration) {
        self.program.until[owner.index()] = until;
    }

    fn forget(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.program.copies.remove(&key(protocol, v4));
    }

    fn forget_some(&mut self, owner: NodeId) -> bool {
        let of = |copies: &BTreeMap<Key, (usize, Binding)>| {
            let mut its = copies.iter().filter(|(_, (of, _))| *of == owner.index());
            its.next().map(|(key, _)| *key)
        };
        let one = of(&self.program.copies);
        self.program.asked += 1;
        if self.program.asked.is_multiple_of(SLOWNESS) {
            one.map(|key| self.program.copies.remove(&key));
        }
        of(&self.program.copies).is_none()
    }

    fn install(&mut self, binding: Binding) {
        self.program.own.insert(key_of(&binding), binding);
        self.pool.take(&binding, self.now);
    }

    fn hold(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.pool.free.remove(&key(protocol, v4));
    }

    fn free(&mut self, protocol: Protocol, v4: Endpoint4) {
        let key = key(protocol, v4);
        self.pool.resting.remove(&key);
        if !self.pool.free.insert(key) {
            self.error = Some(format!("{key:?} is freed, and is free"));
        }
    }

    fn lead(&mut self, bucket: usize, home: Option<NodeId>) {
        self.program.homes[bucket] = home;
    }

    fn reach(&mut self, owner: NodeId, takes: bool) {
        self.program.takes[owner.index()] = takes;
    }
}

pub struct Machine {
    pub id: NodeId,
    pub process: Option<Process>,
    pub program: Program,
    pub frozen_until: u64,
    /// It does not reach the engine until then.
    pub cut_from_engine_until: u64,
    /// Answers to it take long until then.
    pub slow_until: u64,
    offset: u64,
    rate: f64,
    pub lies: bool,
    /// When a process is to be started, and whether it knows the bindings of the one before.
    pub starts: Option<(u64, bool)>,
}

impl Machine {
    pub fn new(at: usize, nodes: usize, offset: u64, rate: f64, lies: bool) -> Machine {
        Machine {
            id: NodeId(at as u8),
            process: None,
            program: Program::new(nodes),
            frozen_until: 0,
            cut_from_engine_until: 0,
            slow_until: 0,
            offset,
            rate,
            lies,
            starts: Some((0, false)),
        }
    }

    pub fn clock(&self, now: u64) -> Duration {
        Duration::from_nanos(self.offset + (now as f64 * self.rate) as u64)
    }
}

pub fn v4(key: &Key) -> (Protocol, Endpoint4) {
    let addr = Ipv4Addr::from_bits(key.0);
    (
        Protocol::ALL[usize::from(key.2)],
        Endpoint4 { addr, port: key.1 },
    )
}
