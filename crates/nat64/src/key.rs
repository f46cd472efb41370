// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keyed hashes of the search keys of the tables, and hash tables of entry numbers.
//!
//! Addresses and ports come from untrusted packets, so the hash is SipHash with a secret key: no attacker can create
//! colliding entries.
//!
//! A growing table moves all its entries, which must not take long. So there are 256 shards, which do not grow at the
//! same time, and half of each hash is stored, so that moving an entry number does not need the entry.
//!
//! With millions of entries, a lookup mostly waits for memory. So an entry number and its hash share one word, at or
//! right after the position given by the hash: most lookups wait for one cache line.

use crate::config::{Endpoint4, Endpoint6, Protocol};
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hasher};

/// The secret key of the hashes.
#[derive(Clone, Copy, Debug)]
pub struct Keys(pub [u64; 2]);

impl BuildHasher for Keys {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl Keys {
    fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    /// Hash of a node's own address and port.
    pub fn v6(&self, protocol: Protocol, v6: Endpoint6) -> u64 {
        let mut bytes = [0; 19];
        bytes[..16].copy_from_slice(&v6.addr.octets());
        bytes[16..18].copy_from_slice(&v6.port.to_be_bytes());
        bytes[18] = protocol as u8;
        self.hash(&bytes)
    }

    /// Hash of a node's address and port on the IPv4 side.
    pub fn v4(&self, protocol: Protocol, v4: Endpoint4) -> u64 {
        let mut bytes = [0; 7];
        bytes[..4].copy_from_slice(&v4.addr.octets());
        bytes[4..6].copy_from_slice(&v4.port.to_be_bytes());
        bytes[6] = protocol as u8;
        self.hash(&bytes)
    }

    /// Hash of an entry number and a transport address.
    pub fn numbered(&self, number: u32, v4: Endpoint4) -> u64 {
        let mut bytes = [0; 10];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..8].copy_from_slice(&v4.addr.octets());
        bytes[8..].copy_from_slice(&v4.port.to_be_bytes());
        self.hash(&bytes)
    }

    /// Hash of a prefix.
    pub fn prefix(&self, bits: u128) -> u64 {
        self.hash(&bits.to_be_bytes())
    }
}

const SHARDS: usize = 256;

/// Finds entry numbers by a hash of their key.
#[derive(Debug)]
pub struct Table {
    shards: Vec<Shard>,
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// Creates an empty table.
    pub fn new() -> Table {
        Table {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    /// The entry number with this hash for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let shard = &self.shards[shard(hash)];
        let is_wanted =
            |&(_, word): &(usize, u64)| half(word) == hash as u32 && is_it(number(word));
        let found = shard.run(hash as u32).find(is_wanted);
        found.map(|(_, word)| number(word))
    }

    /// Prefetches the first memory of a lookup of this hash without waiting for it: in a table outside all caches, many
    /// prefetches take as long as one lookup. The result has no meaning; callers use it only so that the compiler keeps
    /// the load.
    #[inline]
    pub fn fetch(&self, hash: u64) -> u64 {
        let shard = &self.shards[shard(hash)];
        let place = hash as usize & shard.mask();
        shard.words.get(place).map_or(0, |word| *word)
    }

    /// Adds an entry number that is not in the table.
    pub fn insert(&mut self, hash: u64, at: u32) {
        let shard = &mut self.shards[shard(hash)];
        // At most three quarters are full: a run of used words then has nine places on average.
        if (shard.len + 1) * 4 > shard.words.len() * 3 {
            shard.grow();
        }
        shard.len += 1;
        shard.put((u64::from(hash as u32) << 32) | (u64::from(at) + 1));
    }

    /// Removes an entry number.
    pub fn remove(&mut self, hash: u64, at: u32) {
        let shard = &mut self.shards[shard(hash)];
        let found = shard.run(hash as u32).find(|(_, word)| number(*word) == at);
        if let Some((place, _)) = found {
            shard.remove(place);
        }
    }

    /// Heap size in bytes.
    pub fn memory(&self) -> usize {
        let words: usize = self.shards.iter().map(|shard| shard.words.len()).sum();
        words * size_of::<u64>() + self.shards.capacity() * size_of::<Shard>()
    }
}

/// Open addressing with linear probing. The number of words is zero or a power of two.
#[derive(Debug, Default)]
struct Shard {
    /// 0 for an empty place. Otherwise the lower half of a hash (the upper half chose the shard), and an entry number
    /// plus one.
    words: Box<[u64]>,
    len: usize,
}

impl Shard {
    fn mask(&self) -> usize {
        self.words.len().wrapping_sub(1)
    }

    /// The used words from the position of a hash on, with their positions. The run ends because one word is always
    /// unused.
    #[inline]
    fn run(&self, hash: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        let places = (0..).map(move |n| (hash as usize).wrapping_add(n) & self.mask());
        places.map_while(|place| Some((place, *self.words.get(place).filter(|word| **word != 0)?)))
    }

    /// Stores a word. There must be room.
    fn put(&mut self, word: u64) {
        let mut place = half(word) as usize & self.mask();
        while self.words[place] != 0 {
            place = (place + 1) & self.mask();
        }
        self.words[place] = word;
    }

    fn grow(&mut self) {
        let words = vec![0; (self.words.len() * 2).max(4)].into();
        let old = std::mem::replace(&mut self.words, words);
        old.iter()
            .filter(|word| **word != 0)
            .for_each(|word| self.put(*word));
    }

    /// Removes a word, and moves up later words that a lookup would no longer find.
    fn remove(&mut self, place: usize) {
        let (mask, mut hole, mut next) = (self.mask(), place, place);
        loop {
            next = (next + 1) & mask;
            let word = self.words[next];
            if word == 0 {
                break;
            }
            let from_home = next.wrapping_sub(half(word) as usize) & mask;
            if from_home >= next.wrapping_sub(hole) & mask {
                self.words[hole] = word;
                hole = next;
            }
        }
        self.words[hole] = 0;
        self.len -= 1;
    }
}

fn half(word: u64) -> u32 {
    (word >> 32) as u32
}

fn number(word: u64) -> u32 {
    (word as u32).wrapping_sub(1)
}

fn shard(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Few hashes in a small shard, so that runs of words merge, wrap around and have holes.
    #[test]
    fn a_table_finds_what_is_in_it_and_nothing_else() {
        for seed in 1..20u64 {
            let (mut table, mut model) = (Table::new(), HashMap::new());
            let mut random = seed;
            for at in 0..400u32 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let hash = random % 24 + (random >> 40) % 2 * 0xffff_fff0;
                let least = if at < 200 { 30 } else { 70 };
                match (random >> 20) % 100 < least {
                    true => {
                        let first = model.keys().min().copied();
                        let Some(at) = first else { continue };
                        table.remove(model.remove(&at).expect("it is there"), at);
                    }
                    false => {
                        table.insert(hash, at);
                        model.insert(at, hash);
                    }
                }
                for (&at, &hash) in &model {
                    assert_eq!(table.find(hash, |found| found == at), Some(at), "{seed}");
                }
                let mut found = 0;
                (0..24).chain(0xffff_fff0..0x1_0000_0010).for_each(|hash| {
                    table.find(hash, |at| {
                        assert_eq!(model.get(&at), Some(&hash), "{seed}");
                        found += 1;
                        false
                    });
                });
                assert_eq!(found, model.len(), "{seed}");
            }
        }
    }

    #[test]
    fn a_table_has_at_most_three_quarters_in_use() {
        let mut table = Table::new();
        for at in 0..100_000u32 {
            table.insert(Keys([1, 2]).prefix(at.into()), at);
        }
        let is_full = |shard: &Shard| shard.len * 4 > shard.words.len() * 3;
        assert!(!table.shards.iter().any(is_full));
        assert!(table.memory() < 100_000 * 24);
    }
}
