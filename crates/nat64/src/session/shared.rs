// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Additional state if several gateways serve the same nodes ([`crate::config::Owners`]): the owner of each address,
//! the deadlines of copies by owner, and the counts of copies.
//!
//! Copies are counted separately from this gateway's own entries, by the same limits. So bindings of other gateways
//! take no room from local ones, and each part of the network gets at most its share of the copies.

use super::bib::Whose;
use super::limit::Sources;
use super::{State, Watcher};
use crate::config::{Gateway, Nat64Config, Owners, Pools, Protocol, MOST_GATEWAYS};
use crate::key::Keys;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// Addresses of one gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct OwnedRange {
    first: Ipv4Addr,
    last: Ipv4Addr,
    owner: Gateway,
}

/// The state in addition to this gateway's own tables.
#[derive(Debug)]
pub struct Shared {
    pub rules: Owners,
    /// In ascending order.
    ranges: Vec<OwnedRange>,
    /// By owner, in time of [`super::Watcher::boottime`].
    pub deadlines: Vec<Duration>,
    /// True if this gateway may open bindings and lend ports.
    pub serves: bool,
    /// The counts of copies by prefix.
    pub sources: Sources,
    /// Number of copies of each protocol, and of their sessions.
    pub bindings_of: [u32; 3],
    pub sessions_of: [u32; 3],
    /// The position at which [`State::forget_all`] continues, by owner.
    pub places: Vec<u32>,
    /// The destination of the last packet that was refused with [`diolkos_xlat::Reason::Elsewhere`].
    pub way: Option<Gateway>,
}

impl Shared {
    /// Creates the state without copies. None if the configuration has no owners.
    pub fn of(config: &Nat64Config, keys: Keys, pools: &Arc<Pools>) -> Option<Shared> {
        let rules = config.owners.clone()?;
        let range = |(net, owner): &(ipnet::Ipv4Net, Gateway)| OwnedRange {
            first: net.network(),
            last: net.broadcast(),
            owner: *owner,
        };
        let mut ranges: Vec<_> = rules.addresses.iter().map(range).collect();
        ranges.sort_unstable();
        Some(Shared {
            ranges,
            deadlines: vec![Duration::ZERO; MOST_GATEWAYS.into()],
            serves: false,
            sources: Sources::new(keys, config, pools),
            bindings_of: [0; 3],
            sessions_of: [0; 3],
            places: vec![0; MOST_GATEWAYS.into()],
            way: None,
            rules,
        })
    }

    /// The gateway that owns an address.
    pub fn owner_of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        let after = self.ranges.partition_point(|range| range.first <= addr);
        let OwnedRange { last, owner, .. } = *self.ranges.get(after.checked_sub(1)?)?;
        (addr <= last).then_some(owner)
    }

    /// The gateway that owns an address, if it is not this one.
    pub fn other_of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        self.owner_of(addr).filter(|&owner| owner != self.rules.me)
    }
}

impl State {
    /// The owner of an address in the cluster's pool. None if the address is outside it, or if there is only one
    /// gateway.
    pub fn owner_of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        self.shared.as_ref()?.owner_of(addr)
    }

    /// Returns true if the address belongs to another gateway.
    pub fn is_of_other(&self, addr: Ipv4Addr) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.other_of(addr).is_some())
    }

    /// Allows or forbids opening bindings and lending ports here. Initially they are forbidden if several gateways
    /// serve the same nodes; with a single gateway this has no effect.
    ///
    /// Bindings of the configuration are created then, and not earlier, because other gateways may have used their
    /// ports.
    pub fn serve(&mut self, serves: bool, watcher: &mut impl Watcher) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        let served = std::mem::replace(&mut shared.serves, serves);
        if serves && !served {
            self.close_bindings_in_the_way(watcher);
            self.bind_configured(watcher);
        }
    }

    /// Returns true if bindings may be opened and ports lent here.
    pub fn serves(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.serves)
    }

    /// Number of copies of other gateways' bindings, and of their sessions. [`State::counts`] does not include them.
    pub fn copies(&self) -> (u32, u32) {
        let of = |count: fn(&Shared) -> &[u32; 3]| {
            let counts = self.shared.as_ref().map(count);
            counts.map_or(0, |counts| counts.iter().sum())
        };
        (
            of(|shared| &shared.bindings_of),
            of(|shared| &shared.sessions_of),
        )
    }

    /// The counts by prefix, of own entries or of copies.
    pub(super) fn sources_of(&self, whose: Whose) -> &Sources {
        match (whose, &self.shared) {
            (Whose::Copied, Some(shared)) => &shared.sources,
            _ => &self.sources,
        }
    }

    pub(super) fn sources_mut_of(&mut self, whose: Whose) -> &mut Sources {
        match (whose, &mut self.shared) {
            (Whose::Copied, Some(shared)) => &mut shared.sources,
            _ => &mut self.sources,
        }
    }

    pub(super) fn bindings_of(&self, whose: Whose) -> u32 {
        match whose {
            Whose::Own => self.bib.len() - self.copies().0,
            Whose::Copied => self.copies().0,
        }
    }

    pub(super) fn sessions_of(&self, whose: Whose) -> u32 {
        match whose {
            Whose::Own => self.sessions.len() - self.copies().1,
            Whose::Copied => self.copies().1,
        }
    }

    /// Counts a session more or less of a binding.
    pub(super) fn count_session(&mut self, bib: u32, change: impl FnOnce(&mut u32)) {
        let (whose, protocol) = (self.bib[bib].whose(), self.bib[bib].protocol);
        if let (Whose::Copied, Some(shared)) = (whose, &mut self.shared) {
            change(&mut shared.sessions_of[protocol.index()]);
        }
    }

    /// The counts of own entries by protocol, computed from those of all entries.
    pub(super) fn own_of(&self, all: [u32; 3], copied: fn(&Shared) -> &[u32; 3]) -> [u32; 3] {
        let copied = self.shared.as_ref().map(copied);
        Protocol::ALL.map(|protocol| {
            let at = protocol.index();
            all[at] - copied.map_or(0, |copied| copied[at])
        })
    }
}
