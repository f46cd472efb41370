// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which way packets of a CLAT take out of the uplink; see `struct diolkos_next_hop` in `bpf/abi.h`.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

const SLOTS_AT: usize = 16;
const ADDRESS: usize = 16;

/// Which way packets of a CLAT take out of the uplink; see `enum diolkos_way` in `bpf/abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// The kernel looks each packet up. Only right where each of its answers leads through the uplink.
    ByRoute,
    /// To this router.
    Router(Ipv6Addr),
    /// Destinations in the prefix are neighbours.
    OnLink,
    /// Nothing is sent: the slow path answers what it can, and the rest is dropped and counted.
    Nowhere,
}

/// Writes what the programs read. They may be reading at any time.
#[derive(Debug)]
pub(super) struct NextHop {
    map: MapHandle,
    value: Vec<u8>,
}

impl NextHop {
    pub(super) fn new(map: MapHandle) -> NextHop {
        let value = vec![0; map.value_size() as usize];
        NextHop { map, value }
    }

    /// For programs that are to read the same.
    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Has every packet from now on take this way.
    pub(super) fn set(&mut self, way: WayOut) -> io::Result<()> {
        let next = match way {
            WayOut::ByRoute => 0,
            WayOut::OnLink => 3,
            WayOut::Nowhere => 4,
            WayOut::Router(router) => {
                // The slot that is not in use first, and then the switch: nobody reads half an address.
                let next = if self.value[0] == 1 { 2u32 } else { 1 };
                let at = SLOTS_AT + (next as usize - 1) * ADDRESS;
                self.value[at..at + ADDRESS].copy_from_slice(&router.octets());
                self.write()?;
                next
            }
        };
        self.value[..4].copy_from_slice(&next.to_ne_bytes());
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        self.map
            .update(&0u32.to_ne_bytes(), &self.value, MapFlags::ANY)
            .map_err(io::Error::other)
    }
}
