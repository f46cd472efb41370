// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of all leases, which the controller and the programs share.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use super::lease;

/// How many leases there can be: a node has the one place that its address says.
pub const LEASES: usize = 4096;
/// Ports of each queue that one lease can have.
pub const LEASE_PORTS: u32 = 128;

/// `struct diolkos_lease`.
pub(super) type Lease = lease::Lease<lease::Shared, { LEASE_PORTS as usize }>;

const _: () = assert!(size_of::<Lease>() == 1120);

/// Bytes of all leases, in whole pages as the kernel maps them.
const MAPPED: usize = (LEASES * size_of::<Lease>()).next_multiple_of(4096);

/// The map of leases, as memory; dropped, it is no longer mapped.
pub(super) struct Leases(NonNull<Lease>);

// SAFETY: the memory belongs to no thread: it stays mapped until this is dropped.
unsafe impl Send for Leases {}
// SAFETY: all of it is used by atomic operations, by the programs too.
unsafe impl Sync for Leases {}

impl Leases {
    /// Of the array that the programs have, [`LEASES`] long.
    pub fn of(map: BorrowedFd<'_>) -> io::Result<Leases> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let map = map.as_raw_fd();
        // SAFETY: without a wish for an address the kernel chooses one where nothing is. It maps an array wholly or not at all.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), MAPPED, rights, libc::MAP_SHARED, map, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Leases(first))
    }

    /// That of a place, which must be below [`LEASES`].
    pub fn at(&self, place: usize) -> &Lease {
        assert!(place < LEASES);
        // SAFETY: the memory holds as many leases, is mapped as long as `self` lives, and begins at a page; zeros, and
        // whatever else stands there, are valid values of every field.
        unsafe { self.0.add(place).as_ref() }
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; no reference to it outlives `self`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), MAPPED) };
    }
}
