// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries of one kind with 32-bit numbers, stored in chunks. Growth moves no entries, so it takes
//! no longer with four million entries than with four.

use std::ops::{Index, IndexMut};

/// The number of no entry.
pub const NONE: u32 = u32::MAX;

const CHUNK: usize = 4096;

#[derive(Debug)]
enum SlabEntry<T> {
    /// The number of the next vacant place.
    Vacant(u32),
    Used(T),
}

/// Numbered entries. The number of a removed entry is reused.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Vec<SlabEntry<T>>>,
    vacant: u32,
    len: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// Creates a slab without entries.
    pub fn new() -> Slab<T> {
        Slab {
            chunks: Vec::new(),
            vacant: NONE,
            len: 0,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry; returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.vacant != NONE {
            let at = self.vacant;
            let place = self.place_mut(at);
            if let SlabEntry::Vacant(next) = std::mem::replace(place, SlabEntry::Used(value)) {
                self.vacant = next;
            }
            return at;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunks = self.chunks.len();
        let chunk = &mut self.chunks[chunks - 1];
        chunk.push(SlabEntry::Used(value));
        ((chunks - 1) * CHUNK + chunk.len() - 1) as u32
    }

    /// Removes an entry.
    ///
    /// # Panics
    /// Panics if there is no such entry.
    pub fn remove(&mut self, at: u32) -> T {
        let vacant = self.vacant;
        let place = std::mem::replace(self.place_mut(at), SlabEntry::Vacant(vacant));
        match place {
            SlabEntry::Used(value) => {
                self.vacant = at;
                self.len -= 1;
                value
            }
            SlabEntry::Vacant(_) => panic!("entry {at} removed twice"),
        }
    }

    /// All entries with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
            .filter_map(|(at, value)| Some((at, value?)))
    }

    /// Every place from `first` on, with its number and its entry, if any.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, Option<&T>)> {
        let first = first as usize;
        let chunks = self.chunks.iter().skip(first / CHUNK);
        let places = chunks.flatten().skip(first % CHUNK);
        (first as u32..).zip(places).map(|(at, place)| match place {
            SlabEntry::Used(value) => (at, Some(value)),
            SlabEntry::Vacant(_) => (at, None),
        })
    }

    /// Heap size in bytes.
    pub fn memory(&self) -> usize {
        let places: usize = self.chunks.iter().map(Vec::capacity).sum();
        places * size_of::<SlabEntry<T>>() + self.chunks.capacity() * size_of::<Vec<SlabEntry<T>>>()
    }

    fn place_mut(&mut self, at: u32) -> &mut SlabEntry<T> {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        match &self.chunks[at as usize / CHUNK][at as usize % CHUNK] {
            SlabEntry::Used(value) => value,
            SlabEntry::Vacant(_) => panic!("no entry {at}"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        match self.place_mut(at) {
            SlabEntry::Used(value) => value,
            SlabEntry::Vacant(_) => panic!("no entry {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_entries_stay_where_they_are() {
        let mut slab = Slab::new();
        let numbers: Vec<u32> = (0..10_000u64).map(|value| slab.insert(value)).collect();
        assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
        for at in (0..10_000).step_by(3) {
            assert_eq!(slab.remove(at), u64::from(at));
        }
        assert_eq!(slab.len(), 6666);
        assert_eq!(slab[4], 4);
        assert!(slab.iter().all(|(at, &value)| u64::from(at) == value));
        assert_eq!(slab.iter().count(), 6666);
        let from: Vec<u32> = slab.iter_from(9998).map(|(at, _)| at).collect();
        assert_eq!(from, [9998, 9999]);
        assert_eq!(
            slab.iter_from(4095).find_map(|(_, value)| value),
            Some(&4096)
        );
        let again: Vec<u32> = (0..3334).map(|_| slab.insert(0)).collect();
        assert!(again.iter().all(|at| at % 3 == 0));
        assert_eq!(slab.insert(0), 10_000);
    }
}
