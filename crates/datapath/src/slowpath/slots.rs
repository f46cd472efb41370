// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where packets lie from when they are read until they are written: many places for those that may wait for their
//! successors, one for super-packets.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::LEN as VNET;

use super::{BACK, FRONT, LONGEST};

/// Packets that may wait at once: several of each flow, where many flows come together.
pub const SLOTS: usize = 256;
/// The longest packet that has a slot. With those of 64 KiB the slots would not stay in a cache.
const SMALL: usize = 2048;
const SLOT: usize = FRONT + SMALL + BACK;

/// Where a packet lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It may stay until the slot is freed.
    Slot(usize),
    /// Until the next one is read.
    Large,
}

/// Of one reader.
#[derive(Debug)]
pub struct Slots {
    small: Vec<u8>,
    free: Vec<usize>,
    large: Vec<u8>,
}

impl Slots {
    /// All of them free.
    pub fn new() -> Slots {
        Slots {
            small: vec![0; SLOTS * SLOT],
            free: (0..SLOTS).rev().collect(),
            large: vec![0; FRONT + LONGEST + BACK],
        }
    }

    /// Reads one packet; its bytes begin at [`FRONT`], its offload header in front. There must be a free slot.
    pub fn read(&mut self, queue: &Queue) -> io::Result<(Place, usize)> {
        let slot = *self.free.last().expect("the caller frees slots");
        let at = slot * SLOT;
        let begin = &mut self.small[at + FRONT - VNET..at + FRONT + SMALL];
        let rest = &mut self.large[FRONT + SMALL..FRONT + LONGEST];
        let len = queue.read_vectored(&mut [IoSliceMut::new(begin), IoSliceMut::new(rest)])?;
        if len <= VNET + SMALL {
            self.free.pop();
            return Ok((Place::Slot(slot), len));
        }
        self.large[FRONT - VNET..FRONT + SMALL].copy_from_slice(begin);
        Ok((Place::Large, len))
    }

    /// A packet and all the room around it.
    pub fn buffer(&mut self, place: Place) -> &mut [u8] {
        match place {
            Place::Slot(slot) => &mut self.small[slot * SLOT..][..SLOT],
            Place::Large => &mut self.large,
        }
    }

    /// Bytes of a packet.
    pub fn bytes(&self, place: Place, range: &Range<usize>) -> &[u8] {
        match place {
            Place::Slot(slot) => &self.small[slot * SLOT..][..SLOT][range.clone()],
            Place::Large => &self.large[range.clone()],
        }
    }

    /// Its packet is gone.
    pub fn free(&mut self, place: Place) {
        if let Place::Slot(slot) = place {
            self.free.push(slot);
        }
    }

    /// Nothing can be read before a slot is freed.
    pub fn are_full(&self) -> bool {
        self.free.is_empty()
    }
}
