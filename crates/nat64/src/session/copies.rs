// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of other gateways' bindings, and the treatment of packets for which this gateway has no binding.
//!
//! A copy is created for a packet that needs it, and is valid for that packet only: the watcher is asked about each
//! packet that meets a copy or no binding, and may answer differently every time ([`Way`]). So flows return to the
//! owner as soon as it is reachable. A copy takes no port of this gateway, and its events are distinct from those of
//! this gateway's bindings.
//!
//! Sessions of a copy begin in the middle of a connection ([`super::inherit`]).

use super::bib::Origin;
use super::bib::Whose;
use super::event::{Event, Missing, Watcher, Way};
use super::State;
use crate::config::{Binding, Endpoint4, Gateway, Protocol};
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

/// Maximum number of sessions that one packet closes when another binding replaces a copy.
const ENDED_BY_PACKET: usize = 256;

impl State {
    /// Translates sessions of copies of this owner's bindings until, but not at, this time of [`Watcher::boottime`].
    /// Initially none are translated.
    pub fn set_deadline(&mut self, owner: Gateway, until: Duration) {
        let shared = self.shared.as_mut();
        let deadline = shared.and_then(|shared| shared.deadlines.get_mut(usize::from(owner)));
        if let Some(deadline) = deadline {
            *deadline = until;
        }
    }

    /// Closes a copy and its sessions, at most `budget` of these; the next call continues. Returns true when all are
    /// closed, or if there is no such copy.
    pub fn forget(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        mut budget: usize,
        watcher: &mut impl Watcher,
    ) -> bool {
        let found = self.bib.find_v4(protocol, v4);
        let copy = found.filter(|&at| self.bib[at].whose() == Whose::Copied);
        copy.is_none_or(|at| self.close_within(at, &mut budget, watcher))
    }

    /// Closes all copies of an owner's bindings and their sessions. Visits at most `budget` entries; the next call
    /// continues. Returns true when all are closed.
    pub fn forget_all(
        &mut self,
        owner: Gateway,
        mut budget: usize,
        watcher: &mut impl Watcher,
    ) -> bool {
        let Some(mut place) = self.place_of_forgetting(owner).copied() else {
            return true;
        };
        loop {
            let places = self.bib.iter_from(place).take(budget);
            let is_its =
                |entry: Option<&super::bib::Entry>| entry.is_some_and(|entry| entry.owner == owner);
            let places: Vec<_> = places.map(|(at, entry)| (at, is_its(entry))).collect();
            if places.is_empty() {
                let is_over = self.bib.iter_from(place).next().is_none();
                self.go_on_forgetting(owner, if is_over { 0 } else { place });
                return is_over;
            }
            for (at, is_its) in places {
                place = at;
                let is_left = budget > 0;
                budget = budget.saturating_sub(1);
                if !is_left || is_its && !self.close_within(at, &mut budget, watcher) {
                    self.go_on_forgetting(owner, place);
                    return false;
                }
                place = at + 1;
            }
        }
    }

    fn place_of_forgetting(&mut self, owner: Gateway) -> Option<&mut u32> {
        let shared = self.shared.as_mut()?;
        shared.places.get_mut(usize::from(owner))
    }

    fn go_on_forgetting(&mut self, owner: Gateway, at: u32) {
        if let Some(place) = self.place_of_forgetting(owner) {
            *place = at;
        }
    }

    /// The gateway for the last packet that was refused with [`Reason::Elsewhere`].
    pub fn way(&self) -> Option<Gateway> {
        self.shared.as_ref()?.way
    }

    /// Returns true if the binding is a copy.
    #[inline]
    pub(super) fn is_copy(&self, bib: u32) -> bool {
        self.bib[bib].whose() == Whose::Copied
    }

    /// Decides about a packet that has `found` no binding, or a copy. `opens`: the packet may open a binding. Returns
    /// the binding to use, or None if no gateway has one.
    pub(super) fn way_of(
        &mut self,
        missing: Missing,
        found: Option<u32>,
        opens: bool,
        watcher: &mut impl Watcher,
    ) -> Result<Option<u32>, Reason> {
        let Some(shared) = &self.shared else {
            return Ok(found);
        };
        if matches!(missing, Missing::V4(_, v4) if shared.other_of(v4.addr).is_none()) {
            // No other gateway has it.
            return Ok(None);
        }
        match watcher.missing(missing, opens) {
            Way::Copy(binding) => self.use_copy(binding, missing, found, watcher).map(Some),
            Way::Open => {
                if matches!(missing, Missing::V4(..)) || (!opens && found.is_some()) {
                    return Err(Reason::NoBinding);
                }
                self.make_room(found, watcher)?;
                Ok(None)
            }
            Way::Forward(gateway) => {
                if let Some(shared) = &mut self.shared {
                    shared.way = Some(gateway);
                }
                Err(Reason::Elsewhere)
            }
            Way::Drop(reason) => Err(reason),
        }
    }

    fn use_copy(
        &mut self,
        binding: Binding,
        missing: Missing,
        found: Option<u32>,
        watcher: &mut impl Watcher,
    ) -> Result<u32, Reason> {
        let owner = self.shared.as_ref().and_then(|shared| {
            let owner = shared.other_of(binding.v4.addr)?;
            // Nodes that share bindings have the same pools, so this one's owner is at fault.
            let is_its = shared.rules.pools.allows(binding.v4.addr, binding.v6.addr);
            if !is_its {
                return None;
            }
            let deadline = *shared.deadlines.get(usize::from(owner))?;
            Some((owner, deadline))
        });
        let (owner, deadline) = owner.ok_or(Reason::NoBinding)?;
        if watcher.boottime() >= deadline {
            return Err(Reason::OwnerUnreachable);
        }
        if !missing.is_answered_by(&binding) {
            return Err(Reason::NoBinding);
        }
        match found {
            Some(at) if self.bib[at].binding() == binding => return Ok(at),
            _ => self.make_room(found, watcher)?,
        }
        // Only one of the two endpoints has been looked up so far.
        if self.find_both(binding).is_err() {
            return Err(Reason::NoBinding);
        }
        if binding.misplaced(&self.config.translator).is_some() {
            return Err(Reason::SourceIllegal);
        }
        self.admit_copy(binding.v6.addr)?;
        Ok(self.add_copy(binding, owner, watcher))
    }

    /// Removes a copy that packets have used until now.
    fn make_room(&mut self, found: Option<u32>, watcher: &mut impl Watcher) -> Result<(), Reason> {
        let mut budget = ENDED_BY_PACKET;
        match found {
            Some(at) if !self.close_within(at, &mut budget, watcher) => Err(Reason::NoBinding),
            _ => Ok(()),
        }
    }

    /// Removes another gateway's copy for a node's port, because this gateway gets a binding for it.
    pub(super) fn replace_copy(&mut self, binding: &Binding, watcher: &mut impl Watcher) {
        if self.shared.is_none() {
            return;
        }
        let found = self.bib.find_v6(binding.protocol, binding.v6);
        if let Some(at) = found.filter(|&at| self.is_copy(at)) {
            self.close_binding(at, watcher);
        }
    }

    /// Returns true if the fast path may continue to use its entry of a binding.
    pub(super) fn may_pass_by(&self, bib: u32, watcher: &mut impl Watcher) -> bool {
        let Some(shared) = self.shared.as_ref().filter(|_| self.is_copy(bib)) else {
            return true;
        };
        let deadline = shared.deadlines.get(usize::from(self.bib[bib].owner));
        deadline.is_some_and(|deadline| watcher.boottime() < *deadline)
    }

    fn add_copy(&mut self, binding: Binding, owner: Gateway, watcher: &mut impl Watcher) -> u32 {
        let Binding { protocol, v6, .. } = binding;
        let source = self.sources_mut_of(Whose::Copied).bind(v6.addr, protocol);
        let at = self.bib.insert(binding, Origin::Inherited, false, source);
        self.bib[at].owner = owner;
        if let Some(shared) = &mut self.shared {
            shared.bindings_of[protocol.index()] += 1;
        }
        self.waiting.add(at, protocol, self.clock.now());
        watcher.event(Event::CopyMade(binding, owner));
        at
    }

    /// Updates counts and watchers after a copy has been removed.
    pub(super) fn note_copy_ended(
        &mut self,
        entry: &super::bib::Entry,
        watcher: &mut impl Watcher,
    ) {
        let protocol = entry.protocol;
        self.sources_mut_of(Whose::Copied)
            .unbind(entry.source, protocol);
        if let Some(shared) = &mut self.shared {
            shared.bindings_of[protocol.index()] -= 1;
        }
        watcher.event(Event::CopyEnded(entry.binding(), entry.owner));
    }
}
