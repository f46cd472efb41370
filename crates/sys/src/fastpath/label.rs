// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that let a packet's mark and priority survive the slow path (`bpf/label.bpf.c`), and the slots beside the
//! queues of the TUN device.
//!
//! load → attach → a slot for each queue, set while a packet is written

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::MapCore;

use super::load::{failed, listen};
use super::mapped::Mapped;
use super::{handle, qdisc, Attach, FastPathError, Hook, Side};
use crate::skel::label::LabelSkelBuilder;

/// By so many of its first bytes, and by its length, the program knows a packet (`DIOLKOS_LABEL_HEAD`).
pub const LABEL_HEAD: usize = 48;

/// `struct diolkos_label_slot` of `bpf/label.h`.
#[repr(C)]
struct Slot {
    is_set: AtomicU32,
    len: AtomicU32,
    mark: AtomicU32,
    priority: AtomicU32,
    head: [AtomicU64; LABEL_HEAD / 8],
}

const _: () = assert!(size_of::<Slot>() == 64);

/// `struct diolkos_label_count` of `bpf/label.h`.
#[repr(C)]
struct Count {
    dropped: AtomicU64,
    lost: AtomicU64,
}

/// What became of labels that could not be given to packets on their way to the slow path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelCount {
    /// Packets that were dropped, because the kernel had no memory for a label.
    pub dropped: u64,
    /// Packets that went on without, because they were too long.
    pub lost: u64,
}

/// The slots of all queues, in memory that the program shares.
pub struct LabelSlots(Mapped<Slot>);

/// The loaded programs at the TUN device; dropped, they are off.
pub struct LabelPath {
    hooks: Vec<Hook>,
    slots: Arc<LabelSlots>,
    count: Mapped<Count>,
}

impl LabelPath {
    /// Loads the programs and attaches them at a TUN device with `queues` queues. Those that translate there must be attached
    /// already: what one of them translates needs no label.
    pub fn start(
        tun_ifindex: u32,
        queues: usize,
        attach: Attach,
        instance: &str,
    ) -> Result<LabelPath, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = LabelSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", &e))?;
        open.maps
            .label_slots
            .set_max_entries(queues as u32)
            .map_err(|e| failed("size the slots", &e))?;
        let loaded = open.load().map_err(|e| failed("load", &e))?;
        let map = &loaded.maps.label_slots;
        debug_assert_eq!(map.value_size() as usize, size_of::<Slot>());
        // SAFETY: elements of the array have the size of `Slot`, whose fields are atomic and take any bytes.
        let slots = unsafe { Mapped::of(map.as_fd(), queues) };
        let unmapped = |error| FastPathError::Load {
            what: format!("map the slots: {error}"),
            log: String::new(),
        };
        let map = &loaded.maps.label_count;
        debug_assert_eq!(map.value_size() as usize, size_of::<Count>());
        // SAFETY: the only element has the size of `Count`, whose fields are atomic and take any bytes.
        let count = unsafe { Mapped::of(map.as_fd(), 1) };
        let mut path = LabelPath {
            hooks: Vec::new(),
            slots: Arc::new(LabelSlots(slots.map_err(unmapped)?)),
            count: count.map_err(unmapped)?,
        };
        // What takes labels comes before what gives them.
        let programs = &loaded.progs;
        for (name, program, side) in [
            ("label_ingress", programs.label_ingress.as_fd(), Side::Front),
            (
                "label_egress",
                programs.label_egress.as_fd(),
                Side::BehindEgress,
            ),
        ] {
            let hook = Hook::attach(program, tun_ifindex, side, attach, handle(instance));
            path.hooks
                .push(hook.map_err(|source| FastPathError::Attach {
                    program: name,
                    source,
                })?);
        }
        Ok(path)
    }

    /// The slots, for whoever writes packets.
    pub fn slots(&self) -> Arc<LabelSlots> {
        self.slots.clone()
    }

    /// Since the start.
    pub fn count(&self) -> LabelCount {
        let count = self.count.at(0);
        LabelCount {
            dropped: count.dropped.load(Ordering::Relaxed),
            lost: count.lost.load(Ordering::Relaxed),
        }
    }

    pub(super) fn hooks(&self) -> impl Iterator<Item = &Hook> + Clone {
        self.hooks.iter()
    }
}

impl Drop for LabelPath {
    fn drop(&mut self) {
        let made: Vec<u32> = self.hooks.iter().filter_map(Hook::made_qdisc_on).collect();
        self.hooks.clear();
        for ifindex in made {
            qdisc::remove_unused_clsact(ifindex);
        }
    }
}

impl LabelSlots {
    /// The packet of `len` bytes that `queue` writes next, and that begins with `head` (zero beyond its end), has this mark
    /// and this priority. Only one thread may use a queue.
    pub fn set(&self, queue: usize, len: usize, head: &[u8; LABEL_HEAD], mark: u32, priority: u32) {
        let slot = self.0.at(queue);
        slot.is_set.store(0, Ordering::Relaxed);
        slot.len.store(len as u32, Ordering::Relaxed);
        slot.mark.store(mark, Ordering::Relaxed);
        slot.priority.store(priority, Ordering::Relaxed);
        for (to, bytes) in slot.head.iter().zip(head.as_chunks().0) {
            to.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        slot.is_set.store(1, Ordering::Release);
    }

    /// The packet is written.
    pub fn clear(&self, queue: usize) {
        self.0.at(queue).is_set.store(0, Ordering::Release);
    }
}

impl std::fmt::Debug for LabelPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabelPath")
            .field("hooks", &self.hooks)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LabelSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LabelSlots")
    }
}
