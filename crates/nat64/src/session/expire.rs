// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of what has not been used for too long.

use super::event::{Event, SessionView, Watcher};
use super::table;
use super::tcp::SessionState;
use super::State;
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

/// Something to be sent because a time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due<'a> {
    /// An established TCP session has been silent for `TCP_EST`: ask whether it still is one (RFC
    /// 6146 section 3.5.2.2, state ESTABLISHED).
    Probe(SessionView),
    /// A SYN from the IPv4 side, of which this is the beginning, was not answered: tell its sender.
    Unanswered(&'a [u8]),
}

impl State {
    /// Ends what has expired at the time `now`, but looks at no more than `budget` entries. True if
    /// that was all: nothing else has expired. Sessions may live up to a second longer than they
    /// have to.
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

    /// When, on the caller's clock, [`State::expire`] has something to do at the earliest; None if nothing can expire. For
    /// a caller whose time is not that of the world: a router calls `expire` all the time.
    pub fn next_due(&self) -> Option<Duration> {
        let nexts = [self.syns.next(), self.sessions.next(), self.next_waiting()];
        let next = nexts.into_iter().flatten().min()?;
        Some(self.clock.to_caller(next))
    }

    /// Asks when packets that we have not seen have last used sessions, at `places` places of the table
    /// from `first` on, as [`State::sessions_from`] has them. To be called before the copy of the fast
    /// path is made anew, and before sessions are shown.
    pub fn catch_up(&mut self, first: u32, places: usize, watcher: &mut impl Watcher) {
        let there = self.sessions.iter_from(first).take(places);
        let there: Vec<_> = there
            .filter_map(|(at, session)| Some((at, session?.state)))
            .collect();
        for (at, state) in there {
            self.catch_up_with(at, state, watcher);
        }
    }

    /// Asks about a session that has been in a state until now.
    pub(super) fn catch_up_with(
        &mut self,
        at: u32,
        state: SessionState,
        watcher: &mut impl Watcher,
    ) {
        // Only a steady session is refreshed by packets that we do not see.
        if !state.is_steady() {
            return;
        }
        if let Some(stamp) = watcher.last_seen(&self.session_view(at)) {
            let seen = self.clock.convert(stamp);
            let session = &mut self.sessions[at];
            session.last = session.last.max(seen);
        }
    }

    /// A session that is on no list: it ends, or waits again.
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
