// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of other gateways' bindings, and what becomes of packets that this gateway has no binding for.
//!
//! A copy is there only because a packet needed it, and serves for that packet only: who watches is asked about each packet
//! that meets a copy or nothing, and may say something else every time ([`Way`]). So flows go back to the owner as soon as it
//! is reachable. A copy takes no port of this gateway, and nothing that happens to it is told as if it were this gateway's.
//!
//! Sessions made from a copy begin in their middle ([`super::inherit`]).

use super::bib::Origin;
use super::event::{Event, Missing, Watcher, Way};
use super::shared::Whose;
use super::State;
use crate::config::{Binding, Endpoint4, Gateway, Protocol};
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

/// Sessions of a copy that a packet ends at most, if another binding takes the place of the copy.
const ENDED_BY_PACKET: usize = 256;

impl State {
    /// Sessions made from copies of this owner's bindings are translated until this moment of [`Watcher::boottime`], and not at it.
    /// At the beginning none are.
    pub fn set_deadline(&mut self, owner: Gateway, until: Duration) {
        let shared = self.shared.as_mut();
        let deadline = shared.and_then(|shared| shared.deadlines.get_mut(usize::from(owner)));
        if let Some(deadline) = deadline {
            *deadline = until;
        }
    }

    /// Ends a copy and its sessions, but ends no more than `budget` of these; the next call goes on. True if that was all, or if there is
    /// no such copy.
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

    /// Ends all copies of an owner's bindings and their sessions, but looks at no more than `budget` entries; the next call
    /// goes on. True if that was all.
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

    /// The gateway that the last packet is to go to that was refused with [`Reason::Elsewhere`].
    pub fn way(&self) -> Option<Gateway> {
        self.shared.as_ref()?.way
    }

    /// Is it a copy?
    #[inline]
    pub(super) fn is_copy(&self, bib: u32) -> bool {
        self.bib[bib].whose() == Whose::Copied
    }

    /// What a packet has to do that has `found` no binding, or a copy. `opens`: it may open a binding. Returns a binding by
    /// which it may pass; None if nobody has any.
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
            // Nobody else has it.
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
        // Of the two, only the one that was asked for has been looked at.
        if self.find_both(binding).is_err() {
            return Err(Reason::NoBinding);
        }
        if binding.misplaced(&self.config.translator).is_some() {
            return Err(Reason::SourceIllegal);
        }
        self.admit_copy(binding.v6.addr)?;
        Ok(self.add_copy(binding, owner, watcher))
    }

    /// A copy that packets met until now gives way.
    fn make_room(&mut self, found: Option<u32>, watcher: &mut impl Watcher) -> Result<(), Reason> {
        let mut budget = ENDED_BY_PACKET;
        match found {
            Some(at) if !self.close_within(at, &mut budget, watcher) => Err(Reason::NoBinding),
            _ => Ok(()),
        }
    }

    /// A binding of this gateway comes for a host's port: a copy of another one's gives way.
    pub(super) fn replace_copy(&mut self, binding: &Binding, watcher: &mut impl Watcher) {
        if self.shared.is_none() {
            return;
        }
        let found = self.bib.find_v6(binding.protocol, binding.v6);
        if let Some(at) = found.filter(|&at| self.is_copy(at)) {
            self.close_binding(at, watcher);
        }
    }

    /// May the fast path go on with what it has made of a binding?
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

    /// What is left to do when a copy has been taken out.
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
