// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of free ports that somebody else may give out: the fast path, which then opens bindings by
//! itself and reports them.
//!
//! A lease is exclusive: its ports are neither free nor anybody's until the holder says so. Of each
//! port the holder says one thing, once: that it became a binding ([`super::Pool::take_leased`]), or
//! that it comes back unused ([`super::Pool::give_back`]).

use super::block::Block;
use super::Pool;
use crate::config::nat64::Protocol;
use std::collections::btree_map::{BTreeMap, Entry};
use std::net::Ipv4Addr;

/// Ports of one word of 64 that are on loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Of which protocol.
    pub protocol: Protocol,
    /// On which address.
    pub address: Ipv4Addr,
    /// The port of the lowest bit, a multiple of 64.
    pub base: u16,
    /// Bit n: port `base` + n.
    pub ports: u64,
}

impl Lease {
    /// The ports, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        let (base, ports) = (self.base, self.ports);
        (0..64)
            .filter(move |bit| ports >> bit & 1 != 0)
            .map(move |bit| base + bit)
    }
}

/// What is on loan: ports by protocol, address and word.
pub(super) type Leases = BTreeMap<(Protocol, u32, u16), u64>;

/// Leases begin above the ports that a well-known port may want.
const FIRST_WORD: usize = 1024 / 64;
const WORDS: usize = 65536 / 64;
/// A word with fewer free ports is leased only if there is no better one.
const WORTH_IT: u32 = 16;

impl Pool {
    /// Lends free ports of an address of the pool, or None if it has none above 1023.
    pub fn lease(&mut self, protocol: Protocol, address: Ipv4Addr, random: u64) -> Option<Lease> {
        let at = self.position(address)?;
        let block = self.block(protocol, at);
        let word = best_word(block, random as usize)?;
        let ports = block.free_in(word);
        block.take_word(word, ports);
        self.note_free(protocol, at);
        let on_loan = self.leases.entry((protocol, at, word as u16)).or_default();
        debug_assert_eq!(*on_loan & ports, 0);
        *on_loan |= ports;
        Some(Lease {
            protocol,
            address,
            base: (word * 64) as u16,
            ports,
        })
    }

    /// A leased port has become that of a binding, and is now released like any other. False if it
    /// is not on loan.
    pub fn take_leased(&mut self, protocol: Protocol, address: Ipv4Addr, port: u16) -> bool {
        self.end_loan(protocol, address, port / 64, 1 << (port % 64)) != 0
    }

    /// Ports of a lease come back unused: those of `unused` that are still on loan.
    pub fn give_back(&mut self, lease: &Lease, unused: u64) {
        let word = lease.base / 64;
        let ports = self.end_loan(lease.protocol, lease.address, word, lease.ports & unused);
        let Some(at) = self.position(lease.address).filter(|_| ports != 0) else {
            return;
        };
        self.block(lease.protocol, at).put(usize::from(word), ports);
        self.note_free(lease.protocol, at);
    }

    /// Ports on loan.
    pub fn leased_ports(&self) -> usize {
        self.leases
            .values()
            .map(|ports| ports.count_ones() as usize)
            .sum()
    }

    /// Those of `ports` that were on loan, and are no more.
    fn end_loan(&mut self, protocol: Protocol, address: Ipv4Addr, word: u16, ports: u64) -> u64 {
        let Some(at) = self.position(address) else {
            return 0;
        };
        let Entry::Occupied(mut on_loan) = self.leases.entry((protocol, at, word)) else {
            return 0;
        };
        let ended = *on_loan.get() & ports;
        *on_loan.get_mut() &= !ended;
        if *on_loan.get() == 0 {
            on_loan.remove();
        }
        ended
    }
}

/// The first word from `start` on, around, with enough free ports; or else the one with most.
fn best_word(block: &Block, start: usize) -> Option<usize> {
    let count = WORDS - FIRST_WORD;
    let words = (0..count).map(|at| FIRST_WORD + (start % count + at) % count);
    let mut best = None;
    let mut most = 0;
    for word in words {
        let free = block.free_in(word).count_ones();
        if free > most {
            (best, most) = (Some(word), free);
        }
        if most >= WORTH_IT {
            break;
        }
    }
    best
}
