// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries to the controller about its tables. No packet changes them meanwhile.

use diolkos_nat64::config::{PoolId, Protocol};
use diolkos_nat64::pool::Pool;
use diolkos_nat64::session::{BindingView, Counts, Holding, SessionView};
use diolkos_nat64::Nat64;
use ipnet::Ipv6Net;

use super::controller::{Controller, BUDGET};
use super::terms::at_of;
use diolkos_figures::figures::{PoolFigures, SourcePoolFigures, StateFigures};

/// Pools by source that have figures of their own, beside the fullest ones.
const MOST_POOLS: usize = 1024;

impl Controller {
    /// Calls `see` with the tables, which do not change meanwhile.
    pub fn look<T>(&self, see: impl FnOnce(&Nat64) -> T) -> T {
        see(&self.lock().nat64)
    }

    /// Returns some of the sessions, from slot `first` of the table on (0 is the first), and the slot to continue at.
    /// With `asks`, the fast path is asked for what it has seen of them, which takes most of the time.
    pub fn sessions_from(&self, first: u32, asks: bool) -> (Vec<SessionView>, Option<u32>) {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        if asks {
            state.catch_up(first, BUDGET, &mut inner.mirror);
        }
        state.sessions_from(first, BUDGET)
    }

    /// Returns some of the bindings, in the same way.
    pub fn bindings_from(&self, first: u32) -> (Vec<BindingView>, Option<u32>) {
        self.lock().nat64.state().bindings_from(first, BUDGET)
    }

    /// Returns some of the prefixes that hold something, in the same way; `places` is the number of slots to scan.
    pub fn holdings_from(&self, first: u32, places: usize) -> (Vec<Holding>, Option<u32>) {
        self.lock().nat64.state().holdings_from(first, places)
    }

    /// Returns the translation prefixes. Sessions refer to them by their position in this list.
    pub fn pref64(&self) -> Vec<Ipv6Net> {
        self.lock().nat64.config().translator.pref64.clone()
    }

    /// Returns true if entries have been added, removed or changed since the last call.
    pub fn take_changed(&self) -> bool {
        std::mem::take(&mut self.lock().mirror.changed)
    }

    /// Returns the number of entries of each kind.
    pub fn counts(&self) -> Counts {
        self.lock().nat64.state().counts()
    }

    /// Returns figures of the tables. The time that this takes does not depend on the number of entries.
    pub fn figures(&self) -> StateFigures {
        let inner = &*self.lock();
        let (state, nat64) = (inner.nat64.state(), &inner.nat64);
        let (counts, pool, limits) = (state.counts(), state.pool(), &nat64.config().limits);
        let (leases, lent) = inner.leases.lent_out();
        let (outside, blocks) = (state.from_outside(), pool.blocks());
        let of_pool = |protocol: Protocol| PoolFigures {
            ports: pool.ports(protocol),
            free: pool.free_ports(protocol),
            lent: at_of(protocol).map_or(0, |at| u64::from(lent.ports[at])),
            exhausted_addresses: (pool.len() as u64)
                .saturating_sub(u64::from(pool.addresses_with_free(protocol))),
        };
        let pools = pool.pools();
        let of_source = |id: PoolId| SourcePoolFigures {
            pool: pools
                .sources(id)
                .first()
                .map_or_else(|| "default".to_owned(), ToString::to_string),
            ports: Protocol::ALL.map(|protocol| {
                let ports = pool.ports_of(id, protocol);
                [ports.free, ports.all]
            }),
            blocks: {
                let blocks = pool.blocks_of(id);
                [blocks.free, blocks.all]
            },
        };
        StateFigures {
            sessions: counts.sessions_of,
            bindings: counts.bindings_of,
            max_sessions: limits.sessions,
            max_bindings: limits.bindings,
            sources: counts.sources,
            held_syns: counts.held_syns as u64,
            max_held_syns: limits.held_syns,
            held_fragments: nat64.held_fragments() as u64,
            pool_addresses: pool.len() as u64,
            pool: Protocol::ALL.map(of_pool),
            source_pools: listed(pool).into_iter().map(of_source).collect(),
            port_blocks: [blocks.free, blocks.all],
            is_deterministic: pool.mappings().is_some(),
            outside_sessions: [outside.has, outside.may],
            leases,
            lent_sessions: lent.sessions,
            lock_wait: inner.times[0],
            lock_held: inner.times[1],
            resources: Vec::new(),
            near_share: [0; 3],
        }
    }

    /// Returns the number of sessions that did not fit into the fast path's maps.
    pub fn refused(&self) -> u64 {
        self.lock().mirror.refused
    }

    /// Returns how often the tables continued without a report that a program had reserved but not yet submitted.
    pub fn unheard(&self) -> u64 {
        self.kernel.as_ref().map_or(0, |kernel| kernel.unheard())
    }
}

/// The pools by source that have figures of their own: the first ones, and behind them the fullest one of each resource,
/// which alarms are about.
fn listed(pool: &Pool) -> Vec<PoolId> {
    let count = pool.pools().count();
    if count == 1 {
        return Vec::new();
    }
    let mut listed: Vec<PoolId> = (0..count.min(MOST_POOLS) as PoolId).collect();
    if count > MOST_POOLS {
        let all = 0..count as PoolId;
        let mut fullest: Vec<PoolId> = Vec::new();
        for protocol in Protocol::ALL {
            let ports = |id: &PoolId| pool.ports_of(*id, protocol);
            let some = all.clone().filter(|id| ports(id).all > 0);
            fullest.extend(some.min_by_key(|id| ports(id).free * 1000 / ports(id).all));
        }
        let some = all.filter(|id| pool.blocks_of(*id).all > 0);
        fullest.extend(some.min_by_key(|id| {
            let blocks = pool.blocks_of(*id);
            blocks.free * 1000 / blocks.all
        }));
        fullest.sort_unstable();
        fullest.dedup();
        fullest.retain(|id| *id as usize >= MOST_POOLS);
        listed.extend(fullest);
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use diolkos_nat64::config::Pool4;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// An alarm is about the fullest pool, wherever in the list it is.
    #[test]
    fn the_fullest_pool_has_figures_behind_the_first_ones() {
        let part = |n: u32| Pool4 {
            net: Ipv4Addr::from_bits(0xc612_0000 + n).into(),
            ports: 1024..=1151,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![format!("2001:db8:{n:x}::/48").parse().expect("a prefix")],
            interface: None,
        };
        let parts: Vec<Pool4> = (0..1200).map(part).collect();
        let mut pool = Pool::new(&parts, false, [1, 2]);
        pool.divide(64, None);
        assert_eq!(listed(&pool).len(), MOST_POOLS);
        let host = |n: u32| -> Ipv6Addr { format!("2001:db8:{n:x}::1").parse().expect("a node") };
        let claim = |pool: &mut Pool, n, port| {
            let v4 = diolkos_nat64::config::Endpoint4 {
                addr: Ipv4Addr::from_bits(0xc612_0000 + n),
                port,
            };
            pool.claim(Protocol::Udp, v4, host(n))
        };
        for port in 1024..1034 {
            claim(&mut pool, 1150, port);
            claim(&mut pool, 1150, port + 64);
        }
        let addr = Ipv4Addr::from_bits(0xc612_0000 + 1151);
        assert!(pool.take_block(addr, true, || 0).is_some());
        // The default pool is number 0.
        assert_eq!(listed(&pool)[MOST_POOLS..], [1151, 1152]);
    }
}
