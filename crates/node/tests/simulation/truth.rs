// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real state, which no node knows: to whom each port was given, and who was last translated by it.

use std::collections::{BTreeMap, BTreeSet};

use diolkos_nat64::config::{Binding, Endpoint4, Protocol};

pub type Key = (u32, u16, u8);

pub fn key(protocol: Protocol, v4: Endpoint4) -> Key {
    (v4.addr.to_bits(), v4.port, protocol as u8)
}

pub fn key_of(binding: &Binding) -> Key {
    key(binding.protocol, binding.v4)
}

pub fn subscriber(binding: &Binding) -> u64 {
    (binding.v6.addr.to_bits() >> 64) as u64
}

#[derive(Default)]
pub struct Truth {
    pub given: BTreeMap<Key, u64>,
    last: BTreeMap<Key, (u64, u64)>,
    /// Ports about which lying nodes have sent messages; nothing is guaranteed for these.
    pub exempt: BTreeSet<Key>,
    pub translations: u64,
    /// Number of ports that went to another subscriber.
    pub reused: u64,
    pub by_copy: u64,
}

/// Minimum rest of a port in real time, in nanoseconds: the clock of a node may be fast.
const REST: u64 = 900_000_000;

impl Truth {
    /// Notes that an honest owner gives a port to a subscriber.
    pub fn give(&mut self, now: u64, key: Key, to: u64) -> Result<(), String> {
        let before = self.given.insert(key, to);
        if before.is_some_and(|before| before != to) {
            self.reused += 1;
        }
        match self.last.get(&key) {
            Some(&(who, when)) if who != to && now < when + REST => Err(format!(
                "{key:?} goes from {who:x} to {to:x} {} ms after its last packet",
                (now - when) / 1_000_000
            )),
            _ => Ok(()),
        }
    }

    /// Notes that an honest node translates a packet.
    pub fn translate(&mut self, now: u64, key: Key, who: u64, node: usize) -> Result<(), String> {
        if self.exempt.contains(&key) {
            return Ok(());
        }
        self.translations += 1;
        self.last.insert(key, (who, now));
        match self.given.get(&key) {
            Some(&to) if to == who => Ok(()),
            to => Err(format!(
                "node {node} translates {key:?} for {who:x}, but it was given to {to:x?}"
            )),
        }
    }
}
