// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wheel of timers that finds the sessions whose time may have come.
//!
//! A packet that refreshes a session only writes its time down. The session stays where it hangs on
//! the wheel; when its turn comes, whoever looks at it sees that it has time left, and hangs it up
//! again. So a busy session costs one look in each lifetime, and a slot can be emptied a few sessions
//! at a time.

use super::clock::{Millis, BEGINNING};
use super::entry::Session;
use super::slab::{Slab, NONE};

/// Milliseconds of a slot.
const TICK: Millis = 1000;
/// Slots; more than the seconds of `TCP_EST`. What has longer to wait is looked at once in each turn.
const SLOTS: Millis = 8192;

/// Heads of lists of sessions, by the second in which their time may have come.
#[derive(Debug)]
pub struct Wheel {
    heads: Vec<u32>,
    /// The tick whose slot is being emptied.
    tick: Millis,
}

impl Wheel {
    /// Empty.
    pub fn new() -> Wheel {
        Wheel {
            heads: vec![NONE; SLOTS as usize],
            tick: BEGINNING / TICK,
        }
    }

    /// Hangs up a session that is on no list, to be looked at when `deadline` has passed, or before.
    /// With a deadline in the future, that is never in the slot that is being emptied.
    pub fn add(&mut self, sessions: &mut Slab<Session>, at: u32, deadline: Millis) {
        let last = self.tick + SLOTS - 1;
        let tick = deadline.div_ceil(TICK).clamp(self.tick, last);
        self.link(sessions, at, (tick % SLOTS) as u16);
    }

    /// Takes a session off.
    pub fn remove(&mut self, sessions: &mut Slab<Session>, at: u32) {
        let session = &sessions[at];
        let (slot, previous, next) = (session.slot, session.timer.previous, session.timer.next);
        if previous == NONE {
            self.heads[usize::from(slot)] = next;
        } else {
            sessions[previous].timer.next = next;
        }
        if next != NONE {
            sessions[next].timer.previous = previous;
        }
    }

    /// A session whose slot has passed, taken off; None if there is none until `now`.
    pub fn pop(&mut self, sessions: &mut Slab<Session>, now: Millis) -> Option<u32> {
        let until = now / TICK;
        if until.saturating_sub(self.tick) > 2 * SLOTS {
            // After a jump every slot is emptied once, and that is enough.
            self.tick = until - SLOTS;
        }
        while self.tick <= until {
            let head = self.heads[(self.tick % SLOTS) as usize];
            if head != NONE {
                self.remove(sessions, head);
                return Some(head);
            }
            self.tick += 1;
        }
        None
    }

    /// When [`Wheel::pop`] finds something at the earliest; None if nothing hangs here. It looks at every slot in the worst
    /// case.
    pub fn next(&self) -> Option<Millis> {
        let (before, after) = self.heads.split_at((self.tick % SLOTS) as usize);
        let hangs = |head: &u32| *head != NONE;
        let ahead = match after.iter().position(hangs) {
            Some(ahead) => ahead,
            None => after.len() + before.iter().position(hangs)?,
        };
        Some((self.tick + ahead as Millis) * TICK)
    }

    fn link(&mut self, sessions: &mut Slab<Session>, at: u32, slot: u16) {
        let next = std::mem::replace(&mut self.heads[usize::from(slot)], at);
        if next != NONE {
            sessions[next].timer.previous = at;
        }
        let session = &mut sessions[at];
        session.slot = slot;
        session.timer.previous = NONE;
        session.timer.next = next;
    }

    /// Bytes on the heap.
    pub fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<u32>()
    }
}
