// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binding information bases (RFC 6146 section 3.1), which map a node's transport address to an IPv4 transport
//! address. A binding serves all peers: endpoint-independent mapping (RFC 4787 REQ-1).

use super::slab::{Slab, NONE};
use crate::config::{Binding, Endpoint4, Endpoint6, Gateway, Protocol};
use crate::key::{Keys, Table};

/// No other gateway: the binding is owned by this gateway.
pub const OWN: Gateway = Gateway::MAX;

/// The creator of a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Origin {
    /// A packet. The binding ends with its last session.
    Dynamic,
    /// The configuration. The binding ends when it is removed from the configuration.
    Configured,
    /// The operator, at run time. The binding ends when the operator removes it.
    Operator,
    /// A packet at another gateway ([`super::State::inherit`]). The binding ends with its last session, or if none
    /// begins in time.
    Inherited,
    /// The node, at run time ([`super::State::grant`]). The binding ends when it is withdrawn, or with the last session that the
    /// node has opened, whichever comes later.
    Pcp,
}

impl Origin {
    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Dynamic => "dynamic",
            Origin::Configured => "configured",
            Origin::Operator => "operator",
            Origin::Inherited => "inherited",
            Origin::Pcp => "pcp",
        }
    }

    /// Returns true if a packet created the binding, here or at another gateway.
    pub const fn is_of_packets(self) -> bool {
        matches!(self, Origin::Dynamic | Origin::Inherited)
    }

    /// Returns true if the binding is the operator's.
    pub const fn is_static(self) -> bool {
        matches!(self, Origin::Configured | Origin::Operator)
    }
}

/// The kind of entry that a count is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// An own entry of this gateway.
    Own,
    /// A copy, or a session of one.
    Copied,
}

/// A binding. Kept small, because there may be millions.
#[derive(Debug)]
pub struct Entry {
    pub v6: Endpoint6,
    pub v4: Endpoint4,
    /// The first of its sessions.
    pub first: u32,
    /// Number of its sessions.
    pub sessions: u32,
    /// Number of its sessions that the IPv4 side opened.
    pub outside: u32,
    /// Index of its source in [`super::limit::Sources`].
    pub source: u32,
    pub protocol: Protocol,
    pub origin: Origin,
    /// True if the port has to be released to the pool.
    pub pooled: bool,
    /// The gateway that owns the binding of which this is a copy, or [`OWN`].
    pub owner: Gateway,
}

const _: () = assert!(size_of::<Entry>() == 44);

impl Entry {
    #[inline]
    pub fn whose(&self) -> Whose {
        match self.owner {
            OWN => Whose::Own,
            _ => Whose::Copied,
        }
    }

    pub fn binding(&self) -> Binding {
        Binding {
            protocol: self.protocol,
            v4: self.v4,
            v6: self.v6,
        }
    }
}

/// All bindings of all protocols.
#[derive(Debug)]
pub struct Bib {
    entries: Slab<Entry>,
    by_v6: Table,
    by_v4: Table,
    keys: Keys,
    /// Number of bindings of each protocol.
    of_protocol: [u32; 3],
}

impl Bib {
    pub fn new(keys: Keys) -> Bib {
        Bib {
            entries: Slab::new(),
            by_v6: Table::new(),
            by_v4: Table::new(),
            keys,
            of_protocol: [0; 3],
        }
    }

    pub fn len(&self) -> u32 {
        self.entries.len()
    }

    pub fn of_protocol(&self) -> [u32; 3] {
        self.of_protocol
    }

    #[inline]
    pub fn find_v6(&self, protocol: Protocol, v6: Endpoint6) -> Option<u32> {
        let is_it = |at| {
            let entry: &Entry = &self.entries[at];
            entry.v6 == v6 && entry.protocol == protocol
        };
        self.by_v6.find(self.keys.v6(protocol, v6), is_it)
    }

    #[inline]
    pub fn find_v4(&self, protocol: Protocol, v4: Endpoint4) -> Option<u32> {
        let is_it = |at| {
            let entry: &Entry = &self.entries[at];
            entry.v4 == v4 && entry.protocol == protocol
        };
        self.by_v4.find(self.keys.v4(protocol, v4), is_it)
    }

    /// Adds a binding without sessions. Neither of its endpoints may be bound.
    pub fn insert(&mut self, binding: Binding, origin: Origin, pooled: bool, source: u32) -> u32 {
        let Binding { protocol, v4, v6 } = binding;
        let at = self.entries.insert(Entry {
            v6,
            v4,
            first: NONE,
            sessions: 0,
            outside: 0,
            source,
            protocol,
            origin,
            pooled,
            owner: OWN,
        });
        self.by_v6.insert(self.keys.v6(protocol, v6), at);
        self.by_v4.insert(self.keys.v4(protocol, v4), at);
        self.of_protocol[protocol.index()] += 1;
        at
    }

    pub fn remove(&mut self, at: u32) -> Entry {
        let entry = self.entries.remove(at);
        let Entry {
            protocol, v4, v6, ..
        } = entry;
        self.by_v6.remove(self.keys.v6(protocol, v6), at);
        self.by_v4.remove(self.keys.v4(protocol, v4), at);
        self.of_protocol[protocol.index()] -= 1;
        entry
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries.iter()
    }

    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, Option<&Entry>)> {
        self.entries.iter_from(first)
    }

    pub fn memory(&self) -> usize {
        self.entries.memory() + self.by_v6.memory() + self.by_v4.memory()
    }
}

impl std::ops::Index<u32> for Bib {
    type Output = Entry;

    #[inline]
    fn index(&self, at: u32) -> &Entry {
        &self.entries[at]
    }
}

impl std::ops::IndexMut<u32> for Bib {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.entries[at]
    }
}
