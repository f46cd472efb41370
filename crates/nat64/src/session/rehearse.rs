// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet that changes nothing: the tables are changed as by any other packet, and then every change is undone, the last
//! one first. So what is told of a packet that has not come is what would happen to it.
//!
//! Time goes on; that is all that is different afterwards.

use super::syn::Kept;
use super::table::{Links, Session};
use super::tcp::SessionState;
use super::timer::Millis;
use super::State;
use crate::config::Endpoint4;
use crate::pool::Place;

/// A change, with what is needed to undo it.
#[derive(Debug)]
pub enum Undo {
    /// A binding has been opened.
    Binding(u32),
    /// A session has been opened.
    Session(u32),
    /// A session has been used.
    Used(Before),
    /// A source has got a block of ports.
    Block(Place),
    /// A block has been found in use, which had been idle since this time.
    Idle(u32, Option<Millis>),
    /// A SYN has been kept.
    SynKept((Endpoint4, Endpoint4)),
    /// A SYN that was kept has been answered.
    SynAnswered((Endpoint4, Endpoint4), Kept),
}

/// A session as it was.
#[derive(Debug)]
pub struct Before {
    at: u32,
    last: Millis,
    state: SessionState,
    prefix: u8,
    one_sided: bool,
    slot: u16,
    timer: Links,
}

impl Before {
    /// The session with this number.
    pub fn of(at: u32, session: &Session) -> Before {
        Before {
            at,
            last: session.last,
            state: session.state,
            prefix: session.prefix,
            one_sided: session.one_sided,
            slot: session.slot,
            timer: session.timer,
        }
    }
}

impl State {
    /// From now on every change is noted, until [`State::roll_back`] undoes all of them.
    pub(crate) fn rehearse(&mut self) {
        self.undo = Some(Vec::new());
        self.pool.rehearse();
    }

    /// Undoes what has been changed since [`State::rehearse`]. Nobody is told of that.
    pub(crate) fn roll_back(&mut self) {
        // It is a rehearsal until the last change is undone.
        while let Some(undo) = self.undo.as_mut().and_then(Vec::pop) {
            self.undo(undo);
        }
        self.undo = None;
        self.pool.roll_back();
    }

    /// Notes a change, if it is to be undone.
    pub(super) fn note(&mut self, undo: impl FnOnce(&State) -> Undo) {
        if self.undo.is_some() {
            let undo = undo(self);
            self.undo.get_or_insert_default().push(undo);
        }
    }

    /// A binding has ended that was opened a moment ago: that needs no undoing any more.
    pub(super) fn forget_opened(&mut self, at: u32) {
        if let Some(all) = &mut self.undo {
            all.retain(|undo| !matches!(undo, Undo::Binding(its) if *its == at));
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Binding(at) => self.close_binding(at, &mut ()),
            Undo::Session(at) => self.close_session(at, &mut ()),
            Undo::Used(before) => {
                let session = &mut self.sessions[before.at];
                session.last = before.last;
                session.state = before.state;
                session.prefix = before.prefix;
                session.one_sided = before.one_sided;
                self.sessions
                    .hang_back(before.at, before.slot, before.timer);
            }
            Undo::Block(place) => self.put_back_block(place),
            Undo::Idle(at, since) => self.make_idle(at, since),
            Undo::SynKept(key) => self.syns.unkeep(key),
            Undo::SynAnswered(key, kept) => self.syns.put_back(key, kept),
        }
    }
}
