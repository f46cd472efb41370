// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tables have beside their own, where several gateways serve the same hosts ([`crate::config::Owners`]): whose an address is,
//! until when copies of each owner's bindings may be used, and how much there is of copies.
//!
//! Copies are counted apart from what is this gateway's own, by the same limits. So what another gateway has opened takes nothing
//! from those who have their bindings here, and no part of the network has more than its share of the copies.

use super::key::Keys;
use super::limit::Sources;
use super::{State, Watcher};
use crate::config::{Gateway, Nat64Config, Owners, Protocol, MOST_GATEWAYS};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Beside what is this gateway's own.
#[derive(Debug)]
pub struct Shared {
    pub rules: Owners,
    /// First and last addresses, in rising order.
    ranges: Vec<(Ipv4Addr, Ipv4Addr, Gateway)>,
    /// By owner, on the clock of [`super::Watcher::boottime`].
    pub deadlines: Vec<Duration>,
    /// Bindings may be opened here, and ports lent.
    pub serves: bool,
    /// Whose copies there are.
    pub sources: Sources,
    /// Copies of each protocol, and sessions made from them.
    pub bindings_of: [u32; 3],
    pub sessions_of: [u32; 3],
    /// Where [`State::forget_all`] goes on, by owner.
    pub places: Vec<u32>,
    /// Where the last packet is to go that was refused with [`diolkos_xlat::Reason::Elsewhere`].
    pub way: Option<Gateway>,
}

impl Shared {
    /// Without copies; None if the configuration has no owners.
    pub fn of(config: &Nat64Config, keys: Keys) -> Option<Shared> {
        let rules = config.owners.clone()?;
        let range =
            |(net, owner): &(ipnet::Ipv4Net, Gateway)| (net.network(), net.broadcast(), *owner);
        let mut ranges: Vec<_> = rules.addresses.iter().map(range).collect();
        ranges.sort_unstable();
        Some(Shared {
            ranges,
            deadlines: vec![Duration::ZERO; MOST_GATEWAYS.into()],
            serves: false,
            sources: Sources::new(keys, &config.limits),
            bindings_of: [0; 3],
            sessions_of: [0; 3],
            places: vec![0; MOST_GATEWAYS.into()],
            way: None,
            rules,
        })
    }

    /// The owner of an address.
    pub fn owner_of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        let after = self.ranges.partition_point(|(first, ..)| *first <= addr);
        let (_, last, owner) = *self.ranges.get(after.checked_sub(1)?)?;
        (addr <= last).then_some(owner)
    }

    /// The same, if it is another gateway.
    pub fn other_of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        self.owner_of(addr).filter(|&owner| owner != self.rules.me)
    }
}

/// Whose something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// This gateway's.
    Own,
    /// Made from a copy.
    Copied,
}

impl State {
    /// The owner of an address of the cluster's pool; None if it is none of it, or if this gateway is alone.
    pub fn owner_of(&self, addr: Ipv4Addr) -> Option<Gateway> {
        self.shared.as_ref()?.owner_of(addr)
    }

    /// Is it an address of another gateway?
    pub fn is_of_other(&self, addr: Ipv4Addr) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.other_of(addr).is_some())
    }

    /// Bindings may be opened here and ports lent from now on, or no longer. At the beginning they may not, where
    /// several gateways serve the same hosts; without them this does nothing.
    ///
    /// Bindings of the configuration come then, and not before: other gateways may have used their ports for others.
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

    /// May bindings be opened and ports lent here?
    pub fn serves(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.serves)
    }

    /// Copies of other gateways' bindings, and sessions that were made from them. [`State::counts`] does not have them.
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

    /// What each part of the network has.
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

    /// A binding has one session more, or one less.
    pub(super) fn count_session(&mut self, bib: u32, change: impl FnOnce(&mut u32)) {
        let (whose, protocol) = (self.bib[bib].whose(), self.bib[bib].protocol);
        if let (Whose::Copied, Some(shared)) = (whose, &mut self.shared) {
            change(&mut shared.sessions_of[protocol.index()]);
        }
    }

    /// Entries of each protocol that are this gateway's own, of all entries.
    pub(super) fn own_of(&self, all: [u32; 3], copied: fn(&Shared) -> &[u32; 3]) -> [u32; 3] {
        let copied = self.shared.as_ref().map(copied);
        Protocol::ALL.map(|protocol| {
            let at = protocol.index();
            all[at] - copied.map_or(0, |copied| copied[at])
        })
    }
}
