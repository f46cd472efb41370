// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The entries that the switch should have, and the changes that it has not been told yet. No input or output.
//!
//! Changes of sessions wait in a queue and are carried out in its order. After a new connection, all sessions are written again
//! from the table, and then the changes of the queue.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_fastpath::Session;
use diolkos_xlat::addr::rfc6052::Pref64;
use ipnet::Ipv6Net;

use crate::entry::{self, Entry, EntryKey};
use crate::leaving::{Inner, Leaving, Outer};
use crate::names::COUNTS;
use crate::said::Troubles;
use crate::slots::Slots;

/// The most changes that wait for the switch. With more, new sessions stay with the slow path. The next user of a port waits
/// for all changes before the removal of the old session, so the queue is short.
const QUEUE: usize = 1 << 10;
/// With more changes, which can only be removals, it is faster to empty the switch and to write all sessions again.
const BEHIND: usize = 1 << 12;

/// A session: protocol, external port, peer.
pub type Key = (u8, (Ipv4Addr, u16), (Ipv4Addr, u16));

/// A session as the switch has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    session: Session,
    peer6: Ipv6Addr,
    slot: u32,
}

impl Known {
    fn key(&self) -> Key {
        key(&self.session)
    }

    /// Its entries.
    pub fn entries(&self) -> [Entry; 2] {
        entry::session(&self.session, self.peer6, self.slot)
    }
}

/// Returns the key of a session.
pub fn key(session: &Session) -> Key {
    (session.protocol, session.v4, session.peer)
}

/// Returns the external port of a session, and its node's.
pub fn ends(session: &Session) -> (Outer, Inner) {
    ((session.protocol, session.v4), session.node)
}

/// A change of the tables of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionUpdate {
    /// Both entries are written.
    Put(Known),
    /// Both entries are removed.
    Remove(Known),
}

/// Whether the switch translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// There is no switch, or it declines everything.
    Down,
    /// It translates.
    Up,
}

/// A session, and when the switch last reported that it was used.
#[derive(Debug)]
struct There {
    known: Known,
    seen: Option<Duration>,
}

/// Figures for `show counters`.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Sessions that the switch has not taken.
    pub refused: u64,
    /// Connections to a switch.
    pub connections: u64,
    /// Connections that ended because a reply was invalid or did not come in time.
    pub garbage: u64,
    /// Packets, over all runs of the switch.
    pub counts: [u64; COUNTS.len()],
    last: [u64; COUNTS.len()],
}

/// The wanted entries, and the changes on their way to the switch.
#[derive(Debug)]
pub struct Wanted {
    prefixes: Vec<Pref64>,
    /// Entries of the configuration.
    base: Vec<Entry>,
    /// Entries of interfaces and routes.
    hops: Vec<Entry>,
    /// Grows with each change of these.
    pub version: u64,
    sessions: HashMap<Key, There>,
    slots: Slots<Key>,
    queue: VecDeque<SessionUpdate>,
    /// Sessions to write after a new connection.
    rewrite: Vec<Key>,
    pub leaving: Leaving,
    pub link: Link,
    /// Set when the worker is to end; true if it empties the switch first.
    pub ended: Option<bool>,
    pub figures: Figures,
    pub troubles: Troubles,
}

impl Wanted {
    /// Wants no entries yet. `most` is the maximum number of sessions.
    pub fn new(most: u32) -> Wanted {
        Wanted {
            prefixes: Vec::new(),
            base: Vec::new(),
            hops: Vec::new(),
            version: 0,
            sessions: HashMap::new(),
            slots: Slots::new(most.saturating_add(1)),
            queue: VecDeque::new(),
            rewrite: Vec::new(),
            leaving: Leaving::default(),
            link: Link::Down,
            ended: None,
            figures: Figures::default(),
            troubles: Troubles::default(),
        }
    }

    /// Changes what the configuration demands, and the prefixes in which nodes see their peers.
    pub fn set_base(&mut self, prefixes: &[Ipv6Net], base: Vec<Entry>) {
        self.prefixes = prefixes.iter().map(|net| Pref64::new(*net)).collect();
        self.version += u64::from(self.base != base);
        self.base = base;
    }

    /// Changes what interfaces and routes demand.
    pub fn set_hops(&mut self, hops: Vec<Entry>) {
        self.version += u64::from(self.hops != hops);
        self.hops = hops;
    }

    /// Returns true if there are rules, and they are not those of the given version.
    pub fn has_rules(&self, besides: Option<u64>) -> bool {
        !self.base.is_empty() && Some(self.version) != besides
    }

    /// All entries besides those of sessions.
    pub fn rules(&self) -> BTreeMap<EntryKey, Entry> {
        let all = self.hops.iter().chain(&self.base);
        all.map(|entry| (entry.place, *entry)).collect()
    }

    /// Adds a session, or changes it.
    pub fn put(&mut self, session: &Session) -> io::Result<()> {
        let key = key(session);
        let prefix = self.prefixes.get(usize::from(session.prefix));
        let prefix = prefix.ok_or_else(|| io::Error::other("the switch lacks its prefix"))?;
        let peer6 = prefix.embed(session.peer.0);
        if let Some(There { known, .. }) = self.sessions.get(&key) {
            if (known.session, known.peer6) == (*session, peer6) {
                return Ok(());
            }
            self.remove(key);
        }
        if self.queue.len() >= QUEUE {
            return Err(io::Error::other("the switch is behind"));
        }
        let slot = self.slots.take(key, self.link == Link::Up);
        let known = Known {
            session: *session,
            peer6,
            slot: slot.ok_or_else(|| io::Error::other("the switch has no slot for it"))?,
        };
        self.sessions.insert(key, There { known, seen: None });
        if self.link == Link::Up {
            self.queue.push_back(SessionUpdate::Put(known));
        }
        Ok(())
    }

    /// Removes a session, if it exists.
    pub fn remove(&mut self, key: Key) {
        let Some(There { known, .. }) = self.sessions.remove(&key) else {
            return;
        };
        if self.link == Link::Down {
            self.slots.free(known.slot);
            return;
        }
        let (outer, inner) = ends(&known.session);
        self.leaving.add(outer, inner);
        self.queue.push_back(SessionUpdate::Remove(known));
    }

    /// When a session was last seen, by CLOCK_MONOTONIC.
    pub fn last_seen(&self, key: Key) -> Option<Duration> {
        self.sessions.get(&key)?.seen
    }

    /// Number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true if the worker has something to write.
    pub fn has_changes(&self) -> bool {
        !self.queue.is_empty() || !self.rewrite.is_empty()
    }

    /// Returns true if so many changes wait that the switch is to be emptied instead.
    pub fn is_behind(&self) -> bool {
        self.queue.len() > BEHIND
    }

    /// Takes the next changes.
    pub fn take(&mut self, most: usize) -> Vec<SessionUpdate> {
        let first = most.min(self.queue.len());
        let mut taken: Vec<SessionUpdate> = self.queue.drain(..first).collect();
        while taken.len() < most {
            let Some(key) = self.rewrite.pop() else { break };
            let there = self.sessions.get(&key);
            taken.extend(there.map(|there| SessionUpdate::Put(there.known)));
        }
        taken
    }

    /// Notes that the switch has carried out a change. Returns true if a port may have become free.
    pub fn confirmed(&mut self, change: &SessionUpdate) -> bool {
        match change {
            SessionUpdate::Put(_) => false,
            SessionUpdate::Remove(known) => {
                self.slots.free(known.slot);
                let (outer, inner) = ends(&known.session);
                self.leaving.done(outer, inner)
            }
        }
    }

    /// Notes that the switch has refused a session, and has none of its entries: it stays with the slow path.
    pub fn refused(&mut self, known: &Known) {
        self.figures.refused += 1;
        let is_it = |there: &There| there.known == *known;
        // Otherwise it has been removed or changed since, and that is in the queue.
        if self.sessions.get(&known.key()).is_some_and(is_it) {
            self.sessions.remove(&known.key());
            self.slots.free(known.slot);
        }
    }

    /// Notes that the switch is empty, has its rules, and takes sessions. `slots` is the size of its array.
    pub fn go_up(&mut self, slots: u32) {
        self.go_down(&[]);
        self.slots.resize(slots);
        let too_many: Vec<Known> = self
            .sessions
            .values()
            .map(|there| there.known)
            .filter(|known| known.slot >= slots)
            .collect();
        too_many.iter().for_each(|known| self.refused(known));
        self.rewrite = self.sessions.keys().copied().collect();
        self.link = Link::Up;
    }

    /// Notes that the switch is gone, or empty. `taken` are changes whose fate is unknown.
    pub fn go_down(&mut self, taken: &[SessionUpdate]) {
        for change in self.queue.drain(..).chain(taken.iter().copied()) {
            if let SessionUpdate::Remove(known) = change {
                self.slots.free(known.slot);
            }
        }
        self.rewrite.clear();
        self.leaving.clear();
        self.link = Link::Down;
    }

    /// Begins to read which slots were used. Returns their number.
    pub fn begin_reading(&mut self) -> u32 {
        self.slots.begin_reading()
    }

    /// Notes that sessions were used: bit `i % 8` of byte `i / 8` stands for slot `first + i`.
    pub fn used(&mut self, first: u32, bits: &[u8], now: Duration) {
        for (at, byte) in bits.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                let slot = first + 8 * at as u32 + bit;
                let key = self.slots.owner(slot);
                if let Some(there) = key.and_then(|key| self.sessions.get_mut(&key)) {
                    there.seen = Some(now);
                }
            }
        }
    }

    /// Notes that the whole array has been read.
    pub fn end_reading(&mut self) {
        self.slots.end_reading();
    }

    /// Notes what the switch has counted since its start.
    pub fn counted(&mut self, now: &[u64]) {
        let figures = &mut self.figures;
        let both = figures.counts.iter_mut().zip(&mut figures.last);
        for ((sum, last), now) in both.zip(now) {
            *sum = sum.saturating_add(now.saturating_sub(*last));
            *last = *now;
        }
    }

    /// Notes that another process is the switch now, whose counters begin at 0.
    pub fn counts_anew(&mut self) {
        self.figures.last = Default::default();
    }
}

#[cfg(test)]
mod tests;
