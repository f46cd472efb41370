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
/// Sizes of the table: 224 KiB and 28 MiB, besides blocks of 16 KiB and 2 MiB. A place is touched once it has a lease. With
/// 65 536 nodes, 4 % of them find four others in their set.
const PLACES: [u32; 2] = [1024, 1 << 17];

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

/// Which of the blocks that all leases share a lease may have for its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseSize {
    /// None: its node has shown nothing yet.
    Small,
    /// One, while more than half of them are free.
    Usual,
    /// One, while any is free.
    Wide,
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

    /// Assigns an empty place; see [`lease::Lease::assign`].
    pub fn assign(&self, place: usize, node: [u64; 2], v4: u32, size: LeaseSize) {
        let lease = self.at(place);
        // The first term of a place: those of a set differ from the beginning.
        if lease.term() as usize % LEASE_WAYS != place % LEASE_WAYS {
            self.end(place);
        }
        let mut free = self.free();
        let may_have_block = match size {
            LeaseSize::Small => false,
            LeaseSize::Usual => free.len() * 2 > blocks_for(self.count as u32) as usize,
            LeaseSize::Wide => true,
        };
        let block = may_have_block.then(|| free.pop()).flatten();
        drop(free);
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
        // Each of them: one without sessions may have ports yet, in its first term as in any other.
        (0..self.count).for_each(|place| drop(self.end(place)));
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

#[cfg(test)]
mod tests {
    use std::mem::size_of;
    use std::os::fd::AsFd;

    use libbpf_rs::{MapHandle, MapType};

    use super::*;

    const PLACES: u32 = 128;

    fn array(size: usize, entries: u32) -> MapHandle {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let name = Some("leases_test");
        MapHandle::create(MapType::Array, name, 4, size as u32, entries, &options)
            .expect("a map (as root)")
    }

    fn leases() -> Leases {
        let places = array(size_of::<Lease>(), PLACES);
        let blocks = array(size_of::<Block>(), blocks_for(PLACES));
        Leases::of(places.as_fd(), blocks.as_fd(), PLACES).expect("they are mapped")
    }

    /// Otherwise the next node at the place would get ports that are somebody else's by then.
    #[test]
    fn nothing_of_another_run_is_left() {
        let (usual, wide) = (LeaseSize::Usual, LeaseSize::Wide);
        for (place, size, sessions) in [(0, usual, 0), (0, usual, 3), (5, usual, 0), (6, wide, 0)] {
            let leases = leases();
            leases.assign(place, [1, 2], 3, size);
            leases.at(place).add_sessions(sessions);
            leases.add_port(place, 2, 4000);
            leases.reset();
            leases.assign(place, [5, 6], 7, LeaseSize::Usual);
            let left = [0, 1, 2, 3].map(|queue| leases.at(place).ports(queue));
            assert_eq!((left, leases.at(place).sessions()), ([0; 4], 0), "{place}");
        }
    }

    #[test]
    fn half_of_the_blocks_are_for_nodes_that_need_them() {
        let leases = leases();
        let sizes = [LeaseSize::Small, LeaseSize::Usual, LeaseSize::Usual];
        let most = [0, 1, 2].map(|place| {
            leases.assign(place, [1, place as u64], 3, sizes[place]);
            leases.most_ports(place)
        });
        assert_eq!(most, [LEASE_PORTS, WIDE_PORTS, LEASE_PORTS]);
        leases.end(2);
        leases.assign(2, [1, 2], 3, LeaseSize::Wide);
        assert_eq!(leases.most_ports(2), WIDE_PORTS);
    }

    #[test]
    fn terms_of_a_set_differ_and_never_return() {
        let leases = leases();
        let mut had = std::collections::HashSet::new();
        for round in 0..3 {
            for place in 4..8 {
                leases.assign(place, [1, 2], 3, LeaseSize::Usual);
                let term = leases.at(place).term();
                assert!(had.insert(term), "{term} in round {round}");
                leases.end(place);
            }
        }
    }

    #[test]
    fn a_block_has_one_lease_and_comes_back() {
        let leases = leases();
        let blocks = blocks_for(PLACES) as usize;
        assert_eq!(blocks, 2);
        for place in 0..3 {
            leases.assign(place, [1, place as u64], 3, LeaseSize::Wide);
        }
        let most = [0, 1, 2].map(|place| leases.most_ports(place));
        assert_eq!(most, [WIDE_PORTS, WIDE_PORTS, LEASE_PORTS]);
        for (place, port) in [(0, 2000), (1, 3000)] {
            (0..WIDE_PORTS).for_each(|n| leases.add_port(place, 0, port + n as u16));
        }
        let ports: Vec<_> = (2000..2128).map(|port| (0, port)).collect();
        assert_eq!(leases.end(0), ports);
        leases.assign(3, [1, 3], 3, LeaseSize::Wide);
        assert_eq!(leases.most_ports(3), WIDE_PORTS);
        let ports: Vec<_> = (3000..3128).map(|port| (0, port)).collect();
        assert_eq!(leases.end(1), ports);
    }
}
