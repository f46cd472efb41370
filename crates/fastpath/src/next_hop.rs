// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way that packets of a CLAT take out of the uplink; see `struct diolkos_next_hop` in `bpf/abi.h`.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

const SLOTS_AT: usize = 16;
const ADDRESS: usize = 16;

/// The way that packets of a CLAT take out of the uplink; see `enum diolkos_way` in `bpf/abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// The kernel looks up the route of each packet. Only correct if all routes lead through the
    /// uplink.
    ByRoute,
    /// To this router.
    Router(Ipv6Addr),
    /// To the destination itself: destinations in the prefix are neighbours.
    OnLink,
    /// None: the slow path answers packets if it can; all others are dropped and counted.
    Nowhere,
}

/// Writes the value that the programs read, possibly at the same time.
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

    /// The map, for programs that have to share it.
    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Sets the way for all further packets.
    pub(super) fn set(&mut self, way: WayOut) -> io::Result<()> {
        let next = match way {
            WayOut::ByRoute => 0,
            WayOut::OnLink => 3,
            WayOut::Nowhere => 4,
            WayOut::Router(router) => {
                // Write the unused slot first, then switch to it, so that no program reads a partial
                // address.
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
