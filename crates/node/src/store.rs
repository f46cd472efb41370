// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bindings of one owner, found by either side: those of this node, or the copies of another one's.

use std::net::Ipv4Addr;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::key::{Keys, Table};
use diolkos_nat64::session::slab::Slab;

/// The state of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A binding.
    Live,
    /// A copy from which a session may have been made here.
    Used,
    /// The binding has ended, and its port rests.
    Resting,
}

/// A binding, in 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    v6: [u8; 16],
    v4: u32,
    /// The number of the latest rest of a resting port.
    pub rest: u32,
    v6_port: u16,
    port: u16,
    protocol: Protocol,
    /// The state of the entry.
    pub state: State,
    /// The number of the last snapshot that contained it.
    pub generation: u8,
}

const _: () = assert!(size_of::<Option<Entry>>() == 32);

impl Entry {
    /// Returns the binding.
    pub fn binding(&self) -> Binding {
        Binding {
            protocol: self.protocol,
            v4: Endpoint4 {
                addr: Ipv4Addr::from_bits(self.v4),
                port: self.port,
            },
            v6: Endpoint6 {
                addr: self.v6.into(),
                port: self.v6_port,
            },
        }
    }

    fn is_v4(&self, protocol: Protocol, v4: Endpoint4) -> bool {
        self.protocol == protocol && self.v4 == v4.addr.to_bits() && self.port == v4.port
    }

    fn is_v6(&self, protocol: Protocol, v6: Endpoint6) -> bool {
        self.protocol == protocol && self.v6 == v6.addr.octets() && self.v6_port == v6.port
    }
}

/// The hashes of both sides of a binding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sides {
    v4: u64,
    v6: u64,
}

/// The bindings of one owner. Both sides of a binding are unique; resting ports are found only by their
/// port.
#[derive(Debug)]
pub struct Store {
    entries: Slab<Entry>,
    by_v4: Table,
    by_v6: Table,
    keys: Keys,
    resting: u32,
}

impl Store {
    /// Creates an empty store. `keys` are secret.
    pub fn new(keys: [u64; 2]) -> Store {
        Store {
            entries: Slab::new(),
            by_v4: Table::new(),
            by_v6: Table::new(),
            keys: Keys(keys),
            resting: 0,
        }
    }

    /// Returns the secret that it was made with.
    pub fn keys(&self) -> [u64; 2] {
        self.keys.0
    }

    /// Returns the entry of a port.
    pub fn find_v4(&self, protocol: Protocol, v4: Endpoint4) -> Option<u32> {
        let is_it = |at: u32| self.entries[at].is_v4(protocol, v4);
        self.by_v4.find(self.keys.v4(protocol, v4), is_it)
    }

    /// Returns the binding of a host's address and port.
    pub fn find_v6(&self, protocol: Protocol, v6: Endpoint6) -> Option<u32> {
        let is_it = |at: u32| self.entries[at].is_v6(protocol, v6);
        self.by_v6.find(self.keys.v6(protocol, v6), is_it)
    }

    /// Returns the hashes of both sides of a binding, for a search or an insertion.
    pub fn sides(&self, binding: &Binding) -> Sides {
        Sides {
            v4: self.keys.v4(binding.protocol, binding.v4),
            v6: self.keys.v6(binding.protocol, binding.v6),
        }
    }

    /// Fetches what a search for these sides reads first ([`Table::fetch`]).
    pub fn fetch(&self, sides: Sides) -> u64 {
        self.by_v4.fetch(sides.v4) ^ self.by_v6.fetch(sides.v6)
    }

    /// Returns the entry of a binding's port, and that of its host's address and port.
    pub fn find(&self, binding: &Binding, sides: Sides) -> [Option<u32>; 2] {
        let is_v4 = |at: u32| self.entries[at].is_v4(binding.protocol, binding.v4);
        let is_v6 = |at: u32| self.entries[at].is_v6(binding.protocol, binding.v6);
        [
            self.by_v4.find(sides.v4, is_v4),
            self.by_v6.find(sides.v6, is_v6),
        ]
    }

    /// Returns an existing entry.
    pub fn get(&self, at: u32) -> &Entry {
        &self.entries[at]
    }

    /// Returns an existing entry.
    pub fn get_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.entries[at]
    }

    /// Adds a binding. Neither of its sides may exist.
    pub fn insert(&mut self, binding: &Binding, generation: u8, sides: Sides) {
        let at = self.entries.insert(Entry {
            v6: binding.v6.addr.octets(),
            v4: binding.v4.addr.to_bits(),
            rest: 0,
            v6_port: binding.v6.port,
            port: binding.v4.port,
            protocol: binding.protocol,
            state: State::Live,
            generation,
        });
        self.by_v4.insert(sides.v4, at);
        self.by_v6.insert(sides.v6, at);
    }

    /// Ends a binding, whose port rests.
    pub fn rest(&mut self, at: u32, rest: u32) {
        let binding = self.entries[at].binding();
        let hash = self.keys.v6(binding.protocol, binding.v6);
        self.by_v6.remove(hash, at);
        self.entries[at].state = State::Resting;
        self.entries[at].rest = rest;
        self.resting += 1;
    }

    /// Removes an existing entry.
    pub fn remove(&mut self, at: u32) -> Entry {
        let entry = self.entries.remove(at);
        let binding = entry.binding();
        let hash = self.keys.v4(binding.protocol, binding.v4);
        self.by_v4.remove(hash, at);
        match entry.state {
            State::Resting => self.resting -= 1,
            _ => {
                let hash = self.keys.v6(binding.protocol, binding.v6);
                self.by_v6.remove(hash, at);
            }
        }
        entry
    }

    /// Returns at most `most` slots from `first` on, with their entries.
    pub fn places(&self, first: u32, most: usize) -> impl Iterator<Item = (u32, Option<&Entry>)> {
        self.entries.iter_from(first).take(most)
    }

    /// Returns the number of bindings.
    pub fn len(&self) -> u32 {
        self.entries.len() - self.resting
    }

    /// Returns true if there are no bindings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of resting ports.
    pub fn resting(&self) -> u32 {
        self.resting
    }

    /// Returns the bytes used on the heap.
    pub fn memory(&self) -> usize {
        self.entries.memory() + self.by_v4.memory() + self.by_v6.memory()
    }
}
