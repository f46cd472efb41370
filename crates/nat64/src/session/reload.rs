// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies another configuration to tables in use; allowed entries stay.

use super::bib::Origin;
use super::bib::Whose;
use super::event::Watcher;
use super::filter::Permissions;
use super::limit::Sources;
use super::shared::Shared;
use super::State;
use crate::config::{Filtering, Nat64Config, Pools};
use crate::pool::Claim;
use std::collections::HashSet;
use std::sync::Arc;

impl State {
    /// Applies another configuration, which must have been checked. Visits every entry.
    ///
    /// A dynamic binding stays if its port is in the new pool of its node. A static binding of the operator stays unless
    /// its address is now of a pool for other nodes; one of the configuration stays if the new configuration has it too. A new binding of the configuration removes
    /// conflicting ones. A session stays if the prefix of its peer does. Limits apply to new entries only. Leases end;
    /// the caller must have taken them back.
    pub fn reconfigure(&mut self, config: &Nat64Config, watcher: &mut impl Watcher) {
        let pool_key = self.pool.key();
        let old_prefixes = std::mem::take(&mut self.config.translator.pref64);
        self.config = config.clone();
        self.close_sessions_of_lost_prefixes(&old_prefixes, watcher);
        let pool = super::pool(config, pool_key);
        self.follow_owners(pool.pools(), watcher);
        self.close_bindings_in_the_way(watcher);
        let old = std::mem::replace(&mut self.pool, pool);
        self.pool.take_over_rests(&old);
        drop(old);
        self.claim_again(watcher);
        if self.serves() {
            self.bind_configured(watcher);
        }
        self.count_sources_again();
        self.divide_again(watcher);
        self.count_permissions_again();
        self.syns.set_limit(config.limits.held_syns);
    }

    /// Creates the bindings of the configuration, after conflicting ones are removed. Bindings whose ports rest for
    /// others wait.
    pub(super) fn bind_configured(&mut self, watcher: &mut impl Watcher) {
        for binding in self.config.bindings.clone() {
            match self.bib.find_v4(binding.protocol, binding.v4) {
                Some(at) => self.bib[at].origin = Origin::Configured,
                None => {
                    if !self.insert_binding(binding, Origin::Configured, watcher) {
                        self.await_port(binding);
                    }
                }
            }
        }
    }

    /// Closes sessions whose prefix is gone; sessions refer to prefixes by index.
    fn close_sessions_of_lost_prefixes(
        &mut self,
        old: &[ipnet::Ipv6Net],
        watcher: &mut impl Watcher,
    ) {
        let new = &self.config.translator.pref64;
        if old == new {
            return;
        }
        let places: Vec<Option<u8>> = old
            .iter()
            .map(|prefix| {
                new.iter()
                    .position(|other| other == prefix)
                    .map(|at| at as u8)
            })
            .collect();
        let all: Vec<u32> = self.sessions.iter().map(|(at, _)| at).collect();
        for at in all {
            let session = &mut self.sessions[at];
            match places[usize::from(session.prefix)] {
                Some(place) => session.prefix = place,
                None => {
                    let bib = session.bib;
                    self.close_session(at, watcher);
                    self.close_binding_if_idle(bib, watcher);
                }
            }
        }
    }

    /// Closes bindings that were removed from the configuration, and those that conflict with a binding of the new one.
    pub(super) fn close_bindings_in_the_way(&mut self, watcher: &mut impl Watcher) {
        let configured: HashSet<_, crate::key::Keys> = {
            let mut set = HashSet::with_hasher(self.keys);
            set.extend(self.config.bindings.iter().copied());
            set
        };
        let mut lost: Vec<u32> = Vec::new();
        for (at, entry) in self.bib.iter() {
            let gone = entry.origin == Origin::Configured && !configured.contains(&entry.binding());
            let misplaced = entry.binding().misplaced(&self.config.translator);
            if gone || misplaced.is_some() {
                lost.push(at);
            }
        }
        for binding in &self.config.bindings {
            let by_v4 = self.bib.find_v4(binding.protocol, binding.v4);
            let by_v6 = self.bib.find_v6(binding.protocol, binding.v6);
            if by_v4 != by_v6 {
                lost.extend(by_v4.into_iter().chain(by_v6));
            }
        }
        lost.sort_unstable();
        lost.dedup();
        self.close_bindings(&lost, watcher);
    }

    /// Removes all copies if the owners of addresses or the pools by source have changed. Deadlines and the serving state
    /// stay if the owners have not.
    fn follow_owners(&mut self, pools: &Arc<Pools>, watcher: &mut impl Watcher) {
        self.awaited.clear();
        let rules = self.shared.as_ref().map(|shared| &shared.rules);
        if rules == self.config.owners.as_ref() {
            return;
        }
        let copies = self
            .bib
            .iter()
            .filter(|(_, entry)| entry.owner != super::bib::OWN);
        let copies: Vec<u32> = copies.map(|(at, _)| at).collect();
        self.close_bindings(&copies, watcher);
        match (&mut self.shared, &self.config.owners) {
            (Some(shared), Some(new)) if shared.rules.has_same_owners(new) => {
                shared.rules = new.clone();
            }
            _ => self.shared = Shared::of(&self.config, self.keys, pools),
        }
    }

    /// Claims the ports of all bindings in a new pool.
    fn claim_again(&mut self, watcher: &mut impl Watcher) {
        let mut lost = Vec::new();
        let own = self
            .bib
            .iter()
            .filter(|(_, entry)| entry.whose() == Whose::Own);
        let all: Vec<u32> = own.map(|(at, _)| at).collect();
        for at in all {
            let entry = &mut self.bib[at];
            // No two bindings have the same port, so it is free or not in the pool.
            let claim = self.pool.claim(entry.protocol, entry.v4, entry.v6.addr);
            entry.pooled = claim == Claim::Taken;
            let is_foreign = !self.pool.pools().allows(entry.v4.addr, entry.v6.addr);
            if is_foreign || !entry.pooled && !entry.origin.is_static() {
                lost.push(at);
            }
        }
        self.close_bindings(&lost, watcher);
    }

    /// Recounts all sources, because their prefix length may have changed.
    fn count_sources_again(&mut self) {
        let new = || Sources::new(self.keys, &self.config, self.pool.pools());
        let (mut own, mut copied) = (new(), new());
        let all: Vec<u32> = self.bib.iter().map(|(at, _)| at).collect();
        for at in all {
            let entry = &mut self.bib[at];
            let sources = match entry.whose() {
                Whose::Own => &mut own,
                Whose::Copied => &mut copied,
            };
            entry.source = sources.bind(entry.v6.addr, entry.protocol);
        }
        for (_, session) in self.sessions.iter() {
            let peer = session.outside.then_some(session.peer.addr);
            let entry = &self.bib[session.bib];
            let sources = match entry.whose() {
                Whose::Own => &mut own,
                Whose::Copied => &mut copied,
            };
            sources.open(entry.source, peer);
        }
        self.sources = own;
        if let Some(shared) = &mut self.shared {
            shared.sources = copied;
        }
    }

    fn count_permissions_again(&mut self) {
        let dependent = self.config.filtering == Filtering::AddressDependent;
        if dependent == self.permissions.is_some() {
            return;
        }
        self.permissions = dependent.then(|| {
            let mut permissions = Permissions::new(self.keys);
            for (_, session) in self.sessions.iter() {
                permissions.add(session.bib, session.peer.addr);
            }
            permissions
        });
    }
}
