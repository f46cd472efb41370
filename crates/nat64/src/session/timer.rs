// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The timer wheel, which finds sessions whose deadline may have passed.
//!
//! A packet that refreshes a session only records its time. The session keeps its slot; when the slot is due, the
//! caller computes the remaining lifetime and puts the session into a later slot. So a busy session costs one check per
//! lifetime, and a slot can be emptied a few sessions at a time.

use super::clock::{Millis, BEGINNING};
use super::entry::Session;
use super::slab::{Slab, NONE};

/// Milliseconds per slot.
const TICK: Millis = 1000;
/// Number of slots; more than the seconds of `TCP_EST`. Sessions with a later deadline are checked once per turn of the
/// wheel.
const SLOTS: Millis = 8192;

/// Heads of the lists of sessions, by the second of their deadline.
#[derive(Debug)]
pub struct Wheel {
    heads: Vec<u32>,
    /// The tick of the slot that is being emptied.
    tick: Millis,
}

impl Wheel {
    /// Creates an empty wheel.
    pub fn new() -> Wheel {
        Wheel {
            heads: vec![NONE; SLOTS as usize],
            tick: BEGINNING / TICK,
        }
    }

    /// Adds a session that is on no list, to be checked once `deadline` has passed, or earlier. A session with a future
    /// deadline is never added to the slot that is being emptied.
    pub fn add(&mut self, sessions: &mut Slab<Session>, at: u32, deadline: Millis) {
        let last = self.tick + SLOTS - 1;
        let tick = deadline.div_ceil(TICK).clamp(self.tick, last);
        self.link(sessions, at, (tick % SLOTS) as u16);
    }

    /// Removes a session.
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

    /// Removes and returns a session whose slot is due at `now`. None if there is none.
    pub fn pop(&mut self, sessions: &mut Slab<Session>, now: Millis) -> Option<u32> {
        let until = now / TICK;
        if until.saturating_sub(self.tick) > 2 * SLOTS {
            // After a jump of the clock it is enough to empty every slot once.
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

    /// The earliest time at which [`Wheel::pop`] returns a session. None if the wheel is empty. Visits every slot in
    /// the worst case.
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

    /// Heap size in bytes.
    pub fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<u32>()
    }
}
