// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A BPF array map, mapped into memory that BPF programs and this process share.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// The kernel maps arrays in whole pages.
const PAGE: usize = 4096;

/// Types that may be in memory that other writers change at any time.
///
/// # Safety
///
/// Any bytes must be a valid value, and all of it must be accessed by atomic operations only.
pub unsafe trait Shared: Sync {}

// SAFETY: any bytes are a number, and there are no other operations than atomic ones.
unsafe impl Shared for AtomicU16 {}
// SAFETY: any bytes are a number, and there are no other operations than atomic ones.
unsafe impl Shared for AtomicU32 {}
// SAFETY: any bytes are a number, and there are no other operations than atomic ones.
unsafe impl Shared for AtomicU64 {}
// SAFETY: an array consists of its elements only.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// Makes a struct [`Shared`] if all of its fields are; all fields must be named.
///
/// ```
/// use std::sync::atomic::AtomicU64;
///
/// #[repr(C)]
/// struct Slot {
///     state: AtomicU64,
///     ports: [AtomicU64; 2],
/// }
/// diolkos_sys::shared!(Slot { state, ports });
/// ```
#[macro_export]
macro_rules! shared {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        const _: fn(&$type) = |whole| {
            fn is_shared<T: $crate::mapped::Shared>(_: &T) {}
            let $type { $($field),+ } = whole;
            $( is_shared($field); )+
        };
        // SAFETY: nothing is there but the fields, which are all that has been looked at above.
        unsafe impl $crate::mapped::Shared for $type {}
    };
}

/// The elements of an array map. Dropping it unmaps the memory.
#[derive(Debug)]
pub struct Mapped<T> {
    first: NonNull<T>,
    len: usize,
}

// SAFETY: the memory belongs to no thread: it stays mapped until this is dropped.
unsafe impl<T: Sync> Send for Mapped<T> {}
// SAFETY: elements are given out as shared references only.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T: Shared> Mapped<T> {
    /// Maps an array of `len` elements, which have the size of `T`. Fails if the array has fewer elements.
    pub fn of(map: BorrowedFd<'_>, len: usize) -> io::Result<Mapped<T>> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (map, bytes) = (map.as_raw_fd(), bytes::<T>(len));
        // SAFETY: without a wish for an address the kernel chooses one where nothing is. It maps an array wholly or not at all.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_SHARED, map, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { first, len })
    }

    /// The element at an index, which must be less than the length.
    pub fn at(&self, place: usize) -> &T {
        assert!(place < self.len);
        // SAFETY: the memory has as many elements, begins at a page, and is mapped as long as `self` lives. Any bytes of it
        // are valid, and whatever others write meanwhile is read by atomic operations.
        unsafe { self.first.add(place).as_ref() }
    }
}

fn bytes<T>(len: usize) -> usize {
    (len * size_of::<T>()).next_multiple_of(PAGE)
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; no reference to it outlives `self`.
        unsafe { libc::munmap(self.first.as_ptr().cast(), bytes::<T>(self.len)) };
    }
}
