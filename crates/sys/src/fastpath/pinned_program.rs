// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program has that runs without its process: its maps, by their names, and what tells its version.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use libbpf_sys as bpf;

/// Of one object; it has fewer maps than this.
const MAPS: usize = 64;

/// A loaded program's version and maps.
#[derive(Debug)]
pub(super) struct PinnedProgram {
    tag: Tag,
    maps: Vec<MapHandle>,
}

/// The kernel's digest of a program's instructions. Numbers of maps and configuration are no part of it: programs with
/// the same one understand each other's maps.
pub(super) type Tag = [u8; 8];

impl PinnedProgram {
    /// Of the program with a number. Needs CAP_SYS_ADMIN.
    pub(super) fn of(program: u32) -> io::Result<PinnedProgram> {
        // SAFETY: any number may be asked for.
        let fd = unsafe { bpf::bpf_prog_get_fd_by_id(program) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the new descriptor is ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut ids = [0u32; MAPS];
        let (tag, maps) = info(fd.as_raw_fd(), &mut ids)?;
        let maps = ids.iter().take(maps).map(|&id| MapHandle::from_map_id(id));
        let maps: Result<_, _> = maps.collect();
        Ok(PinnedProgram {
            tag,
            maps: maps.map_err(io::Error::other)?,
        })
    }

    pub(super) fn tag(&self) -> Tag {
        self.tag
    }

    /// A map whose name ends so.
    pub(super) fn map(&self, name: &str) -> Option<&MapHandle> {
        let is_it = |map: &&MapHandle| map.name().to_string_lossy().ends_with(name);
        self.maps.iter().find(is_it)
    }

    /// The configuration that the program was loaded with, if it is of this type.
    ///
    /// # Safety
    /// Any bytes must be a valid `T`.
    pub(super) unsafe fn rodata<T: Copy>(&self) -> Option<T> {
        let map = self.map(".rodata")?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        // The map ends with the last member, a `T` where the next one would begin.
        if value.len() + align_of::<T>() <= size_of::<T>() {
            return None;
        }
        let mut data = MaybeUninit::<T>::zeroed();
        let len = value.len().min(size_of::<T>());
        // SAFETY: both are valid for as many bytes, and any bytes are a valid `T`.
        unsafe {
            value
                .as_ptr()
                .copy_to_nonoverlapping(data.as_mut_ptr().cast(), len);
            Some(data.assume_init())
        }
    }
}

/// Of a program that is loaded.
pub(super) fn tag(program: BorrowedFd<'_>) -> io::Result<Tag> {
    info(program.as_raw_fd(), &mut []).map(|(tag, _)| tag)
}

/// The tag, and how many maps there are; the numbers of as many as fit.
fn info(program: i32, maps: &mut [u32]) -> io::Result<(Tag, usize)> {
    // SAFETY: all zeros is a valid bpf_prog_info.
    let mut info: bpf::bpf_prog_info = unsafe { std::mem::zeroed() };
    info.nr_map_ids = maps.len() as u32;
    info.map_ids = maps.as_mut_ptr() as u64;
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is valid for writing `len` bytes, `maps` for as many numbers as it says.
    let done = unsafe { bpf::bpf_prog_get_info_by_fd(program, &mut info, &mut len) };
    match done {
        0 => Ok((info.tag, info.nr_map_ids as usize)),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
