// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keyed hashes of what the tables are searched by, and the tables of entry numbers.
//!
//! Addresses and ports come from anybody, so the hash is SipHash with a secret key: nobody can make
//! entries that collide.
//!
//! A growing table moves all that it has, which must not take long. So it is 256 shards, which do not
//! grow at the same moment, and half of each hash is kept: to move a number, what it stands for need
//! not be looked at.

use crate::config::nat64::{Endpoint4, Endpoint6, Protocol};
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hasher};

/// The secret of the hashes.
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

    /// Of a node's own address and port.
    pub fn v6(&self, protocol: Protocol, v6: Endpoint6) -> u64 {
        let mut bytes = [0; 19];
        bytes[..16].copy_from_slice(&v6.addr.octets());
        bytes[16..18].copy_from_slice(&v6.port.to_be_bytes());
        bytes[18] = protocol as u8;
        self.hash(&bytes)
    }

    /// Of a node's address and port as the IPv4 side sees them.
    pub fn v4(&self, protocol: Protocol, v4: Endpoint4) -> u64 {
        let mut bytes = [0; 7];
        bytes[..4].copy_from_slice(&v4.addr.octets());
        bytes[4..6].copy_from_slice(&v4.port.to_be_bytes());
        bytes[6] = protocol as u8;
        self.hash(&bytes)
    }

    /// Of a number and what belongs to it.
    pub fn numbered(&self, number: u32, v4: Endpoint4) -> u64 {
        let mut bytes = [0; 10];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..8].copy_from_slice(&v4.addr.octets());
        bytes[8..].copy_from_slice(&v4.port.to_be_bytes());
        self.hash(&bytes)
    }

    /// Of a prefix.
    pub fn prefix(&self, bits: u128) -> u64 {
        self.hash(&bits.to_be_bytes())
    }
}

const SHARDS: usize = 256;

/// Finds numbers of entries by a hash of what they hold.
#[derive(Debug)]
pub struct Table {
    shards: Vec<HashTable<Slot>>,
}

/// The number of an entry, and the lower half of its hash; the upper half chose the shard.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: u32,
}

impl Slot {
    /// A hash of 64 bits for the table, which looks at the lowest and the highest ones.
    fn spread(&self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// Without entries.
    pub fn new() -> Table {
        Table {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
        }
    }

    /// The number with this hash that `is_it`.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let wanted = slot(hash, 0);
        let found = self.shards[shard(hash)].find(wanted.spread(), |slot| {
            slot.hash == wanted.hash && is_it(slot.at)
        });
        found.map(|slot| slot.at)
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, hash: u64, at: u32) {
        let slot = slot(hash, at);
        self.shards[shard(hash)].insert_unique(slot.spread(), slot, Slot::spread);
    }

    /// Takes a number out.
    pub fn remove(&mut self, hash: u64, at: u32) {
        let spread = slot(hash, at).spread();
        if let Ok(entry) = self.shards[shard(hash)].find_entry(spread, |slot| slot.at == at) {
            entry.remove();
        }
    }

    /// Bytes on the heap.
    pub fn memory(&self) -> usize {
        let shards: usize = self.shards.iter().map(HashTable::allocation_size).sum();
        shards + self.shards.capacity() * size_of::<HashTable<Slot>>()
    }
}

fn slot(hash: u64, at: u32) -> Slot {
    Slot {
        hash: hash as u32,
        at,
    }
}

fn shard(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}
