// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of packets between reading and writing: many slots for those that may wait for their successors, one
//! for super-packets.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::LEN as VNET;

use super::{BACK, FRONT, LONGEST};

/// Number of packets that may wait at once: several of each flow, when many flows are mixed.
pub const SLOTS: usize = 256;
/// The longest packet that has a slot. With 64 KiB for each the slots would not stay in a cache.
const SMALL: usize = 2048;
const SLOT: usize = FRONT + SMALL + BACK;

/// The place of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferPlace {
    /// It may stay until the slot is freed.
    Slot(usize),
    /// It may stay until the next packet is read.
    Large,
}

/// The slots of one reader.
#[derive(Debug)]
pub struct Slots {
    small: Vec<u8>,
    free: Vec<usize>,
    large: Vec<u8>,
}

impl Slots {
    /// Creates free slots.
    pub fn new() -> Slots {
        Slots {
            small: vec![0; SLOTS * SLOT],
            free: (0..SLOTS).rev().collect(),
            large: vec![0; FRONT + LONGEST + BACK],
        }
    }

    /// Reads one packet; its bytes begin at [`FRONT`], with its offload header in front. There must be a free
    /// slot.
    pub fn read(&mut self, queue: &Queue) -> io::Result<(BufferPlace, usize)> {
        let slot = *self.free.last().expect("the caller frees slots");
        let at = slot * SLOT;
        let begin = &mut self.small[at + FRONT - VNET..at + FRONT + SMALL];
        let rest = &mut self.large[FRONT + SMALL..FRONT + LONGEST];
        let len = queue.read_vectored(&mut [IoSliceMut::new(begin), IoSliceMut::new(rest)])?;
        if len <= VNET + SMALL {
            self.free.pop();
            return Ok((BufferPlace::Slot(slot), len));
        }
        self.large[FRONT - VNET..FRONT + SMALL].copy_from_slice(begin);
        Ok((BufferPlace::Large, len))
    }

    /// Returns a packet and all the room around it.
    pub fn buffer(&mut self, place: BufferPlace) -> &mut [u8] {
        match place {
            BufferPlace::Slot(slot) => &mut self.small[slot * SLOT..][..SLOT],
            BufferPlace::Large => &mut self.large,
        }
    }

    /// Returns bytes of a packet.
    pub fn bytes(&self, place: BufferPlace, range: &Range<usize>) -> &[u8] {
        match place {
            BufferPlace::Slot(slot) => &self.small[slot * SLOT..][..SLOT][range.clone()],
            BufferPlace::Large => &self.large[range.clone()],
        }
    }

    /// Frees the slot of a packet.
    pub fn free(&mut self, place: BufferPlace) {
        if let BufferPlace::Slot(slot) = place {
            self.free.push(slot);
        }
    }

    /// Returns true if nothing can be read before a slot is freed.
    pub fn are_full(&self) -> bool {
        self.free.is_empty()
    }
}
