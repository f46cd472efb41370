// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of all leases, which the controller and the programs share.

use std::io;
use std::os::fd::BorrowedFd;

use super::lease;
use diolkos_sys::mapped::Mapped;

/// How many leases there can be: a node has the one place that its address says.
pub const LEASES: usize = 4096;
/// Ports of each queue that one lease can have.
pub const LEASE_PORTS: u32 = 128;

/// `struct diolkos_lease`.
pub(super) type Lease = lease::Lease<lease::Shared, { LEASE_PORTS as usize }>;
type Queue = lease::Queue<lease::Shared, { LEASE_PORTS as usize }>;

diolkos_sys::shared!(Queue {
    head,
    tail,
    pad,
    ports
});
diolkos_sys::shared!(Lease {
    node,
    v4,
    pad,
    sessions,
    queues
});

const _: () = assert!(size_of::<Lease>() == 1120);

/// The map of leases, as memory; dropped, it is no longer mapped.
pub(super) struct Leases(Mapped<Lease>);

impl Leases {
    /// Of the array that the programs have, [`LEASES`] long.
    pub fn of(map: BorrowedFd<'_>) -> io::Result<Leases> {
        Mapped::of(map, LEASES).map(Leases)
    }

    /// That of a place, which must be below [`LEASES`].
    pub fn at(&self, place: usize) -> &Lease {
        self.0.at(place)
    }
}
