// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of a program that runs without its process: its maps by name, and its version.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};

use diolkos_sys::bpf::program_info;

/// An object has fewer maps than this.
const MAPS: usize = 64;

/// The version and maps of a loaded program.
#[derive(Debug)]
pub(super) struct PinnedProgram {
    tag: Tag,
    maps: Vec<MapHandle>,
}

/// The kernel's digest of a program's instructions. It does not cover map IDs and configuration, so programs with equal
/// tags understand each other's maps.
pub(super) type Tag = [u8; 8];

impl PinnedProgram {
    /// Reads the program with an ID. Needs CAP_SYS_ADMIN.
    pub(super) fn of(program: u32) -> io::Result<PinnedProgram> {
        let fd = Program::fd_from_id(program).map_err(io::Error::other)?;
        let mut ids = [0u32; MAPS];
        let info = program_info(fd.as_fd(), &mut ids)?;
        let maps = ids.iter().take(info.nr_map_ids as usize);
        let maps = maps.map(|&id| MapHandle::from_map_id(id));
        let maps: Result<_, _> = maps.collect();
        Ok(PinnedProgram {
            tag: info.tag,
            maps: maps.map_err(io::Error::other)?,
        })
    }

    pub(super) fn tag(&self) -> Tag {
        self.tag
    }

    /// The map whose name ends with `name`.
    pub(super) fn map(&self, name: &str) -> Option<&MapHandle> {
        let is_it = |map: &&MapHandle| map.name().to_string_lossy().ends_with(name);
        self.maps.iter().find(is_it)
    }

    /// The configuration with which the program was loaded: a struct of `len` bytes with this alignment. Bytes beyond
    /// the end of the map are zero.
    pub(super) fn rodata(&self, len: usize, alignment: usize) -> Option<Vec<u8>> {
        let map = self.map(".rodata")?;
        let mut value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        // The map ends with the last member; the struct ends at the next multiple of its alignment.
        if value.len() + alignment <= len {
            return None;
        }
        value.resize(len, 0);
        Some(value)
    }
}

/// The tag of a loaded program.
pub(super) fn tag(program: BorrowedFd<'_>) -> io::Result<Tag> {
    program_info(program, &mut []).map(|info| info.tag)
}
