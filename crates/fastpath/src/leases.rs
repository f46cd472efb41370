// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of all leases, shared by the controller and the programs, and which node stands where.
//!
//! The address of a node selects a set of [`LEASE_WAYS`] places; the controller chooses one of them. Its ports stand in the
//! lease itself, or, if the node needs many, in one of the blocks that all leases share.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use super::lease;
use diolkos_sys::mapped::Mapped;

/// Number of places in a set.
pub const LEASE_WAYS: usize = 4;
/// Maximum number of ports in each queue of a lease.
pub const LEASE_PORTS: u32 = 16;
/// Maximum number of ports in each queue of a wide lease.
pub const WIDE_PORTS: u32 = 128;
/// So many places share one block for a wide lease.
const PLACES_OF_BLOCK: u32 = 64;
/// Sizes of the table: 224 KiB and 14 MiB, besides blocks of 16 KiB and 1 MiB.
const PLACES: [u32; 2] = [1024, 65536];

/// `struct diolkos_lease`.
pub(super) type Lease = lease::Lease<lease::Shared, { LEASE_PORTS as usize }>;
type Queue = lease::Queue<lease::Shared, { LEASE_PORTS as usize }>;
type Port = <lease::Shared as lease::Memory>::U16;

/// `struct diolkos_wide_ports`.
#[repr(C)]
pub(super) struct Block {
    ports: [[Port; WIDE_PORTS as usize]; 4],
}

diolkos_sys::shared!(Queue {
    head,
    tail,
    pad,
    ports
});
diolkos_sys::shared!(Lease {
    node,
    v4,
    wide,
    sessions,
    queues
});
diolkos_sys::shared!(Block { ports });

const _: () = assert!(size_of::<Lease>() == 224 && size_of::<Block>() == 1024);

/// Returns the number of places for leases of a NAT64 with so many bindings: one for 16 of them, within bounds; a power
/// of two.
pub fn places_for(max_bindings: u32) -> u32 {
    let wanted = (max_bindings / 16).clamp(PLACES[0], PLACES[1]);
    wanted.next_power_of_two().min(PLACES[1])
}

/// Returns the number of blocks for wide leases beside so many places.
pub(super) fn blocks_for(places: u32) -> u32 {
    (places / PLACES_OF_BLOCK).max(1)
}

/// The maps of leases as memory. They are unmapped on drop.
pub(super) struct Leases {
    places: Mapped<Lease>,
    blocks: Mapped<Block>,
    count: usize,
    /// Blocks that no lease has.
    free: Mutex<Vec<u32>>,
}

impl Leases {
    /// Maps the programs' array of `count` leases, and their blocks.
    pub fn of(leases: BorrowedFd<'_>, wide: BorrowedFd<'_>, count: u32) -> io::Result<Leases> {
        let blocks = blocks_for(count);
        Ok(Leases {
            places: Mapped::of(leases, count as usize)?,
            blocks: Mapped::of(wide, blocks as usize)?,
            count: count as usize,
            free: Mutex::new((0..blocks).rev().collect()),
        })
    }

    /// The number of places.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The lease at a place, which must be below [`Leases::count`].
    pub fn at(&self, place: usize) -> &Lease {
        self.places.at(place)
    }

    /// Assigns an empty place; see [`lease::Lease::assign`]. A wide lease is an ordinary one if there is no block for it.
    pub fn assign(&self, place: usize, node: [u64; 2], v4: u32, is_wide: bool) {
        let lease = self.at(place);
        // The first term of a place: those of a set differ from the beginning.
        if lease.term() as usize % LEASE_WAYS != place % LEASE_WAYS {
            self.end(place);
        }
        let block = is_wide.then(|| self.free().pop()).flatten();
        lease.assign(node, v4, block.map_or(0, |block| block + 1));
    }

    /// The maximum number of ports in each queue of a lease.
    pub fn most_ports(&self, place: usize) -> u32 {
        match self.block_of(place) {
            Some(_) => WIDE_PORTS,
            None => LEASE_PORTS,
        }
    }

    /// Lends a port.
    pub fn add_port(&self, place: usize, queue: usize, port: u16) {
        self.at(place)
            .add_port(queue, port, self.wide(place, queue));
    }

    /// Ends a lease; see [`lease::Lease::end`].
    pub fn end(&self, place: usize) -> Vec<(usize, u16)> {
        let lease = self.at(place);
        let next = (lease.term() | (LEASE_WAYS as u32 - 1))
            .wrapping_add(1)
            .wrapping_add((place % LEASE_WAYS) as u32);
        let left = lease.end(next, |queue| self.wide(place, queue));
        // Only now may another lease get the block: a program that still reads it has another term.
        if let Some(block) = self.block_of(place) {
            lease.assign([0; 2], 0, 0);
            self.free().push(block);
        }
        left
    }

    /// Ends all leases of another run, which may have had any block.
    pub fn reset(&self) {
        for place in 0..self.count {
            let lease = self.at(place);
            if lease.term() != 0 || lease.sessions() != 0 || self.block_of(place).is_some() {
                self.end(place);
            }
        }
        *self.free() = (0..blocks_for(self.count as u32)).rev().collect();
    }

    /// The block of a lease.
    fn block_of(&self, place: usize) -> Option<u32> {
        let block = self.at(place).wide().checked_sub(1)?;
        (block < blocks_for(self.count as u32)).then_some(block)
    }

    fn wide(&self, place: usize, queue: usize) -> Option<&[Port]> {
        let block = self.block_of(place)?;
        Some(&self.blocks.at(block as usize).ports[queue])
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
