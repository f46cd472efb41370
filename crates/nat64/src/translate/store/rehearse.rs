// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fragment that has not come: the store changes as by any other fragment, and is then as it was, the order of age
//! included. So a trace tells which fragments would be held, leave or be lost.

use super::{Followed, Key, Store};

/// What a store was before the changes of a rehearsal.
#[derive(Debug)]
pub struct Rehearsal {
    /// Packets as they were before each change, in the order of the changes; None: the packet was not followed.
    before: Vec<(Key, Option<Followed>)>,
    next: u64,
}

impl Store {
    /// From now on every change is noted, until [`Store::roll_back`] undoes all of them.
    pub fn rehearse(&mut self) {
        self.rehearsal = Some(Rehearsal {
            before: Vec::new(),
            next: self.next,
        });
    }

    /// Undoes what has changed since [`Store::rehearse`].
    pub fn roll_back(&mut self) {
        let Some(rehearsal) = self.rehearsal.take() else {
            return;
        };
        for (key, before) in rehearsal.before.into_iter().rev() {
            self.remove(&key);
            if let Some(packet) = before {
                self.put_back(key, packet);
            }
        }
        self.next = rehearsal.next;
    }

    /// Notes a packet before it changes. Its fragments are copied, which are bounded as those of the store.
    pub(super) fn note(&mut self, key: &Key) {
        if let Some(rehearsal) = &mut self.rehearsal {
            let before = self.packets.get(key).cloned();
            rehearsal.before.push((*key, before));
        }
    }

    /// Undoes [`Store::remove`]: the packet keeps its age.
    fn put_back(&mut self, key: Key, packet: Followed) {
        let (source, number) = (packet.source, packet.number);
        self.by_age.insert(number, key);
        self.by_source.insert((source, number), key);
        self.note_size(source, |packets| packets + 1);
        if !packet.held.is_empty() {
            self.waiting.insert(number, key);
            self.held += packet.held.len();
            self.held_bytes += packet
                .held
                .iter()
                .map(|held| held.bytes.len())
                .sum::<usize>();
            self.sources.entry(source).or_default().held += packet.held.len();
        }
        self.packets.insert(key, packet);
    }
}

#[cfg(test)]
mod tests;
