// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots of the array `used`, by which the switch reports the use of sessions. Slot 0 belongs to no session.
//!
//! A slot of a removed session may still be marked by a packet of that session. So it is given to another session only after
//! the array has been read, and thereby cleared, since its removal.

use std::collections::VecDeque;

/// The slots, and the owner of each.
#[derive(Debug)]
pub struct Slots<T> {
    owners: Vec<Option<T>>,
    free: VecDeque<u32>,
    /// Freed since the last reading began.
    marked: Vec<u32>,
    /// Freed before the current reading began.
    reading: Vec<u32>,
    size: u32,
}

impl<T: Copy> Slots<T> {
    /// Slots below `size`.
    pub fn new(size: u32) -> Slots<T> {
        Slots {
            owners: vec![None],
            free: VecDeque::new(),
            marked: Vec::new(),
            reading: Vec::new(),
            size,
        }
    }

    /// Changes the size. Slots beyond it stay taken until they are freed.
    pub fn resize(&mut self, size: u32) {
        self.size = size;
    }

    /// Takes a slot. `None`: all are taken, or marked. With `marks` false, no switch marks any.
    pub fn take(&mut self, owner: T, marks: bool) -> Option<u32> {
        if !marks {
            let unmarked = self.marked.drain(..).chain(self.reading.drain(..));
            self.free.extend(unmarked);
        }
        while let Some(slot) = self.free.pop_front() {
            if slot < self.size {
                self.owners[slot as usize] = Some(owner);
                return Some(slot);
            }
        }
        let slot = u32::try_from(self.owners.len()).ok()?;
        if slot >= self.size {
            return None;
        }
        self.owners.push(Some(owner));
        Some(slot)
    }

    /// Frees a slot whose entries are no longer in the switch.
    pub fn free(&mut self, slot: u32) {
        if let Some(owner) = self.owners.get_mut(slot as usize) {
            if owner.take().is_some() {
                self.marked.push(slot);
            }
        }
    }

    /// Begins to read the array. Returns the number of slots to read.
    pub fn begin_reading(&mut self) -> u32 {
        // A reading that broke off has cleared nothing for certain.
        self.reading.append(&mut self.marked);
        u32::try_from(self.owners.len())
            .unwrap_or(u32::MAX)
            .min(self.size)
    }

    /// The whole array has been read.
    pub fn end_reading(&mut self) {
        self.free.extend(self.reading.drain(..));
    }

    /// Returns the owner of a slot.
    pub fn owner(&self, slot: u32) -> Option<T> {
        self.owners.get(slot as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_again_only_after_its_mark_is_gone() {
        let mut slots = Slots::new(3);
        assert_eq!(slots.take('a', true), Some(1), "0 belongs to nobody");
        assert_eq!(slots.take('b', true), Some(2));
        assert_eq!(slots.take('c', true), None);
        slots.begin_reading();
        slots.free(1);
        slots.end_reading();
        assert_eq!(slots.take('c', true), None, "freed while it was read");
        assert_eq!(slots.begin_reading(), 3);
        assert_eq!(slots.owner(1), None);
        slots.end_reading();
        assert_eq!(slots.take('c', true), Some(1));
        assert_eq!((slots.owner(1), slots.owner(2)), (Some('c'), Some('b')));
        assert_eq!(slots.owner(9), None);
    }

    #[test]
    fn without_a_switch_nothing_is_marked() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.take('a', true), Some(1));
        slots.free(1);
        slots.free(1);
        assert_eq!(slots.take('b', true), None);
        assert_eq!(slots.take('b', false), Some(1));
        assert_eq!(slots.take('c', false), None, "freed twice, there once");
    }

    #[test]
    fn slots_beyond_a_smaller_array_are_not_given_again() {
        let mut slots = Slots::new(4);
        let three = ['a', 'b', 'c'].map(|owner| slots.take(owner, true));
        assert_eq!(three, [Some(1), Some(2), Some(3)]);
        slots.resize(3);
        slots.free(3);
        slots.free(2);
        assert_eq!(slots.take('d', false), Some(2));
        assert_eq!(slots.take('e', false), None);
    }
}
