// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much state one source may have. A source is an IPv6 prefix, for a host has as many addresses
//! as it likes.

use super::key::{Keys, Table};
use super::slab::Slab;
use std::net::Ipv6Addr;

/// One source, and what it has.
#[derive(Debug)]
pub struct Source {
    prefix: [u8; 16],
    pub sessions: u32,
    pub bindings: u32,
}

/// All sources that have anything.
#[derive(Debug)]
pub struct Sources {
    sources: Slab<Source>,
    by_prefix: Table,
    keys: Keys,
    mask: u128,
}

impl Sources {
    pub fn new(keys: Keys, prefix_len: u8) -> Sources {
        Sources {
            sources: Slab::new(),
            by_prefix: Table::new(),
            keys,
            mask: u128::MAX << (128 - u32::from(prefix_len.clamp(1, 128))),
        }
    }

    pub fn len(&self) -> u32 {
        self.sources.len()
    }

    /// The source of a node, if it has anything.
    pub fn find(&self, node: Ipv6Addr) -> Option<u32> {
        let prefix = node.to_bits() & self.mask;
        let bits = |at: u32| u128::from_be_bytes(self.sources[at].prefix);
        let hash = self.keys.prefix(prefix);
        self.by_prefix.find(hash, |at| bits(at) == prefix)
    }

    /// The source of a node, new if it has nothing yet.
    pub fn enter(&mut self, node: Ipv6Addr) -> u32 {
        if let Some(at) = self.find(node) {
            return at;
        }
        let prefix = node.to_bits() & self.mask;
        let hash = self.keys.prefix(prefix);
        let at = self.sources.insert(Source {
            prefix: prefix.to_be_bytes(),
            sessions: 0,
            bindings: 0,
        });
        self.by_prefix.insert(hash, at);
        at
    }

    /// Forgets a source that has nothing.
    pub fn leave(&mut self, at: u32) {
        let source = &self.sources[at];
        if source.sessions == 0 && source.bindings == 0 {
            let source = self.sources.remove(at);
            let hash = self.keys.prefix(u128::from_be_bytes(source.prefix));
            self.by_prefix.remove(hash, at);
        }
    }

    pub fn memory(&self) -> usize {
        self.sources.memory() + self.by_prefix.memory()
    }
}

impl std::ops::Index<u32> for Sources {
    type Output = Source;

    fn index(&self, at: u32) -> &Source {
        &self.sources[at]
    }
}

impl std::ops::IndexMut<u32> for Sources {
    fn index_mut(&mut self, at: u32) -> &mut Source {
        &mut self.sources[at]
    }
}
