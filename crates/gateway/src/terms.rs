// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of the configuration decides on leases, and what they are counted in.

use std::net::Ipv6Addr;

use diolkos_fastpath::{queue_of, OWN};
use diolkos_nat64::config::{Lendable, Level, Limits, Nat64Config, Protocol};
use diolkos_nat64::session::State;

use super::mirror::own_networks;

/// Protocols of which sessions and ports are lent.
pub const LENT: [Protocol; 2] = [Protocol::Udp, Protocol::Tcp];

/// What is lent, or may be.
#[derive(Clone, Copy, Default, Debug)]
pub struct Lent {
    /// Sessions.
    pub sessions: u32,
    /// Ports, in the order of [`LENT`].
    pub ports: [u32; 2],
}

impl Lent {
    /// Ports of all protocols.
    pub fn all_ports(&self) -> u32 {
        self.ports[0] + self.ports[1]
    }
}

/// Ports of a protocol in the pool.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// What may be lent and used.
    pub lendable: Lendable,
    /// What is bound or lent.
    pub taken: u32,
}

impl Ports {
    /// How many of them a prefix has at most, if it has so many of all protocols.
    pub fn of_these(&self, has: u32) -> u32 {
        has.min(self.taken)
    }
}

/// The place of a protocol in [`LENT`].
pub fn at_of(protocol: Protocol) -> Option<usize> {
    LENT.iter().position(|&lent| lent == protocol)
}

/// Queues of a protocol by its place in [`LENT`].
pub fn queues_of(at: usize) -> [usize; 2] {
    [0, 1].map(|like| queue_of(LENT[at] == Protocol::Tcp, like))
}

/// What of the configuration matters here.
#[derive(Debug)]
pub struct Terms {
    limits: Limits,
    /// The widest first.
    pub levels: Vec<Level>,
    /// None at all.
    pub nothing: bool,
    /// No ports: each node wants that which it has itself.
    pub no_ports: bool,
}

impl Terms {
    /// Those of a configuration.
    pub fn of(config: &Nat64Config) -> Terms {
        Terms {
            limits: config.limits,
            levels: config.limits.levels().collect(),
            // The programs would not know every address of ours.
            nothing: own_networks(config).len() > OWN,
            no_ports: config.port_preservation,
        }
    }

    /// The prefixes that a node is in.
    pub fn prefixes(&self, node: Ipv6Addr) -> impl Iterator<Item = (usize, u128)> + '_ {
        let levels = self.levels.iter().enumerate();
        levels.map(move |(at, level)| (at, level.prefix_of(node)))
    }

    /// What may be lent and used, of sessions, of bindings, and of ports.
    pub fn lendable(&self, state: &State) -> (Lendable, Lendable, [Ports; 2]) {
        let limits = &self.limits;
        (
            limits.lendable(limits.sessions, limits.sessions_per_source),
            limits.lendable(limits.bindings, limits.bindings_per_source),
            LENT.map(|protocol| {
                let all = state.pool().ports(protocol);
                let taken = all.saturating_sub(state.pool().free_ports(protocol));
                let [all, taken] = [all, taken].map(|n| n.min(u32::MAX.into()) as u32);
                Ports {
                    lendable: limits.lendable(all, u32::MAX),
                    taken,
                }
            }),
        )
    }
}
