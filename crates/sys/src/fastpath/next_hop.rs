// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one router behind the translation prefix; see `struct diolkos_next_hop` in `bpf/abi.h`.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

const SLOTS_AT: usize = 16;
const ADDRESS: usize = 16;

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

    /// Names the router, or has the programs look the route up.
    pub(super) fn set(&mut self, router: Option<Ipv6Addr>) -> io::Result<()> {
        let next = match router {
            None => 0,
            Some(router) => {
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
