// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inherited bindings: those that another gateway opened in the shared pool and whose flows continue here, and those of
//! this gateway that only other gateways still had.
//!
//! A binding must survive, because a change of its port would break its flows. Sessions are not transferred. So the
//! sessions of an inherited binding begin in the middle, TCP connections included, until the binding ends.

use super::bib::Origin;
use super::clock::Millis;
use super::event::{Missing, Watcher};
use super::table::{millis_of, KnownPeer};
use super::tcp::{Lifetime, Segment, SessionState, Side};
use super::State;
use crate::config::{Binding, Protocol};
use crate::pool::Claim;
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

impl State {
    /// Takes over a binding of this gateway's addresses that another gateway returns, whether this gateway serves or
    /// not. An existing binding stays unchanged.
    ///
    /// It lives for the timeout of its protocol (for TCP, that of an established connection), and from its first
    /// session on as long as it has sessions. Absolute limits apply, shares do not.
    ///
    /// # Errors
    /// [`Reason::NoBinding`] if one of its endpoints has another binding. [`Reason::PoolExhausted`] if its port is not
    /// this gateway's, is leased or rests for another subscriber, or if there are no other gateways.
    /// [`Reason::SourceIllegal`] if a binding cannot have its addresses. Otherwise the limit that it would exceed.
    pub fn inherit(
        &mut self,
        binding: Binding,
        now: Duration,
        watcher: &mut impl Watcher,
    ) -> Result<(), Reason> {
        self.clock.advance(now);
        self.replace_copy(&binding, watcher);
        match self.find_both(binding) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {}
            Err(_) => return Err(Reason::NoBinding),
        }
        if self.shared.is_none() {
            return Err(Reason::PoolExhausted);
        }
        if binding.misplaced(&self.config.translator).is_some() {
            return Err(Reason::SourceIllegal);
        }
        self.admit_binding_within_limits(&self.sources.of_node(binding.v6.addr))?;
        if self
            .pool
            .claim(binding.protocol, binding.v4, binding.v6.addr)
            != Claim::Taken
        {
            return Err(Reason::PoolExhausted);
        }
        if self.blocks.is_some() {
            self.adopt_block(&binding, watcher);
        }
        let at = self.add_binding(binding, Origin::Inherited, true, watcher);
        self.waiting.add(at, binding.protocol, self.clock.now());
        Ok(())
    }

    /// Requests a binding for an ICMP error from the watcher, if the tables do not have it.
    pub(crate) fn look_for(
        &mut self,
        missing: Missing,
        watcher: &mut impl Watcher,
    ) -> Result<(), Reason> {
        let found = match missing {
            Missing::V6(protocol, v6) => self.bib.find_v6(protocol, v6),
            Missing::V4(protocol, v4) => self.bib.find_v4(protocol, v4),
        };
        match found {
            Some(bib) if !self.is_copy(bib) => Ok(()),
            found => self.way_of(missing, found, false, watcher).map(|_| ()),
        }
    }

    /// Handles a TCP packet other than SYN of a binding without a session with the peer. If another gateway may have
    /// seen the connection begin, a session begins in its middle. If limits forbid that, the packet passes without a
    /// session, like any other.
    pub(super) fn open_in_the_middle(
        &mut self,
        bib: u32,
        peer: KnownPeer,
        (side, segment): (Side, Segment),
        now: Millis,
        watcher: &mut impl Watcher,
    ) {
        let opened = self
            .goes_on(bib, segment)
            .then(|| self.open_session(bib, peer, SessionState::Trans, now, side, watcher))
            .and_then(Result::ok);
        if let Some(at) = opened {
            self.sessions[at].one_sided = true;
        }
    }

    /// Returns true if another gateway may have seen the beginning of the connection of this segment.
    pub(super) fn goes_on(&self, bib: u32, segment: Segment) -> bool {
        let entry = &self.bib[bib];
        entry.origin == Origin::Inherited
            && entry.protocol == Protocol::Tcp
            && matches!(segment, Segment::Fin | Segment::Other)
    }

    /// Removes and returns an inherited binding whose time to get a session is over at `now`.
    pub(super) fn pop_waiting(&mut self, now: Millis) -> Option<u32> {
        let over = |protocol: &Protocol| {
            let oldest = self.waiting.oldest(*protocol)?;
            (oldest.since + self.patience(*protocol) <= now).then_some(oldest.bib)
        };
        let bib = Protocol::ALL.iter().find_map(over)?;
        self.waiting.remove(bib);
        Some(bib)
    }

    /// The earliest time at which [`State::pop_waiting`] returns a binding. None if none waits.
    pub(super) fn next_waiting(&self) -> Option<Millis> {
        let over = |protocol: &Protocol| {
            let oldest = self.waiting.oldest(*protocol)?;
            Some(oldest.since + self.patience(*protocol))
        };
        Protocol::ALL.iter().filter_map(over).min()
    }

    /// Time for which an inherited binding waits for a session.
    fn patience(&self, protocol: Protocol) -> Millis {
        let lifetime = match protocol {
            Protocol::Tcp => Lifetime::Established,
            Protocol::Udp => Lifetime::Udp,
            Protocol::Icmp => Lifetime::Icmp,
        };
        millis_of(lifetime, &self.config.timeouts)
    }
}
