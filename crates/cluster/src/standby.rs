// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bindings of other nodes that this one may inherit, in few bytes each.
//!
//! apply (what their owners say) ─► find_v6, find_v4 (for a packet of a flow that is not ours) ─► take (the slice is ours) or
//! age (its owner no longer repeats it)
//!
//! A binding is an entry of a slab, which two tables of numbers find. The entries of a slice are a list with the
//! latest ones at its front, so entries that no message has repeated for long are found without a search.

mod entry;
mod snapshot;
#[cfg(test)]
mod tests;

use diolkos_core::config::nat64::{Binding, Endpoint6, Protocol};
use diolkos_core::session::key::{Keys, Table};
use diolkos_core::session::slab::{Slab, NONE};

use crate::message::{Change, Kind, Message};
use crate::ownership::Standing;
use crate::slice::{Slice, SliceId, Slices};
use crate::Revision;
use entry::{hash_v4, hash_v6, Entry};
use snapshot::Snapshot;

/// What one slice has.
#[derive(Debug)]
struct Holder {
    slice: Slice,
    /// Told last.
    first: u32,
    /// The entry that no message has repeated for the longest time.
    last: u32,
    len: u32,
    /// Of the last owner that has said anything.
    revision: Revision,
    snapshot: Option<Box<Snapshot>>,
}

/// What happened to all messages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// They were applied.
    pub messages: u64,
    /// They were not those of an owner.
    pub strangers: u64,
    /// They were those of an owner after whom another one has spoken.
    pub outdated: u64,
    /// Bindings for which there was no room.
    pub no_room: u64,
    /// Bindings that no message has repeated for two cycles.
    pub aged: u64,
    /// Snapshots of which all parts came.
    pub snapshots: u64,
}

/// The bindings of other nodes.
#[derive(Debug)]
pub struct Standby {
    entries: Slab<Entry>,
    by_v4: Table,
    by_v6: Table,
    keys: Keys,
    holders: Vec<Holder>,
    limit: u32,
    /// Of each slice: so many bindings have room, whatever the other ones have.
    reserved: u32,
    /// Bindings beyond the reserved ones of their slice.
    beyond: u32,
    /// Which slice [`Standby::age`] looks at next.
    next_aged: usize,
    counters: Counters,
}

impl Standby {
    /// Without bindings. `limit`: most bindings in all. Half of it is reserved, the same share for each slice; the rest is for
    /// those that come first. `key`: secret, since strangers choose addresses and ports.
    pub fn new(slices: &Slices, limit: u32, key: [u64; 2]) -> Standby {
        let all = (0..slices.len() as SliceId).filter_map(|id| slices.get(id));
        Standby {
            entries: Slab::new(),
            by_v4: Table::new(),
            by_v6: Table::new(),
            keys: Keys(key),
            holders: all.cloned().map(Holder::new).collect(),
            limit,
            reserved: limit / 2 / slices.len() as u32,
            beyond: 0,
            next_aged: 0,
            counters: Counters::default(),
        }
    }

    /// Does what a message says, if an owner of the slice has said it and no later one has spoken before. `cycle` counts the
    /// owners' cycles of repetition. It has to stand still while the stream is not read up to its end, so that bindings are
    /// not forgotten because the engine is away.
    pub fn apply(&mut self, message: &Message, standing: Standing, cycle: u32) {
        let Some(holder) = self.holders.get_mut(message.slice as usize) else {
            self.counters.strangers += 1;
            return;
        };
        match standing {
            Standing::Stranger => {
                self.counters.strangers += 1;
                return;
            }
            _ if message.title.revision < holder.revision => {
                self.counters.outdated += 1;
                return;
            }
            // Also what this node itself says: what it has is then known if another node has had the slice in between.
            Standing::Owner | Standing::OtherOwner | Standing::Myself => {
                holder.revision = message.title.revision;
            }
        }
        self.counters.messages += 1;
        if let Kind::Snapshot { number, .. } = message.kind {
            let is_it = |s: &Snapshot| (s.title, s.number) == (message.title, number);
            if !holder.snapshot.as_deref().is_some_and(is_it) {
                let begun = Snapshot::new(message.title, number, holder.first);
                holder.snapshot = Some(Box::new(begun));
            }
        }
        for change in &message.changes {
            match change {
                Change::Opened(binding) => self.put(message.slice, binding, cycle),
                Change::Closed { protocol, port } => self.close(message.slice, *protocol, *port),
            }
        }
        if let Kind::Snapshot { part, is_last, .. } = message.kind {
            self.heard_part(message.slice, part, is_last);
        }
    }

    /// The binding of a node's own address and port. Its slice is that of its source.
    pub fn find_v6(&self, slice: SliceId, protocol: Protocol, v6: Endpoint6) -> Option<Binding> {
        let at = self.at_v6(slice, protocol, v6)?;
        self.binding(at)
    }

    /// The binding of a port of the slice's address.
    pub fn find_v4(&self, slice: SliceId, protocol: Protocol, port: u16) -> Option<Binding> {
        let at = self.at_v4(slice, protocol, port)?;
        self.binding(at)
    }

    /// Forgets what a slice has.
    pub fn forget(&mut self, slice: SliceId) {
        while let Some(at) = self.oldest(slice) {
            self.remove(at);
        }
        if let Some(holder) = self.holders.get_mut(slice as usize) {
            holder.snapshot = None;
        }
    }

    /// Forgets bindings that no message has repeated in the two cycles before this one. A call looks at `most` slices and bindings; the
    /// next one goes on where it ended.
    pub fn age(&mut self, cycle: u32, most: usize) {
        let (mut looked, mut slices) = (0, 0);
        while looked < most && slices < self.holders.len() {
            let slice = self.next_aged as SliceId;
            looked += 1;
            match self.oldest(slice) {
                Some(at) if cycle.saturating_sub(self.entries[at].told) > 2 => {
                    self.remove(at);
                    self.counters.aged += 1;
                }
                _ => {
                    self.next_aged = (self.next_aged + 1) % self.holders.len();
                    slices += 1;
                }
            }
        }
    }

    /// All bindings of a slice.
    pub fn of_slice(&self, slice: SliceId) -> impl Iterator<Item = Binding> + '_ {
        let first = self.holders.get(slice as usize).map_or(NONE, |h| h.first);
        let next = |&at: &u32| Some(self.entries[at].next).filter(|&next| next != NONE);
        let all = std::iter::successors(Some(first).filter(|&first| first != NONE), next);
        all.filter_map(|at| self.binding(at))
    }

    /// How many bindings a slice has.
    pub fn len_of(&self, slice: SliceId) -> u32 {
        self.holders.get(slice as usize).map_or(0, |h| h.len)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes on the heap.
    pub fn memory(&self) -> usize {
        let holders = self.holders.capacity() * size_of::<Holder>();
        let snapshots = self.holders.iter().filter(|h| h.snapshot.is_some()).count();
        let tables = self.by_v4.memory() + self.by_v6.memory();
        self.entries.memory() + tables + holders + snapshots * size_of::<Snapshot>()
    }

    fn binding(&self, at: u32) -> Option<Binding> {
        let entry = &self.entries[at];
        let holder = self.holders.get(entry.slice() as usize)?;
        Some(entry.binding(holder.slice.addr))
    }

    fn oldest(&self, slice: SliceId) -> Option<u32> {
        let holder = self.holders.get(slice as usize)?;
        Some(holder.last).filter(|&last| last != NONE)
    }

    fn at_v6(&self, slice: SliceId, protocol: Protocol, v6: Endpoint6) -> Option<u32> {
        let hash = hash_v6(&self.keys, slice, protocol, v6);
        let is_it = |at: u32| {
            let entry = &self.entries[at];
            entry.is_of(slice, protocol) && entry.v6() == v6
        };
        self.by_v6.find(hash, is_it)
    }

    fn at_v4(&self, slice: SliceId, protocol: Protocol, port: u16) -> Option<u32> {
        let hash = hash_v4(&self.keys, slice, protocol, port);
        let is_it = |at: u32| {
            let entry = &self.entries[at];
            entry.is_of(slice, protocol) && entry.port == port
        };
        self.by_v4.find(hash, is_it)
    }

    fn close(&mut self, slice: SliceId, protocol: Protocol, port: u16) {
        if let Some(at) = self.at_v4(slice, protocol, port) {
            self.remove(at);
        }
    }

    /// A binding of a message. Of a port, and of a node's address and port, the last one holds.
    fn put(&mut self, slice: SliceId, binding: &Binding, cycle: u32) {
        let at_v4 = self.at_v4(slice, binding.protocol, binding.v4.port);
        let at_v6 = self.at_v6(slice, binding.protocol, binding.v6);
        if let (Some(at), true) = (at_v4, at_v4 == at_v6) {
            self.unlink(at);
            self.entries[at].told = cycle;
            self.link_first(slice, at);
            return;
        }
        for at in [at_v4, at_v6].into_iter().flatten() {
            self.remove(at);
        }
        if !self.has_room(slice) {
            self.counters.no_room += 1;
            return;
        }
        let at = self.entries.insert(Entry::new(slice, binding, cycle));
        let hash = hash_v4(&self.keys, slice, binding.protocol, binding.v4.port);
        self.by_v4.insert(hash, at);
        let hash = hash_v6(&self.keys, slice, binding.protocol, binding.v6);
        self.by_v6.insert(hash, at);
        self.beyond += u32::from(self.len_of(slice) >= self.reserved);
        self.holders[slice as usize].len += 1;
        self.link_first(slice, at);
    }

    /// Of what no slice has reserved, the first ones to come get as much as they have ports for.
    fn has_room(&self, slice: SliceId) -> bool {
        let shared = self.limit - self.reserved * self.holders.len() as u32;
        self.len_of(slice) < self.reserved || self.beyond < shared
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let entry = self.entries.remove(at);
        let (slice, protocol) = (entry.slice(), entry.protocol());
        let hash = hash_v4(&self.keys, slice, protocol, entry.port);
        self.by_v4.remove(hash, at);
        let hash = hash_v6(&self.keys, slice, protocol, entry.v6());
        self.by_v6.remove(hash, at);
        self.holders[slice as usize].len -= 1;
        self.beyond -= u32::from(self.len_of(slice) >= self.reserved);
    }

    fn link_first(&mut self, slice: SliceId, at: u32) {
        let holder = &mut self.holders[slice as usize];
        let next = std::mem::replace(&mut holder.first, at);
        (self.entries[at].previous, self.entries[at].next) = (NONE, next);
        match next {
            NONE => holder.last = at,
            next => self.entries[next].previous = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Entry { previous, next, .. } = self.entries[at];
        let holder = &mut self.holders[self.entries[at].slice() as usize];
        if let Some(snapshot) = &mut holder.snapshot {
            snapshot.leaves(at, next);
        }
        match previous {
            NONE => holder.first = next,
            previous => self.entries[previous].next = next,
        }
        match next {
            NONE => holder.last = previous,
            next => self.entries[next].previous = previous,
        }
    }

    /// When all parts of a snapshot have come, bindings that no message has had since it began are gone.
    fn heard_part(&mut self, slice: SliceId, part: u16, is_last: bool) {
        let holder = &mut self.holders[slice as usize];
        let is_complete = |s: &mut Box<Snapshot>| s.heard(part, is_last);
        let Some(snapshot) = holder.snapshot.take_if(is_complete) else {
            return;
        };
        self.counters.snapshots += 1;
        let mut at = snapshot.newest_before();
        while at != NONE {
            let next = self.entries[at].next;
            self.remove(at);
            at = next;
        }
    }
}

impl Holder {
    fn new(slice: Slice) -> Holder {
        Holder {
            slice,
            first: NONE,
            last: NONE,
            len: 0,
            revision: 0,
            snapshot: None,
        }
    }
}
