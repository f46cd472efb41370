// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes how much may still be lent to a node, and which leases end when others come near a limit.
//!
//! Both keep a margin below each limit: of the sessions, of the bindings, of the ports of an address, of those of
//! the node's pool, and of the shares of each prefix that contains the node.

use std::net::Ipv6Addr;

use diolkos_nat64::config::PoolId;
use diolkos_nat64::session::State;

use super::super::terms::{Lent, PoolPrefix, PortSupply, LENT};
use super::{early, GrantedLease, Leases};

/// Within this margin of a limit nothing is lent; within half of it leases end. One packet opens at most two
/// sessions.
const LEAST_MARGIN: u32 = 8;
/// Of a limit, one part in so many is a margin within which nothing is lent.
pub(super) const MARGIN: u32 = 16;
/// The same, within which leases end.
const NARROW_MARGIN: u32 = 32;

/// Where others come near a limit.
enum Near {
    /// Everywhere.
    All,
    /// In a pool.
    Pool(PoolId),
    /// In a prefix of a level.
    Prefix(PoolPrefix),
}

impl Leases {
    /// Returns what may be lent to a node in addition to what it has, if one part in `margin` of each limit remains.
    pub(super) fn room(&self, node: Ipv6Addr, state: &State, margin: u32) -> Lent {
        let used = state.usage(node);
        let room = |limit, used, lent| within(margin, limit, used, lent);
        let pool = self.terms.pools.of_node(node);
        let (sessions, bindings, ports) = self.terms.lendable(state, pool);
        let mut least = self.room_of_all(node, state, margin);
        for prefix in self.terms.prefixes(node) {
            let level = prefix.0;
            let lent = self.lent_to.get(&prefix);
            let lent = lent.copied().unwrap_or_default();
            let (of_sessions, of_bindings) = used.of_level[level];
            let of_sessions = room(sessions.of_level[level], of_sessions, lent.sessions);
            least.sessions = least.sessions.min(of_sessions);
            for (least, ports) in least.ports.iter_mut().zip(&ports) {
                let of_prefix = room(bindings.of_level[level], of_bindings, lent.all_ports());
                let has = ports.of_these(of_bindings.saturating_add(lent.all_ports()));
                let of_ports = room(ports.lendable.of_level[level], has, 0);
                *least = (*least).min(of_prefix).min(of_ports);
            }
        }
        least
    }

    /// Returns what may be lent to all nodes of the pool of one, in addition to what they have.
    pub(super) fn room_of_all(&self, node: Ipv6Addr, state: &State, margin: u32) -> Lent {
        let counts = state.counts();
        let pool = self.terms.pools.of_node(node);
        let (sessions, bindings, ports) = self.terms.lendable(state, pool);
        let of_bindings = within(margin, bindings.all, counts.bindings, self.lent.all_ports());
        Lent {
            sessions: within(margin, sessions.all, counts.sessions, self.lent.sessions),
            ports: [0, 1].map(|at| {
                // The number of free ports already excludes lent ones: a lent port is taken.
                of_bindings.min(within(margin, ports[at].lendable.all, ports[at].taken, 0))
            }),
        }
    }

    /// Ends leases where a limit, or the end of the pool, is near that others may reach; early ones sooner.
    pub(super) fn end_where_short(&mut self, node: Ipv6Addr, state: &mut State) {
        let near = self.near(node, state, early::END);
        match near {
            Some(Near::All) if self.early.all() > 0 => {
                self.end_where(state, |held| held.is_early);
            }
            Some(Near::Pool(pool)) if self.early.of_pool(pool) > 0 => {
                self.end_where(state, |held| held.is_early && held.pool == pool);
            }
            Some(Near::Prefix(prefix)) if self.early.of(prefix) > 0 => {
                let is_in = self.is_in(prefix);
                self.end_where(state, |held| held.is_early && is_in(held));
            }
            _ => {}
        }
        // What is outside of the wider margin is outside of this one, too.
        match near.and_then(|_| self.near(node, state, NARROW_MARGIN)) {
            Some(Near::All) => return self.end_all(state),
            Some(Near::Pool(pool)) => self.end_where(state, |held| held.pool == pool),
            Some(Near::Prefix(prefix)) => {
                let is_in = self.is_in(prefix);
                self.end_where(state, is_in);
            }
            None => {}
        }
        let source = LENT
            .iter()
            .find_map(|&protocol| state.wanted_back(protocol, node));
        if let Some(source) = source {
            self.end_where(state, |held| source.contains(&held.node));
        }
        let Some(address) = state.address_of(node) else {
            return;
        };
        if LENT.iter().any(|&protocol| state.is_short(protocol, node)) {
            self.end_where(state, |held| held.address == address);
        }
    }

    /// Returns true for the leases of a prefix.
    fn is_in(&self, (at, pool, prefix): PoolPrefix) -> impl Fn(&GrantedLease) -> bool {
        let level = self.terms.levels[at];
        move |held| held.pool == pool && level.prefix_of(held.node) == prefix
    }

    /// Returns where less than one part in `margin` of a limit is neither used nor lent, and something is lent: the widest
    /// such prefix of a node.
    fn near(&self, node: Ipv6Addr, state: &State, margin: u32) -> Option<Near> {
        let used = state.usage(node);
        let is_near = |limit: u32, used: u32, lent: u32| {
            let margin = (limit / margin).max(LEAST_MARGIN / 2);
            lent > 0 && used.saturating_add(lent) > limit.saturating_sub(margin)
        };
        let pool = self.terms.pools.of_node(node);
        let (sessions, bindings, ports) = self.terms.lendable(state, pool);
        let all = self.lent;
        let in_pool = self.lent_in.get(&pool).copied().unwrap_or_default();
        let are_ports_near = |(ports, lent): (&PortSupply, u32)| {
            let bound = ports.taken.saturating_sub(lent);
            is_near(ports.lendable.all, bound, lent)
        };
        if is_near(sessions.all, used.sessions, all.sessions)
            || is_near(bindings.all, used.bindings, all.all_ports())
        {
            return Some(Near::All);
        }
        if ports.iter().zip(in_pool.ports).any(are_ports_near) {
            return Some(Near::Pool(pool));
        }
        for prefix in self.terms.prefixes(node) {
            let at = prefix.0;
            let its = self.lent_to.get(&prefix).copied().unwrap_or_default();
            let (of_sessions, of_bindings) = used.of_level[at];
            let are_its_near = |(ports, lent): (&PortSupply, u32)| {
                let has = ports.of_these(of_bindings.saturating_add(its.all_ports()));
                is_near(ports.lendable.of_level[at], has.saturating_sub(lent), lent)
            };
            if is_near(sessions.of_level[at], of_sessions, its.sessions)
                || is_near(bindings.of_level[at], of_bindings, its.all_ports())
                || ports.iter().zip(its.ports).any(are_its_near)
            {
                return Some(Near::Prefix(prefix));
            }
        }
        None
    }
}

/// Returns what is left of a limit of which one part in `margin` is kept.
fn within(margin: u32, limit: u32, used: u32, lent: u32) -> u32 {
    let lendable = limit.saturating_sub((limit / margin).max(LEAST_MARGIN));
    lendable.saturating_sub(used.saturating_add(lent))
}
