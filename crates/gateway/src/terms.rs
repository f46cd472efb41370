// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of the configuration that decides on leases, and the units that they are counted in.

use std::cell::Cell;
use std::net::Ipv6Addr;
use std::sync::Arc;

use diolkos_fastpath::{queue_of, OWN};
use diolkos_nat64::config::{Lendable, Level, Limits, Nat64Config, PoolId, Pools, Protocol};
use diolkos_nat64::session::State;

use super::mirror::own_networks;

/// Protocols of which sessions and ports are lent.
pub const LENT: [Protocol; 2] = [Protocol::Udp, Protocol::Tcp];

/// An amount that is lent, or may be.
#[derive(Clone, Copy, Default, Debug)]
pub struct Lent {
    /// Number of sessions.
    pub sessions: u32,
    /// Number of ports, in the order of [`LENT`].
    pub ports: [u32; 2],
}

impl Lent {
    /// Returns the number of ports of all protocols.
    pub fn all_ports(&self) -> u32 {
        self.ports[0] + self.ports[1]
    }
}

/// The nodes of one pool in a prefix, with the index of the level of the prefix.
pub type PoolPrefix = (usize, PoolId, u128);

/// The ports of a protocol in a pool.
#[derive(Clone, Copy, Debug)]
pub struct PortSupply {
    /// Ports that may be lent and used.
    pub lendable: Lendable,
    /// Ports that are bound or lent.
    pub taken: u32,
}

impl PortSupply {
    /// Returns the maximum number of them that a prefix has, if it has `has` ports of all
    /// protocols.
    pub fn of_these(&self, has: u32) -> u32 {
        has.min(self.taken)
    }
}

/// Returns the position of a protocol in [`LENT`].
pub fn at_of(protocol: Protocol) -> Option<usize> {
    LENT.iter().position(|&lent| lent == protocol)
}

/// Returns the queues of a protocol by its position in [`LENT`].
pub fn queues_of(at: usize) -> [usize; 2] {
    [0, 1].map(|like| queue_of(LENT[at] == Protocol::Tcp, like))
}

/// The part of the configuration that matters for leases.
#[derive(Debug)]
pub struct Terms {
    limits: Limits,
    /// The pools of nodes.
    pub pools: Arc<Pools>,
    /// The prefix levels, the widest first.
    pub levels: Vec<Level>,
    /// True if nothing may be lent.
    pub nothing: bool,
    /// True if no ports may be lent: each node should keep its own port numbers.
    pub no_ports: bool,
    sessions: Lendable,
    bindings: Lendable,
    /// Of so many ports, as last computed: the pool rarely changes.
    ports: Cell<[(u32, Lendable); 2]>,
}

impl Terms {
    /// Returns the terms of a configuration.
    pub fn of(config: &Nat64Config, pools: &Arc<Pools>) -> Terms {
        let limits = &config.limits;
        let none = (0, limits.lendable(0, u32::MAX));
        Terms {
            limits: config.limits,
            pools: pools.clone(),
            levels: config.limits.levels().collect(),
            // The programs would not know every address of ours.
            nothing: own_networks(config).len() > OWN,
            no_ports: config.port_preservation,
            sessions: limits.lendable(limits.sessions, limits.sessions_per_source),
            bindings: limits.lendable(limits.bindings, limits.bindings_per_source),
            ports: Cell::new([none; 2]),
        }
    }

    /// Returns the prefixes that contain a node.
    pub fn prefixes(&self, node: Ipv6Addr) -> impl Iterator<Item = PoolPrefix> + '_ {
        let pool = self.pools.of_node(node);
        let levels = self.levels.iter().enumerate();
        levels.map(move |(at, level)| (at, pool, level.prefix_of(node)))
    }

    /// Returns what may be lent and used: of sessions, of bindings, and of the ports of a pool.
    pub fn lendable(&self, state: &State, pool: PoolId) -> (Lendable, Lendable, [PortSupply; 2]) {
        let mut known = self.ports.get();
        let supply = [0, 1].map(|at| {
            let ports = state.pool().ports_of(pool, LENT[at]);
            let taken = ports.all.saturating_sub(ports.free);
            let [all, taken] = [ports.all, taken].map(|n| n.min(u32::MAX.into()) as u32);
            if known[at].0 != all {
                known[at] = (all, self.limits.lendable(all, u32::MAX));
                self.ports.set(known);
            }
            PortSupply {
                lendable: known[at].1,
                taken,
            }
        });
        (self.sessions, self.bindings, supply)
    }
}
