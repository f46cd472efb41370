// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The amount of state of each prefix and its limit, to show prefixes close to their limit.

use super::bib::Whose;
use super::limit::Has;
use super::State;
use crate::config::{LevelKind, PoolId, Protocol, LEVELS};
use std::net::Ipv6Addr;

/// An amount and its limit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct QuotaUse {
    /// The current amount.
    pub has: u64,
    /// The current limit. It depends on the amounts of others, so it may be less than `has`.
    pub may: u64,
}

impl QuotaUse {
    /// The amount in percent of the limit, rounded down; 100 if the limit is 0.
    pub fn percent(&self) -> u64 {
        (self.has * 100).checked_div(self.may).unwrap_or(100)
    }
}

/// The amounts of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The first address of the prefix.
    pub prefix: Ipv6Addr,
    /// Its length in bits.
    pub prefix_len: u8,
    /// The kind of prefix.
    pub kind: LevelKind,
    /// Sessions.
    pub sessions: QuotaUse,
    /// Number of these that the IPv4 side opened.
    pub outside: u32,
    /// Bindings of all protocols.
    pub bindings: QuotaUse,
    /// Bindings of each protocol, by [`Protocol::index`], and the limit on their ports.
    pub ports: [QuotaUse; 3],
}

impl Holding {
    /// The highest percentage among all amounts.
    pub fn percent(&self) -> u64 {
        let ports = self.ports.iter().filter(|ports| ports.has > 0);
        let all = ports.chain([&self.sessions, &self.bindings]);
        all.filter(|held| held.has > 0)
            .map(QuotaUse::percent)
            .max()
            .unwrap_or(0)
    }
}

impl State {
    /// Returns prefixes in parts, like [`State::sessions_from`] for sessions.
    pub fn holdings_from(&self, first: u32, places: usize) -> (Vec<Holding>, Option<u32>) {
        let mut holdings = Vec::new();
        let mut next = None;
        for (at, prefix) in self.sources.prefixes_from(first).take(places) {
            holdings.extend(prefix.map(|(level, pool, prefix)| {
                self.holding(&self.sources.upwards(at), level, pool, prefix)
            }));
            next = Some(at + 1);
        }
        let rest = self.sources.prefixes_from(next.unwrap_or(0)).next();
        (holdings, next.filter(|_| rest.is_some()))
    }

    /// The amounts of all prefixes that contain a node, the widest first.
    pub fn holdings_of(&self, node: Ipv6Addr) -> Vec<Holding> {
        let all = self.sources.of_node(node);
        let levels = self.sources.levels();
        let pool = self.pool.pools().of_node(node);
        levels
            .map(|(at, level)| self.holding(&all, at, pool, level.prefix_of(node)))
            .collect()
    }

    /// Number of sessions opened from the IPv4 side, and their current limit.
    pub fn from_outside(&self) -> QuotaUse {
        let has = u64::from(self.sources.outside());
        QuotaUse {
            has,
            may: self.most_from_outside(Whose::Own),
        }
    }

    fn holding(&self, all: &[Has; LEVELS], level: usize, pool: PoolId, prefix: u128) -> Holding {
        let has = &all[level];
        let limits = &self.config.limits;
        let free = |limit: u32, used: u32| u64::from(limit.saturating_sub(used));
        let held = |used: &dyn Fn(&Has) -> u32, of_source: u32, free: u64| QuotaUse {
            has: u64::from(used(has)),
            may: self.may_have(all, level, used, (of_source, free)),
        };
        let of_level = self.sources.levels().nth(level).map(|(_, level)| *level);
        Holding {
            prefix: Ipv6Addr::from_bits(prefix),
            prefix_len: of_level.map_or(128, |level| level.prefix_len),
            kind: of_level.map_or(LevelKind::Host, |level| level.kind),
            sessions: held(
                &|has| has.sessions,
                limits.sessions_per_source,
                free(limits.sessions, self.sessions_of(Whose::Own)),
            ),
            outside: has.outside,
            bindings: held(
                &Has::all_bindings,
                limits.bindings_per_source,
                free(limits.bindings, self.bindings_of(Whose::Own)),
            ),
            ports: Protocol::ALL.map(|protocol| {
                // Static bindings are the operator's, and take nothing from a pool without ports.
                let ports = self.pool.ports_of(pool, protocol);
                if ports.all == 0 {
                    return QuotaUse::default();
                }
                let used = |has: &Has| has.bindings[protocol.index()];
                held(&used, u32::MAX, ports.free)
            }),
        }
    }

    /// The limit of a prefix of this level: its share of its own amount and the unused amount together, and at most the
    /// remainder of the wider prefixes that contain it.
    fn may_have(
        &self,
        node: &[Has; LEVELS],
        level: usize,
        used: impl Fn(&Has) -> u32,
        (of_source, mut free): (u32, u64),
    ) -> u64 {
        let mut may = 0;
        for (at, its) in self.sources.levels().take(level + 1) {
            let has = u64::from(used(&node[at]));
            may = its.limit(has, free);
            if its.kind == LevelKind::Source {
                may = may.min(u64::from(of_source));
            }
            free = free.min(may.saturating_sub(has));
        }
        may
    }
}
