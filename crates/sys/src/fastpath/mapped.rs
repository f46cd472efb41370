// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An array of the programs as memory that they and the controller share.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// The kernel maps arrays in whole pages.
const PAGE: usize = 4096;

/// The elements of an array; dropped, it is no longer mapped.
pub(super) struct Mapped<T> {
    first: NonNull<T>,
    len: usize,
}

// SAFETY: the memory belongs to no thread: it stays mapped until this is dropped.
unsafe impl<T: Sync> Send for Mapped<T> {}
// SAFETY: elements are given out as shared references only.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps an array of `len` elements.
    ///
    /// # Safety
    ///
    /// The elements of the array have the size of `T`, any bytes are valid ones, and `T` is used by atomic operations only, since
    /// programs use the memory, too.
    pub unsafe fn of(map: BorrowedFd<'_>, len: usize) -> io::Result<Mapped<T>> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (map, bytes) = (map.as_raw_fd(), Self::bytes(len));
        // SAFETY: without a wish for an address the kernel chooses one where nothing is. It maps an array wholly or not at all.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_SHARED, map, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { first, len })
    }

    /// The element of a place, which must be below the length.
    pub fn at(&self, place: usize) -> &T {
        assert!(place < self.len);
        // SAFETY: the memory has as many elements, begins at a page, and is mapped as long as `self` lives. Whoever mapped it has
        // promised that any bytes are valid.
        unsafe { self.first.add(place).as_ref() }
    }

    fn bytes(len: usize) -> usize {
        (len * size_of::<T>()).next_multiple_of(PAGE)
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; no reference to it outlives `self`.
        unsafe { libc::munmap(self.first.as_ptr().cast(), Self::bytes(self.len)) };
    }
}
