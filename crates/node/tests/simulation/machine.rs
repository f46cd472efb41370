// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: a process that may stand still or be killed, with the node, and programs that go on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Protocol};
use diolkos_node::{Node, NodeId};

use crate::truth::{key_of, subscriber, Key};

pub const PORTS: u16 = 8;
pub const FIRST_PORT: u16 = 5000;

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, node as u8)
}

/// What the kernel translates by itself.
#[derive(Default)]
pub struct Program {
    pub own: BTreeMap<Key, Binding>,
    /// Sessions from copies, with their owners.
    pub copies: BTreeMap<Key, (usize, Binding)>,
    pub until: Vec<Duration>,
}

impl Program {
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

/// A process, and what its pool knows.
pub struct Process {
    pub number: u64,
    pub node: Node,
    pub free: BTreeSet<Key>,
    /// Resting ports of each subscriber.
    pub resting: BTreeMap<Key, u64>,
    /// When a binding was last used.
    pub used: BTreeMap<Key, u64>,
    pub has_left: bool,
}

impl Process {
    pub fn new(number: u64, me: usize, node: Node) -> Process {
        let ports = (0..2).flat_map(|protocol| (0..PORTS).map(move |port| (protocol, port)));
        let key = |(protocol, port)| (address(me).to_bits(), FIRST_PORT + port, protocol);
        Process {
            number,
            node,
            free: ports.map(key).collect(),
            resting: BTreeMap::new(),
            used: BTreeMap::new(),
            has_left: false,
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
            program: Program {
                until: vec![Duration::ZERO; nodes],
                ..Program::default()
            },
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
