// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: a process that may stand still or be killed, with the node and its tables, and programs that go on.

use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_core::config::nat64::{Endpoint4, Protocol};
use diolkos_core::session::State;
use diolkos_node::gateway::Gateway;
use diolkos_node::{Config, Node, NodeId};

use crate::program::Program;
use crate::tables::configured;
use crate::truth::Key;

/// Which protocols hosts speak.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::Udp, Protocol::Icmp];
pub const PORTS: u16 = 8;
pub const FIRST_PORT: u16 = 5000;

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, node as u8)
}

/// The peer of all hosts.
pub fn peer(protocol: Protocol) -> Endpoint4 {
    Endpoint4 {
        addr: Ipv4Addr::new(198, 51, 100, 1),
        port: if protocol == Protocol::Icmp { 0 } else { 53 },
    }
}

/// A process.
pub struct Process {
    pub number: u64,
    pub gateway: Gateway,
    pub state: State,
    pub has_left: bool,
}

impl Process {
    pub fn new(number: u64, config: &Config, node: Node, secret: [u64; 4]) -> Process {
        Process {
            number,
            gateway: Gateway::new(node),
            state: State::new(&configured(config), secret),
            has_left: false,
        }
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
    /// By which of the two files its next process starts.
    pub has_other_file: bool,
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
            has_other_file: false,
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
