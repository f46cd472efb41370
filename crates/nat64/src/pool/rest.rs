// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resting ports. If several gateways have copies of each other's bindings, another gateway may still use the port of a
//! closed binding for its subscriber. No other subscriber gets the port until [`Pool::free`].
//!
//! A resting port counts as taken, so it is never drawn from the free ports. A request for this port succeeds only for
//! the same subscriber. In a block of that subscriber the port counts as free, because only that subscriber draws from
//! the block. A block is kept until none of its ports rests.
//!
//! A resting port takes 13 bytes, plus the spare room of a hash table.

use super::divide::BlockId;
use super::Pool;
use crate::config::{Endpoint4, Protocol};
use crate::key::Keys;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::net::Ipv6Addr;

/// The owner of a resting port: the prefix of a subscriber, or a secret hash of a prefix longer than 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscriber(u64);

impl Subscriber {
    /// The subscriber is unknown.
    pub const NOBODY: Subscriber = Subscriber(u64::MAX);
}

/// Tables of a protocol. A table moves all its entries when it grows, so the tables are kept small.
const SHARDS: usize = 64;

/// One port: its position, and both halves of its subscriber.
#[derive(Clone, Copy, Debug)]
struct Rest {
    at: u16,
    port: u16,
    of: [u32; 2],
}

const _: () = assert!(size_of::<Rest>() == 12);

/// All resting ports.
#[derive(Debug)]
pub struct Rests {
    shards: Vec<HashTable<Rest>>,
    /// Resting ports outside the pool: of earlier configurations and of static bindings.
    beside: HashMap<(Protocol, Endpoint4), Subscriber, Keys>,
    keys: Keys,
    prefix_len: u8,
    count: [u32; 3],
}

impl Rests {
    fn new(key: [u64; 2], prefix_len: u8) -> Rests {
        let keys = Keys(key);
        Rests {
            shards: (0..3 * SHARDS).map(|_| HashTable::new()).collect(),
            beside: HashMap::with_hasher(keys),
            keys,
            prefix_len: prefix_len.clamp(1, 128),
            count: [0; 3],
        }
    }

    fn subscriber(&self, host: Ipv6Addr) -> Subscriber {
        let prefix = host.to_bits() & u128::MAX << (128 - u32::from(self.prefix_len));
        let bits = match self.prefix_len {
            0..=64 => (prefix >> 64) as u64,
            _ => self.keys.prefix(prefix),
        };
        // No prefix of hosts consists of one bits only.
        Subscriber(bits.min(u64::MAX - 1))
    }

    fn hash(&self, at: u16, port: u16) -> u64 {
        self.keys.prefix(u128::from(at) << 16 | u128::from(port))
    }

    fn find(&self, protocol: Protocol, at: u16, port: u16) -> Option<Subscriber> {
        if self.count[protocol.index()] == 0 {
            return None;
        }
        let hash = self.hash(at, port);
        let shard = &self.shards[shard(protocol, hash)];
        let found = shard.find(hash, |rest| (rest.at, rest.port) == (at, port))?;
        Some(found.of())
    }

    /// Adds a port, or changes its subscriber. Returns true if it was new.
    fn set(&mut self, protocol: Protocol, (at, port): (u16, u16), of: Subscriber) -> bool {
        let hash = self.hash(at, port);
        let keys = self.keys;
        let rehash = |rest: &Rest| keys.prefix(u128::from(rest.at) << 16 | u128::from(rest.port));
        let rest = Rest {
            at,
            port,
            of: [(of.0 >> 32) as u32, of.0 as u32],
        };
        let shard = &mut self.shards[shard(protocol, hash)];
        if let Some(found) = shard.find_mut(hash, |rest| (rest.at, rest.port) == (at, port)) {
            *found = rest;
            return false;
        }
        shard.insert_unique(hash, rest, rehash);
        self.count[protocol.index()] += 1;
        true
    }

    fn remove(&mut self, protocol: Protocol, at: u16, port: u16) -> Option<Subscriber> {
        if self.count[protocol.index()] == 0 {
            return None;
        }
        let hash = self.hash(at, port);
        let shard = &mut self.shards[shard(protocol, hash)];
        let found = shard.find_entry(hash, |rest| (rest.at, rest.port) == (at, port));
        let (rest, _) = found.ok()?.remove();
        self.count[protocol.index()] -= 1;
        Some(rest.of())
    }
}

impl Rest {
    fn of(&self) -> Subscriber {
        Subscriber(u64::from(self.of[0]) << 32 | u64::from(self.of[1]))
    }
}

fn shard(protocol: Protocol, hash: u64) -> usize {
    protocol.index() * SHARDS + (hash >> 20) as usize % SHARDS
}

impl Pool {
    /// Enables resting, for subscribers of this prefix length.
    pub fn let_rest(&mut self, prefix_len: u8) {
        self.rests = Some(Rests::new(self.key, prefix_len));
    }

    /// Returns true if ports rest.
    pub fn rests(&self) -> bool {
        self.rests.is_some()
    }

    /// The subscriber of a host.
    pub fn subscriber(&self, host: Ipv6Addr) -> Subscriber {
        let rests = self.rests.as_ref();
        rests.map_or(Subscriber::NOBODY, |rests| rests.subscriber(host))
    }

    /// Number of resting ports.
    pub fn resting(&self) -> u64 {
        let Some(rests) = &self.rests else { return 0 };
        let of_pool: u64 = rests.count.iter().map(|&count| u64::from(count)).sum();
        of_pool + rests.beside.len() as u64
    }

    /// The subscriber for which a port rests, if it does.
    pub fn rests_for(&self, protocol: Protocol, v4: Endpoint4) -> Option<Subscriber> {
        let rests = self.rests.as_ref()?;
        match self.position(v4.addr) {
            Some(at) if self.covers(protocol, v4) => rests.find(protocol, at as u16, v4.port),
            _ => rests.beside.get(&(protocol, v4)).copied(),
        }
    }

    /// Lets the port of a closed binding rest. `in_block`: the port is in a block of the subscriber, who can get it
    /// again there. Ports outside the pool rest too.
    pub(crate) fn rest(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        of: Subscriber,
        in_block: bool,
    ) {
        let covers = self.covers(protocol, v4);
        let at = self.position(v4.addr).filter(|_| covers);
        let Some(rests) = &mut self.rests else { return };
        let Some(at) = at else {
            rests.beside.insert((protocol, v4), of);
            return;
        };
        let is_new = rests.set(protocol, (at as u16, v4.port), of);
        if is_new {
            self.note_rest(v4);
        }
        if in_block {
            self.block(protocol, at).put_back(v4.port);
            self.note_put_back(protocol, at);
        } else if self.block(protocol, at).is_free(v4.port) {
            // Of a binding from before a reload, whose address is now of a pool for other sources.
            self.block(protocol, at).take(v4.port);
            self.note_taken(protocol, at);
        }
    }

    /// Reserves a port that another gateway may use for any subscriber, until [`Pool::free`]. Returns false if the port
    /// is bound or leased; then no other subscriber gets it before that ends, and the caller has to end it.
    pub(crate) fn hold(&mut self, protocol: Protocol, v4: Endpoint4) -> bool {
        let covers = self.covers(protocol, v4);
        let at = self.position(v4.addr).filter(|_| covers);
        let Some(rests) = &mut self.rests else {
            return false;
        };
        let Some(at) = at else {
            rests.beside.insert((protocol, v4), Subscriber::NOBODY);
            return true;
        };
        let rested = rests.find(protocol, at as u16, v4.port).is_some();
        let block = self.block(protocol, at);
        let (is_free, is_lent) = (block.is_free(v4.port), block.is_lent(v4.port));
        if !is_free && !is_lent && !rested {
            return false;
        }
        if is_free {
            block.take(v4.port);
            self.note_taken(protocol, at);
        }
        self.rest(protocol, v4, Subscriber::NOBODY, false);
        !is_lent
    }

    /// Ends the rest of a port, which becomes free unless it is leased. Returns false if it did not rest: a binding of
    /// the same subscriber has taken it, or it is unknown.
    pub(crate) fn free(&mut self, protocol: Protocol, v4: Endpoint4) -> bool {
        let covers = self.covers(protocol, v4);
        let at = self.position(v4.addr).filter(|_| covers);
        let Some(at) = at else {
            let rests = self.rests.as_mut();
            let gone = rests.and_then(|rests| rests.beside.remove(&(protocol, v4)));
            return gone.is_some();
        };
        if self.end_rest(protocol, at, v4).is_none() {
            return false;
        }
        let block = self.block(protocol, at);
        if !block.is_free(v4.port) && !block.is_lent(v4.port) {
            block.put_back(v4.port);
            self.note_put_back(protocol, at);
        }
        true
    }

    /// Ends the rest of a port that a binding of its subscriber has taken, if it rested.
    pub(super) fn end_rest(
        &mut self,
        protocol: Protocol,
        at: u32,
        v4: Endpoint4,
    ) -> Option<Subscriber> {
        let rests = self.rests.as_mut()?;
        let of = rests.remove(protocol, at as u16, v4.port)?;
        self.note_rest_over(v4);
        Some(of)
    }

    /// Returns true if a host may have this port of an address: the address is of the host's pool, and the port is free,
    /// or rests for the host's subscriber.
    pub(super) fn may_take(&self, protocol: Protocol, at: u32, port: u16, host: Ipv6Addr) -> bool {
        if !self.is_for(at, host) {
            return false;
        }
        let is_free = self.is_free(protocol, at, port);
        let Some(rests) = &self.rests else {
            return is_free;
        };
        match rests.find(protocol, at as u16, port) {
            None => is_free,
            Some(of) => of == rests.subscriber(host) && !self.is_lent(protocol, at, port),
        }
    }

    /// Takes a port for which [`Pool::may_take`] returned true.
    pub(super) fn take_for(&mut self, protocol: Protocol, at: u32, port: u16) {
        let addr = self.addresses[at as usize].addr;
        let v4 = Endpoint4 { addr, port };
        let is_free = self.block(protocol, at).is_free(port);
        self.end_rest(protocol, at, v4);
        if is_free {
            self.block(protocol, at).take(port);
            self.note_taken(protocol, at);
        }
    }

    pub(super) fn is_lent(&self, protocol: Protocol, at: u32, port: u16) -> bool {
        let block = self.addresses[at as usize].blocks[protocol.index()].as_ref();
        block.is_some_and(|block| block.is_lent(port))
    }

    /// Returns true if all resting ports of a block rest for this subscriber.
    pub(super) fn rests_only_for(&self, place: BlockId, of: Subscriber) -> bool {
        let ports = place.first..=place.first + (self.size_of(place) - 1);
        let others = |protocol: &Protocol| {
            ports.clone().any(|port| {
                let addr = place.addr;
                let rests = self.rests_for(*protocol, Endpoint4 { addr, port });
                rests.is_some_and(|its| its != of)
            })
        };
        !Protocol::ALL.iter().any(others)
    }

    /// Adds all resting ports of another pool with the same secret.
    pub(crate) fn take_over_rests(&mut self, old: &Pool) {
        let Some(rests) = &old.rests else { return };
        let of_pool = Protocol::ALL.into_iter().flat_map(|protocol| {
            let its = protocol.index() * SHARDS..(protocol.index() + 1) * SHARDS;
            let all = rests.shards[its].iter().flatten();
            all.map(move |rest| {
                let addr = old.addresses[usize::from(rest.at)].addr;
                let port = rest.port;
                (protocol, Endpoint4 { addr, port }, rest.of())
            })
        });
        let beside = rests.beside.iter();
        let beside = beside.map(|(&(protocol, v4), &of)| (protocol, v4, of));
        let is_alike = |new: &Rests| new.prefix_len == rests.prefix_len;
        let is_alike = self.rests.as_ref().is_some_and(is_alike);
        for (protocol, v4, of) in of_pool.chain(beside) {
            let of = if is_alike { of } else { Subscriber::NOBODY };
            if self.hold(protocol, v4) {
                self.rest(protocol, v4, of, false);
            }
        }
    }
}
