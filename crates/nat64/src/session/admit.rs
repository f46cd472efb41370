// SPDX-License-Identifier: Apache-2.0 OR MIT
//! May something new begin? Limits in all, those of one source, and shares: what every part of the network
//! may have of what is left ([`crate::config::Limits`]).

use super::limit::Has;
use super::shared::Whose;
use super::tcp::Side;
use super::State;
use crate::config::{share, LevelKind, Protocol, LEVELS};
use diolkos_xlat::verdict::Reason;
use std::net::Ipv4Addr;

/// Whose share is used up.
type Of = LevelKind;

impl State {
    /// A binding of a node, of whose prefixes this is known, by the absolute limits.
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

    /// The same, by shares too; `free_ports` of the protocol are nobody's.
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

    /// The same where ports come from blocks, which have limits and shares of their own.
    pub(super) fn admit_binding_in_block(&self, node: &[Has; LEVELS]) -> Result<(), Reason> {
        self.admit_binding_within_limits(node)?;
        let limit = self.config.limits.bindings;
        let free = u64::from(limit.saturating_sub(self.bindings_of(Whose::Own)));
        let shared = self.within_shares(node, Has::all_bindings, free);
        shared.map_err(of_binding).map(|_| ())
    }

    /// Another block of ports for a source.
    pub(super) fn admit_block(&self, node: &[Has; LEVELS]) -> Result<(), Reason> {
        let (free, _) = self.pool.blocks();
        if free == 0 {
            return Err(Reason::PoolExhausted);
        }
        let shared = self.within_shares(node, |has| has.blocks, free);
        shared.map_err(of_binding).map(|_| ())
    }

    /// A copy of another gateway's binding: by the same limits and shares, among copies.
    pub(super) fn admit_copy(&self, node: std::net::Ipv6Addr) -> Result<(), Reason> {
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

    /// A session that this side opens, of a node of whose prefixes this is known, by the absolute limits.
    ///
    /// From the IPv4 side a source can be given half of the sessions it may have, for it cannot help
    /// what is sent to it; the rest it can always open itself.
    pub(super) fn admit_within_limits(
        &self,
        (side, whose): (Side, Whose),
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

    /// The same, by shares too.
    pub(super) fn admit_session(
        &self,
        (side, whose): (Side, Whose),
        node: &[Has; LEVELS],
    ) -> Result<(), Reason> {
        self.admit_within_limits((side, whose), node)?;
        self.within_shares(node, |has| has.sessions, self.free_sessions(whose))
            .map_err(|of| match of {
                Of::Host => Reason::HostSessionLimit,
                Of::Source => Reason::SourceSessionLimit,
                Of::Site => Reason::SiteSessionLimit,
            })?;
        Ok(())
    }

    /// Beyond that, a session that `peer` opens from the IPv4 side, with a binding for which the IPv4 side
    /// has opened `of_binding`.
    ///
    /// Sources of IPv4 can be made up, so only the shares of the nodes keep such floods apart; that of a peer
    /// is for those who say who they are. A binding and a peer are single nodes, and have the share of a host.
    pub(super) fn admit_from_outside(
        &self,
        (node, whose): (&[Has; LEVELS], Whose),
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
        // Of what is left of the binding, too: or one peer could have all of a port that others want to reach.
        if is_beyond(sources.of_peer(peer), left) {
            return Err(Reason::OutsidePeerLimit);
        }
        Ok(())
    }

    /// How many sessions the IPv4 side may have opened in all.
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

    /// May a node have one more of something of which `free` are nobody's? Returns what is left to it, or
    /// which of its prefixes has its share.
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

fn of_binding(of: Of) -> Reason {
    match of {
        Of::Host => Reason::HostBindingLimit,
        Of::Source => Reason::SourceBindingLimit,
        Of::Site => Reason::SiteBindingLimit,
    }
}
