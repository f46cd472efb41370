// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: a process that may be stopped or killed, with the node and its tables, and programs that continue.

use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Nat64Config, Protocol};
use diolkos_nat64::session::State;
use diolkos_node::gateway::Gateway;
use diolkos_node::{Config, Node, NodeId};

use crate::formats::Version;
use crate::program::Program;
use crate::tables::configured;
use crate::truth::Key;

/// The protocols that hosts use.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::Udp, Protocol::Icmp];
pub const PORTS: u16 = 8;
pub const FIRST_PORT: u16 = 5000;

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, node as u8)
}

/// Returns the peer of all hosts.
pub fn peer(protocol: Protocol) -> Endpoint4 {
    Endpoint4 {
        addr: Ipv4Addr::new(198, 51, 100, 1),
        port: if protocol == Protocol::Icmp { 0 } else { 53 },
    }
}

/// The file and the version that a process is started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Installed {
    /// Selects one of two files: in the other one, the first two nodes have each other's addresses.
    pub has_other_file: bool,
    pub version: Version,
}

/// A process.
pub struct Process {
    pub number: u64,
    /// Its file.
    pub config: Config,
    /// True if it expected all others, which changed to its file together with it.
    pub went_over: bool,
    pub gateway: Gateway,
    pub state: State,
    pub has_left: bool,
}

impl Process {
    /// Starts a process. The operator's bindings are part of the file.
    pub fn new(
        number: u64,
        (config, bindings): (&Config, &[Binding]),
        node: Node,
        secret: [u64; 4],
    ) -> Process {
        let tables = Nat64Config {
            bindings: bindings.to_vec(),
            ..configured(config)
        };
        Process {
            number,
            config: config.clone(),
            went_over: false,
            gateway: Gateway::new(node),
            state: State::new(&tables, secret),
            has_left: false,
        }
    }
}

pub struct Machine {
    pub id: NodeId,
    pub process: Option<Process>,
    pub program: Program,
    pub frozen_until: u64,
    /// The end of the time in which it cannot reach the engine.
    pub cut_from_engine_until: u64,
    /// The end of the time in which answers to it are slow.
    pub slow_until: u64,
    offset: u64,
    rate: f64,
    pub lies: bool,
    /// What its process was started with, or the one before, whose programs may continue.
    pub runs: Installed,
    /// What its next process starts with.
    pub next: Installed,
    /// The operator's bindings, in its file.
    pub bindings: Vec<Binding>,
    /// True if its next process expects all others: it changes to another file together with them.
    pub goes_over: bool,
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
            runs: Installed::default(),
            next: Installed::default(),
            bindings: Vec::new(),
            goes_over: false,
            starts: Some((0, false)),
        }
    }

    /// Returns the owner of an address, by the file of this machine's process and programs.
    pub fn owner(&self, address: Ipv4Addr) -> NodeId {
        match address.octets()[3] {
            node @ 0..2 if self.runs.has_other_file => NodeId(1 - node),
            node => NodeId(node),
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
