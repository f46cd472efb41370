// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address-dependent filtering (RFC 4787 section 5). Counts the sessions of each binding with each
//! peer address, so that one lookup tells whether the node has sent to an address, regardless of the
//! port.

use super::slab::Slab;
use crate::config::Endpoint4;
use crate::key::{Keys, Table};
use std::net::Ipv4Addr;

#[derive(Debug)]
struct Permission {
    bib: u32,
    peer: Ipv4Addr,
    sessions: u32,
}

/// The peer addresses that each binding accepts.
#[derive(Debug)]
pub struct Permissions {
    permissions: Slab<Permission>,
    by_peer: Table,
    keys: Keys,
}

impl Permissions {
    pub fn new(keys: Keys) -> Permissions {
        Permissions {
            permissions: Slab::new(),
            by_peer: Table::new(),
            keys,
        }
    }

    pub fn permits(&self, bib: u32, peer: Ipv4Addr) -> bool {
        self.find(bib, peer).is_some()
    }

    /// Counts a new session with the peer.
    pub fn add(&mut self, bib: u32, peer: Ipv4Addr) {
        if let Some(at) = self.find(bib, peer) {
            self.permissions[at].sessions += 1;
            return;
        }
        let at = self.permissions.insert(Permission {
            bib,
            peer,
            sessions: 1,
        });
        self.by_peer.insert(hash(&self.keys, bib, peer), at);
    }

    /// Counts a closed session with the peer.
    pub fn remove(&mut self, bib: u32, peer: Ipv4Addr) {
        let Some(at) = self.find(bib, peer) else {
            return;
        };
        self.permissions[at].sessions -= 1;
        if self.permissions[at].sessions == 0 {
            self.permissions.remove(at);
            self.by_peer.remove(hash(&self.keys, bib, peer), at);
        }
    }

    fn find(&self, bib: u32, peer: Ipv4Addr) -> Option<u32> {
        let is_it = |at| {
            let permission: &Permission = &self.permissions[at];
            permission.bib == bib && permission.peer == peer
        };
        self.by_peer.find(hash(&self.keys, bib, peer), is_it)
    }

    pub fn len(&self) -> u32 {
        self.permissions.len()
    }

    pub fn memory(&self) -> usize {
        self.permissions.memory() + self.by_peer.memory()
    }
}

fn hash(keys: &Keys, bib: u32, peer: Ipv4Addr) -> u64 {
    keys.numbered(
        bib,
        Endpoint4 {
            addr: peer,
            port: 0,
        },
    )
}
