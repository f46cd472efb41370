// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of all leases, shared by the controller and the programs.

use std::io;
use std::os::fd::BorrowedFd;

use super::lease;
use diolkos_sys::mapped::Mapped;

/// Number of leases; the address of a node selects one of these places.
pub const LEASES: usize = 4096;
/// Maximum number of ports in each queue of a lease.
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

/// The map of leases as memory. It is unmapped on drop.
pub(super) struct Leases(Mapped<Lease>);

impl Leases {
    /// Maps the programs' array of [`LEASES`] leases.
    pub fn of(map: BorrowedFd<'_>) -> io::Result<Leases> {
        Mapped::of(map, LEASES).map(Leases)
    }

    /// The lease at a place, which must be below [`LEASES`].
    pub fn at(&self, place: usize) -> &Lease {
        self.0.at(place)
    }
}
