// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of the configuration decides on leases.

use std::net::Ipv6Addr;

use diolkos_core::config::nat64::{Lendable, Level, Limits, Nat64Config, Protocol};
use diolkos_core::session::State;
use diolkos_sys::fastpath::OWN;

use super::mirror::own_networks;

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

    /// What may be lent and used, of sessions, of bindings, and of UDP ports of the pool.
    pub fn lendable(&self, state: &State) -> (Lendable, Lendable, Lendable) {
        let limits = &self.limits;
        let ports = state.pool().ports(Protocol::Udp).min(u32::MAX.into());
        (
            limits.lendable(limits.sessions, limits.sessions_per_source),
            limits.lendable(limits.bindings, limits.bindings_per_source),
            limits.lendable(ports as u32, u32::MAX),
        )
    }

    /// UDP ports of the pool that are bound or lent.
    pub fn ports_taken(state: &State) -> u32 {
        let pool = state.pool();
        let taken = pool.ports(Protocol::Udp) - pool.free_ports(Protocol::Udp);
        taken.min(u32::MAX.into()) as u32
    }
}
