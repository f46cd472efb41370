// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admission of new state: total limits, limits of each source, and shares. A share is the part of the unused
//! remainder that a part of the network may have ([`crate::config::Limits`]).

use super::bib::Whose;
use super::limit::Has;
use super::tcp::Side;
use super::State;
use crate::config::{share, LevelKind, Protocol, LEVELS};
use diolkos_xlat::verdict::Reason;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The level whose share is used up.
type Of = LevelKind;

impl State {
    /// Checks the absolute limits for a new binding of a node; `node` holds the counts of its prefixes.
    pub(super) fn admit_binding_within_limits(&self, node: &[Has; LEVELS]) -> Result<(), Reason> {
        let limits = &self.config.limits;
        if self.bindings_of(Whose::Own) >= limits.bindings {
            return Err(Reason::BindingLimit);
        }
        if self.of_source(node).all_bindings() >= limits.bindings_per_source {
            return Err(Reason::SourceBindingLimit);
        }
        Ok(())
    }

    /// Returns true if only nodes in the sources of pools get ports, and this is none of them.
    pub(super) fn has_no_pool(&self, node: Ipv6Addr) -> bool {
        let pools = self.pool.pools();
        pools.count() > 1 && self.pool.address_of(node).is_none()
    }

    /// Number of free ports of a protocol in the pool of a node.
    pub(super) fn free_ports(&self, protocol: Protocol, node: Ipv6Addr) -> u64 {
        let pool = self.pool.pools().of_node(node);
        self.pool.ports_of(pool, protocol).free
    }

    /// Checks absolute limits and shares for a new binding; `free_ports` of the protocol are free.
    pub(super) fn admit_binding(
        &self,
        protocol: Protocol,
        free_ports: u64,
        node: &[Has; LEVELS],
    ) -> Result<(), Reason> {
        self.admit_binding_within_limits(node)?;
        if free_ports == 0 {
            return Err(Reason::PoolExhausted);
        }
        let limit = self.config.limits.bindings;
        let free = u64::from(limit.saturating_sub(self.bindings_of(Whose::Own)));
        self.within_shares(node, Has::all_bindings, free)
            .map_err(of_binding)?;
        let used = |has: &Has| has.bindings[protocol.index()];
        self.within_shares(node, used, free_ports)
            .map_err(of_binding)
            .map(|_| ())
    }

    /// Checks a new binding whose port comes from a block; blocks have limits and shares of their own.
    pub(super) fn admit_binding_in_block(&self, node: &[Has; LEVELS]) -> Result<(), Reason> {
        self.admit_binding_within_limits(node)?;
        let limit = self.config.limits.bindings;
        let free = u64::from(limit.saturating_sub(self.bindings_of(Whose::Own)));
        let shared = self.within_shares(node, Has::all_bindings, free);
        shared.map_err(of_binding).map(|_| ())
    }

    /// Checks whether the source of a node may get another port block.
    pub(super) fn admit_block(&self, addr: Ipv6Addr) -> Result<(), Reason> {
        let node = &self.sources.of_node(addr);
        let free = self.pool.blocks_of(self.pool.pools().of_node(addr)).free;
        if free == 0 {
            return Err(Reason::PoolExhausted);
        }
        let shared = self.within_shares(node, |has| has.blocks, free);
        shared.map_err(of_binding).map(|_| ())
    }

    /// Checks a copy of another gateway's binding, by the same limits and shares, counted among copies only.
    pub(super) fn admit_copy(&self, node: Ipv6Addr) -> Result<(), Reason> {
        let limits = &self.config.limits;
        let sources = self.sources_of(Whose::Copied);
        let node = sources.of_node(node);
        let there = self.bindings_of(Whose::Copied);
        if there >= limits.bindings {
            return Err(Reason::BindingLimit);
        }
        if self.of_source(&node).all_bindings() >= limits.bindings_per_source {
            return Err(Reason::SourceBindingLimit);
        }
        let free = u64::from(limits.bindings - there);
        let shared = self.within_shares(&node, Has::all_bindings, free);
        shared.map_err(of_binding).map(|_| ())
    }

    /// Checks the absolute limits for a session that this side opens; `node` holds the counts of the prefixes
    /// of a node.
    ///
    /// The IPv4 side may open only half of the sessions of a source, because the source cannot control them.
    /// The source can always open the other half itself.
    pub(super) fn admit_within_limits(
        &self,
        side: Side,
        whose: Whose,
        node: &[Has; LEVELS],
    ) -> Result<(), Reason> {
        let limits = &self.config.limits;
        if self.sessions_of(whose) >= limits.sessions {
            return Err(Reason::SessionLimit);
        }
        let of_source = match side {
            Side::V6 => limits.sessions_per_source,
            Side::V4 => limits.sessions_per_source.div_ceil(2),
        };
        if self.of_source(node).sessions >= of_source {
            return Err(Reason::SourceSessionLimit);
        }
        Ok(())
    }

    /// Checks absolute limits and shares for a session.
    pub(super) fn admit_session(
        &self,
        side: Side,
        whose: Whose,
        node: &[Has; LEVELS],
    ) -> Result<(), Reason> {
        self.admit_within_limits(side, whose, node)?;
        self.within_shares(node, |has| has.sessions, self.free_sessions(whose))
            .map_err(|of| match of {
                Of::Host => Reason::HostSessionLimit,
                Of::Source => Reason::SourceSessionLimit,
                Of::Site => Reason::SiteSessionLimit,
            })?;
        Ok(())
    }

    /// Checks the rates of the prefixes that contain a node for one more session that it opens.
    pub(super) fn admit_rate(&self, node: Ipv6Addr) -> Result<(), Reason> {
        let now = self.clock.now();
        rate_result(self.sources.is_node_too_fast(node, now))
    }

    /// The same for the node of a binding, by the number of its entry.
    pub(super) fn admit_rate_of(&self, whose: Whose, entry: u32) -> Result<(), Reason> {
        let sources = self.sources_of(whose);
        rate_result(sources.is_too_fast(entry, self.clock.now()))
    }

    /// Checks the additional limits for a session that `peer` opens from the IPv4 side, with a binding for
    /// which the IPv4 side has opened `of_binding` sessions.
    ///
    /// IPv4 sources can be spoofed, so only the shares of the nodes contain such floods. The share of a peer
    /// limits honest peers. A binding and a peer are single nodes, so the share of a host applies to them.
    pub(super) fn admit_from_outside(
        &self,
        node: &[Has; LEVELS],
        whose: Whose,
        of_binding: u32,
        peer: Ipv4Addr,
    ) -> Result<(), Reason> {
        let limits = &self.config.limits;
        let sources = self.sources_of(whose);
        let there = u64::from(sources.outside());
        let most = self.most_from_outside(whose);
        if there >= most {
            return Err(Reason::OutsideSessionLimit);
        }
        let free = most - there;
        let is_beyond = |used: u32, free: u64| {
            u64::from(used) >= share(limits.host_share, u64::from(used) + free)
        };
        if is_beyond(sources.of_peer(peer), free) {
            return Err(Reason::OutsidePeerLimit);
        }
        let left = self
            .within_shares(node, |has| has.outside, free)
            .map_err(|_| Reason::OutsideNodeLimit)?;
        let of_binding = u64::from(of_binding);
        let left = share(limits.host_share, of_binding + left).saturating_sub(of_binding);
        if left == 0 {
            return Err(Reason::OutsideNodeLimit);
        }
        // The peer also gets only its share of what the binding has left. Otherwise one peer could occupy a
        // port that others need.
        if is_beyond(sources.of_peer(peer), left) {
            return Err(Reason::OutsidePeerLimit);
        }
        Ok(())
    }

    /// Maximum number of sessions that the IPv4 side may have opened in total.
    pub(super) fn most_from_outside(&self, whose: Whose) -> u64 {
        let there = u64::from(self.sources_of(whose).outside());
        let share_of = self.config.limits.outside_share;
        share(share_of, there + self.free_sessions(whose))
    }

    fn free_sessions(&self, whose: Whose) -> u64 {
        let limit = self.config.limits.sessions;
        u64::from(limit.saturating_sub(self.sessions_of(whose)))
    }

    fn of_source(&self, node: &[Has; LEVELS]) -> Has {
        let mut levels = self.sources.levels();
        let found = levels.find(|(_, level)| level.kind == LevelKind::Source);
        found.map_or(Has::default(), |(at, _)| node[at])
    }

    /// Checks the shares for one more entry of a kind with `free` unused entries. Returns the node's remaining
    /// amount, or the level whose share is used up.
    fn within_shares(
        &self,
        node: &[Has; LEVELS],
        used: impl Fn(&Has) -> u32,
        mut free: u64,
    ) -> Result<u64, Of> {
        for (at, level) in self.sources.levels() {
            let used = u64::from(used(&node[at]));
            let limit = level.limit(used, free);
            if used >= limit {
                return Err(level.kind);
            }
            free = free.min(limit - used);
        }
        Ok(free)
    }
}

fn rate_result(of: Option<Of>) -> Result<(), Reason> {
    match of {
        None => Ok(()),
        Some(Of::Host) => Err(Reason::HostRateLimit),
        Some(Of::Source) => Err(Reason::SourceRateLimit),
        Some(Of::Site) => Err(Reason::SiteRateLimit),
    }
}

fn of_binding(of: Of) -> Reason {
    match of {
        Of::Host => Reason::HostBindingLimit,
        Of::Source => Reason::SourceBindingLimit,
        Of::Site => Reason::SiteBindingLimit,
    }
}
