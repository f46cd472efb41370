// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expires unused entries.

use super::event::{Event, SessionView, Watcher};
use super::table;
use super::tcp::SessionState;
use super::State;
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

/// A packet to send because a timer has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due<'a> {
    /// An established TCP session was silent for `TCP_EST`: probe whether it is still alive (RFC 6146 section 3.5.2.2,
    /// state ESTABLISHED).
    Probe(SessionView),
    /// A SYN from the IPv4 side, with this beginning, was not answered: send an error to its sender.
    Unanswered(&'a [u8]),
}

impl State {
    /// Closes entries that have expired at the time `now`. Visits at most `budget` entries. Returns true if nothing
    /// else has expired. Sessions may live up to a second longer than their lifetime.
    pub fn expire(
        &mut self,
        now: Duration,
        budget: usize,
        watcher: &mut impl Watcher,
        mut due: impl FnMut(Due<'_>),
    ) -> bool {
        let now = self.clock.advance(now);
        for _ in 0..budget {
            if let Some(syn) = self.syns.expire(now) {
                watcher.dropped(Reason::SynUnanswered);
                due(Due::Unanswered(&syn));
            } else if let Some(at) = self.sessions.pop(now) {
                self.look_at(at, watcher, &mut due);
            } else if let Some(at) = self.pop_waiting(now) {
                self.close_binding_if_idle(at, watcher);
            } else {
                self.release_blocks(watcher);
                return true;
            }
        }
        false
    }

    /// The earliest time on the caller's clock at which [`State::expire`] has work to do. None if nothing can expire.
    /// For callers with virtual time; a router calls `expire` regularly.
    pub fn next_due(&self) -> Option<Duration> {
        let nexts = [self.syns.next(), self.sessions.next(), self.next_waiting()];
        let next = nexts.into_iter().flatten().min()?;
        Some(self.clock.to_caller(next))
    }

    /// Updates the last use of sessions from the watcher, at `places` places of the table from `first` on, with
    /// positions as in [`State::sessions_from`]. Call it before the fast path's copy is rebuilt, and before sessions
    /// are listed.
    pub fn catch_up(&mut self, first: u32, places: usize, watcher: &mut impl Watcher) {
        let there = self.sessions.iter_from(first).take(places);
        let there: Vec<_> = there
            .filter_map(|(at, session)| Some((at, session?.state)))
            .collect();
        for (at, state) in there {
            self.catch_up_with(at, state, watcher);
        }
    }

    /// Updates the last use of a session that was in the given state until now.
    pub(super) fn catch_up_with(
        &mut self,
        at: u32,
        state: SessionState,
        watcher: &mut impl Watcher,
    ) {
        // Only packets in a steady state refresh a session without the tables.
        if !state.is_steady() {
            return;
        }
        if let Some(stamp) = watcher.last_seen(&self.session_view(at)) {
            let seen = self.clock.convert(stamp);
            let session = &mut self.sessions[at];
            session.last = session.last.max(seen);
        }
    }

    /// Handles a session that is on no list: closes it, or puts it back on the wheel.
    fn look_at(&mut self, at: u32, watcher: &mut impl Watcher, due: &mut impl FnMut(Due<'_>)) {
        let now = self.clock.now();
        let lifetime = self.sessions[at].state.lifetime();
        let timeout = table::millis_of(lifetime, &self.config.timeouts);
        if self.sessions[at].last + timeout <= now {
            self.catch_up_with(at, self.sessions[at].state, watcher);
        }
        let deadline = self.sessions[at].last + timeout;
        if deadline > now {
            self.sessions.hang_up(at, deadline);
            return;
        }
        if self.sessions[at].state == SessionState::Established {
            let session = &mut self.sessions[at];
            let before = (session.state, session.prefix);
            session.state = SessionState::Trans;
            session.last = now;
            let deadline = self.deadline(at);
            self.sessions.hang_up(at, deadline);
            let view = self.session_view(at);
            watcher.event(Event::SessionChanged(view, before));
            if !self.is_copy(self.sessions[at].bib) {
                due(Due::Probe(view));
            }
            return;
        }
        let view = self.session_view(at);
        let ended = self.sessions.remove_popped(&mut self.bib, at);
        self.note_closed(&ended, view, watcher);
        self.close_binding_if_idle(ended.bib, watcher);
    }
}
