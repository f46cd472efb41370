// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pools by source inside the pool: the addresses of each follow each other, and are counted by themselves. A source
//! starts at an address of its own pool, and goes on to others of that pool only.

use super::Pool;
use crate::config::{PoolId, Pools, Protocol};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::sync::Arc;

/// The addresses of one of the [`Pools`].
#[derive(Clone, Default, Debug)]
pub(super) struct Part {
    pub addresses: Range<usize>,
    /// Number of free ports of each protocol, and number of all.
    pub free: [u64; 3],
    pub ports: [u64; 3],
}

/// Numbers of ports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PortCount {
    /// Those that are neither bound nor lent nor resting.
    pub free: u64,
    /// All of them.
    pub all: u64,
}

impl Pool {
    /// Number of free ports of a protocol on all addresses. Leased ports are not free.
    pub fn free_ports(&self, protocol: Protocol) -> u64 {
        self.parts
            .iter()
            .map(|part| part.free[protocol.index()])
            .sum()
    }

    /// Number of ports of a protocol, free or not.
    pub fn ports(&self, protocol: Protocol) -> u64 {
        self.parts
            .iter()
            .map(|part| part.ports[protocol.index()])
            .sum()
    }

    /// Numbers of ports of a protocol in one of the pools.
    pub fn ports_of(&self, pool: PoolId, protocol: Protocol) -> PortCount {
        let part = &self.parts[pool as usize];
        PortCount {
            free: part.free[protocol.index()],
            all: part.ports[protocol.index()],
        }
    }

    /// The pools, and to which of them nodes and addresses belong.
    pub fn pools(&self) -> &Arc<Pools> {
        &self.pools
    }

    pub(super) fn begin(&self, source: Ipv6Addr) -> Option<usize> {
        let its = &self.parts[self.pools.of_node(source) as usize].addresses;
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write(&source.octets());
        hasher
            .finish()
            .checked_rem(its.len() as u64)
            .map(|at| its.start + at as usize)
    }

    /// The first address with a free port, searched from `start` on in the same pool, with wrap-around.
    pub(super) fn next_with_free(&self, protocol: Protocol, start: usize) -> Option<u32> {
        next_in(&self.with_free[protocol.index()], start, self.around(start))
    }

    /// The pool of an address.
    pub(super) fn pool_at(&self, at: usize) -> usize {
        match self.parts.len() {
            1 => 0,
            _ => self.pools.of_address(self.addresses[at].addr).unwrap_or(0) as usize,
        }
    }

    /// The positions of the addresses in the pool of this address.
    pub(super) fn around(&self, at: usize) -> Range<usize> {
        self.parts[self.pool_at(at)].addresses.clone()
    }

    /// Returns true if a node gets the ports of an address.
    pub(super) fn is_for(&self, at: u32, node: Ipv6Addr) -> bool {
        self.parts.len() == 1 || self.pools.of_node(node) as usize == self.pool_at(at as usize)
    }
}

/// The first set bit of a range, searched from `start` on with wrap-around.
pub(super) fn next_in(words: &[u64], start: usize, range: Range<usize>) -> Option<u32> {
    first_in(words, start..range.end).or_else(|| first_in(words, range.start..start))
}

fn first_in(words: &[u64], range: Range<usize>) -> Option<u32> {
    let last = range.end.checked_sub(1)?;
    (range.start / 64..=last / 64).find_map(|word| {
        let mut bits = words[word];
        if word == range.start / 64 {
            bits &= !0 << (range.start % 64);
        }
        if word == last / 64 {
            bits &= !0 >> (63 - last % 64);
        }
        (bits != 0).then(|| (word * 64) as u32 + bits.trailing_zeros())
    })
}
