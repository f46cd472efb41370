// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time, and the wheel of timers that finds the sessions whose time may have come.
//!
//! A packet that refreshes a session only writes its time down. The session stays where it hangs on
//! the wheel; when its turn comes, whoever looks at it sees that it has time left, and hangs it up
//! again. So a busy session costs one look in each lifetime, and a slot can be emptied a few sessions
//! at a time.

use super::slab::{Slab, NONE};
use super::table::{Links, Session};
use std::time::Duration;

/// Milliseconds of the table's own clock.
pub type Millis = u64;

/// Where the table's clock begins: far enough from zero that what was last seen before the beginning
/// can be written down, whatever its lifetime.
const BEGINNING: Millis = 8 * 24 * 3600 * 1000;

/// The caller's clock, without its jumps back: while it is behind what it has been, time stands
/// still only for the jump itself, and goes on from there.
#[derive(Debug)]
pub struct Clock {
    now: Millis,
    /// The last time of the caller's clock, milliseconds.
    caller_now: Option<Millis>,
}

impl Clock {
    /// Not started.
    pub fn new() -> Clock {
        Clock {
            now: BEGINNING,
            caller_now: None,
        }
    }

    /// The caller's clock says `now`.
    pub fn advance(&mut self, now: Duration) -> Millis {
        let caller_now = millis(now);
        let passed = caller_now.saturating_sub(self.caller_now.unwrap_or(caller_now));
        self.now = (self.now + passed).min(1 << 61);
        self.caller_now = Some(caller_now);
        self.now
    }

    /// The time now.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// A time that the caller's clock said at some moment, which cannot be after now.
    pub fn convert(&self, stamp: Duration) -> Millis {
        let ago = self.caller_now.unwrap_or(0).saturating_sub(millis(stamp));
        self.now.saturating_sub(ago)
    }

    /// The reverse of [`Clock::convert`]: when `deadline` comes by the caller's clock, if that does not jump.
    pub fn to_caller(&self, deadline: Millis) -> Duration {
        let left = deadline.saturating_sub(self.now);
        Duration::from_millis(self.caller_now.unwrap_or(0).saturating_add(left))
    }
}

/// Far more than any clock says, and far from overflow.
fn millis(time: Duration) -> Millis {
    time.as_millis().min(1 << 60) as Millis
}

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

    /// Hangs a session where it hung when `slot` and `links` were taken, if nothing that came after it is left.
    pub fn put_back(&mut self, sessions: &mut Slab<Session>, at: u32, slot: u16, links: Links) {
        self.remove(sessions, at);
        match links.previous {
            NONE => self.heads[usize::from(slot)] = at,
            previous => sessions[previous].timer.next = at,
        }
        if links.next != NONE {
            sessions[links.next].timer.previous = at;
        }
        let session = &mut sessions[at];
        (session.slot, session.timer) = (slot, links);
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
