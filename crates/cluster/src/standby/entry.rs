// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A binding in 36 bytes, and by what it is found.

use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_core::session::key::Keys;

use crate::slice::SliceId;

/// A binding of a slice, and its place in the slice's list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    addr: Ipv6Addr,
    v6_port: u16,
    /// Of the slice's address.
    pub port: u16,
    /// The slice and, in the lowest two bits, the protocol.
    table: u32,
    /// In which cycle a message last had it.
    pub told: u32,
    /// Told after it.
    pub previous: u32,
    /// Told before it.
    pub next: u32,
}

const _: () = assert!(size_of::<Entry>() == 36);

impl Entry {
    pub fn new(slice: SliceId, binding: &Binding, told: u32) -> Entry {
        let none = diolkos_core::session::slab::NONE;
        Entry {
            addr: binding.v6.addr,
            v6_port: binding.v6.port,
            port: binding.v4.port,
            table: table(slice, binding.protocol),
            told,
            previous: none,
            next: none,
        }
    }

    pub fn slice(&self) -> SliceId {
        self.table >> 2
    }

    pub fn protocol(&self) -> Protocol {
        Protocol::ALL[(self.table & 3) as usize]
    }

    pub fn is_of(&self, slice: SliceId, protocol: Protocol) -> bool {
        self.table == table(slice, protocol)
    }

    pub fn v6(&self) -> Endpoint6 {
        Endpoint6 {
            addr: self.addr,
            port: self.v6_port,
        }
    }

    /// As the message had it. `addr`: of its slice.
    pub fn binding(&self, addr: Ipv4Addr) -> Binding {
        Binding {
            protocol: self.protocol(),
            v4: Endpoint4 {
                addr,
                port: self.port,
            },
            v6: self.v6(),
        }
    }
}

/// There are at most [`crate::Slices::MOST`] slices.
fn table(slice: SliceId, protocol: Protocol) -> u32 {
    slice << 2 | protocol.index() as u32
}

/// Of a port of the slice's address.
pub fn hash_v4(keys: &Keys, slice: SliceId, protocol: Protocol, port: u16) -> u64 {
    let mut hasher = keys.build_hasher();
    hasher.write_u32(table(slice, protocol));
    hasher.write_u16(port);
    hasher.finish()
}

/// Of a node's own address and port.
pub fn hash_v6(keys: &Keys, slice: SliceId, protocol: Protocol, v6: Endpoint6) -> u64 {
    let mut hasher = keys.build_hasher();
    hasher.write(&v6.addr.octets());
    hasher.write_u32(table(slice, protocol));
    hasher.write_u16(v6.port);
    hasher.finish()
}
