// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings that another gateway opened in the pool that is shared with it, and whose flows go on here; and those of this
//! gateway that only others still knew.
//!
//! A binding is what must survive: its port cannot change without its flows ending. Sessions are not told. So those of an
//! inherited binding begin in their middle, with a TCP connection as well, until the binding ends.

use super::bib::Origin;
use super::clock::Millis;
use super::event::{Missing, Watcher};
use super::table::millis_of;
use super::tcp::{Lifetime, Segment, SessionState, Side};
use super::State;
use crate::config::{Binding, Endpoint4, Protocol};
use crate::pool::Claim;
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

impl State {
    /// Takes over a binding of this gateway's addresses that another gateway gives back, whether this one serves or not. One that is
    /// there already stays as it is.
    ///
    /// It lives for the timeout of its protocol, that of an established connection with TCP, and from its first session on as
    /// long as it has any. Absolute limits hold, and shares do not.
    ///
    /// # Errors
    /// [`Reason::NoBinding`] if one of its sides is bound otherwise, [`Reason::PoolExhausted`] if its port is not this gateway's, on
    /// loan, or rests for somebody else, or if there are no other gateways, [`Reason::SourceIllegal`] if its addresses cannot be those of a binding,
    /// or the limit that it would exceed.
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

    /// Asks for a binding for an ICMP error, if the tables do not have it.
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

    /// A TCP packet other than SYN, of a binding that has no session with the peer. If another gateway may have seen the
    /// connection begin, a session begins in its middle. If limits allow none, the packet passes without a session, as any other.
    pub(super) fn open_in_the_middle(
        &mut self,
        bib: u32,
        peer: (Endpoint4, u8),
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

    /// Another gateway may have seen the connection begin of which this segment is.
    pub(super) fn goes_on(&self, bib: u32, segment: Segment) -> bool {
        let entry = &self.bib[bib];
        entry.origin == Origin::Inherited
            && entry.protocol == Protocol::Tcp
            && matches!(segment, Segment::Fin | Segment::Other)
    }

    /// An inherited binding whose time to get a session is over, now or in the past. It waits no longer.
    pub(super) fn pop_waiting(&mut self, now: Millis) -> Option<u32> {
        let over = |protocol: &Protocol| {
            let (bib, since) = self.waiting.oldest(*protocol)?;
            (since + self.patience(*protocol) <= now).then_some(bib)
        };
        let bib = Protocol::ALL.iter().find_map(over)?;
        self.waiting.remove(bib);
        Some(bib)
    }

    /// When [`State::pop_waiting`] gives something at the earliest; None if nothing waits.
    pub(super) fn next_waiting(&self) -> Option<Millis> {
        let over = |protocol: &Protocol| {
            let (_, since) = self.waiting.oldest(*protocol)?;
            Some(since + self.patience(*protocol))
        };
        Protocol::ALL.iter().filter_map(over).min()
    }

    /// How long an inherited binding waits for a session.
    fn patience(&self, protocol: Protocol) -> Millis {
        let lifetime = match protocol {
            Protocol::Tcp => Lifetime::Established,
            Protocol::Udp => Lifetime::Udp,
            Protocol::Icmp => Lifetime::Icmp,
        };
        millis_of(lifetime, &self.config.timeouts)
    }
}
