// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that preserve a packet's mark and priority across the slow path and send packets of the slow path to
//! other gateways of a cluster (`bpf/label.bpf.c`), and the slots beside the queues of the TUN device.
//!
//! Order of use: load, attach, then set the slot of a queue while a packet is written.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::MapCore;

use super::load::{failed, listen, no_data};
use super::{handle, qdisc, Attach, FastPathError, Forwarding, Hook, Owner, Side};
use crate::skel::label::LabelSkelBuilder;
use diolkos_sys::mapped::Mapped;

/// The program identifies a packet by its length and this many of its first bytes (`DIOLKOS_LABEL_HEAD`).
pub const LABEL_HEAD: usize = 48;

/// `struct diolkos_label_slot` of `bpf/label.h`.
#[repr(C)]
struct Slot {
    state: AtomicU32,
    len: AtomicU32,
    mark: AtomicU32,
    priority: AtomicU32,
    head: [AtomicU64; LABEL_HEAD / 8],
}

const _: () = assert!(size_of::<Slot>() == 64);
diolkos_sys::shared!(Slot {
    state,
    len,
    mark,
    priority,
    head
});

/// `DIOLKOS_SLOT_SET`: a packet is being written.
const SET: u32 = 1;

/// `struct diolkos_label_count` of `bpf/label.h`.
#[repr(C)]
struct Count {
    dropped: AtomicU64,
    lost: AtomicU64,
    forged: AtomicU64,
    no_way: AtomicU64,
}

diolkos_sys::shared!(Count {
    dropped,
    lost,
    forged,
    no_way
});

/// Counters of packets to and from the slow path, and of labels that could not be attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelCount {
    /// Packets dropped because the kernel had no memory for a label, or for the frame to another gateway.
    pub dropped: u64,
    /// Packets passed without a label because they were too long.
    pub lost: u64,
    /// Packets dropped because they began like a label ([`super::ForwardCount::forged`] in a cluster).
    pub forged: u64,
    /// Packets for another gateway that were dropped because it was unreachable.
    pub no_way: u64,
}

/// The metadata of a packet that the slow path writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slip {
    /// Length of the packet in bytes.
    pub len: usize,
    /// Its first bytes, padded with zeros.
    pub head: [u8; LABEL_HEAD],
    /// Its mark (SO_MARK).
    pub mark: u32,
    /// Its priority (SO_PRIORITY).
    pub priority: u32,
    /// The destination gateway, and the original value of the byte that was spoilt ([`SPOILT_V6`], [`SPOILT_V4`]),
    /// which the program restores. None: the kernel routes the packet.
    pub gateway: Option<(Owner, u8)>,
}

/// Offset of the spoilt byte of an IPv6 packet for another gateway: the first byte of its source. The value 0xff makes
/// the source a multicast address, so that the kernel drops the packet (RFC 4291 section 2.7) unless the program finds
/// it in its slot.
pub const SPOILT_V6: usize = 8;
/// Offset of the spoilt byte of an IPv4 packet: the last byte of the header checksum, which must be wrong.
pub const SPOILT_V4: usize = 11;

/// The slots of all queues, in memory shared with the program.
pub struct LabelSlots {
    slots: Mapped<Slot>,
    leads: bool,
}

/// The loaded programs at the TUN device. They are detached on drop.
pub struct LabelPath {
    hooks: Vec<Hook>,
    slots: Arc<LabelSlots>,
    count: Mapped<Count>,
}

impl LabelPath {
    /// Loads the programs and attaches them at a TUN device with `queues` queues. The translating programs must already
    /// be attached there, because packets translated by them need no label. [`super::ForwardPath`] must be attached
    /// too: `forwarding` has the ways to its gateways, which the slow path uses as well.
    pub fn start(
        tun_ifindex: u32,
        queues: usize,
        forwarding: Option<&Forwarding>,
        attach: Attach,
        instance: &str,
    ) -> Result<LabelPath, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = LabelSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        open.maps
            .label_slots
            .set_max_entries(queues as u32)
            .map_err(|e| failed("size the slots", e))?;
        match forwarding {
            Some(forwarding) => open.maps.gateways.reuse_fd(forwarding.gateways.as_fd()),
            None => open.maps.gateways.set_max_entries(1),
        }
        .map_err(|e| failed("share the ways to gateways", e))?;
        let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
        data.is_behind_forward = forwarding.is_some().into();
        let loaded = open.load().map_err(|e| failed("load", e))?;
        let map = &loaded.maps.label_slots;
        debug_assert_eq!(map.value_size() as usize, size_of::<Slot>());
        let slots = Mapped::of(map.as_fd(), queues);
        let unmapped = |e| FastPathError::map("map the slots", e);
        let map = &loaded.maps.label_count;
        debug_assert_eq!(map.value_size() as usize, size_of::<Count>());
        let count = Mapped::of(map.as_fd(), 1);
        let mut path = LabelPath {
            hooks: Vec::new(),
            slots: Arc::new(LabelSlots {
                slots: slots.map_err(unmapped)?,
                leads: forwarding.is_some(),
            }),
            count: count.map_err(unmapped)?,
        };
        // The program that removes labels is attached before the one that adds them.
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

    /// The slots, for threads that write packets.
    pub fn slots(&self) -> Arc<LabelSlots> {
        self.slots.clone()
    }

    /// The counters since the start.
    pub fn count(&self) -> LabelCount {
        let count = self.count.at(0);
        LabelCount {
            dropped: count.dropped.load(Ordering::Relaxed),
            lost: count.lost.load(Ordering::Relaxed),
            forged: count.forged.load(Ordering::Relaxed),
            no_way: count.no_way.load(Ordering::Relaxed),
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
    /// Slots without a program, for tests.
    #[cfg(feature = "testrun")]
    pub fn alone(queues: usize) -> std::io::Result<LabelSlots> {
        let memory = rustix::fs::memfd_create(c"slots", rustix::fs::MemfdFlags::CLOEXEC)?;
        std::fs::File::from(memory.try_clone()?).set_len((queues * size_of::<Slot>()) as u64)?;
        let slots = Mapped::of(memory.as_fd(), queues)?;
        Ok(LabelSlots { slots, leads: true })
    }

    /// Announces the next packet that `queue` writes. Only one thread may use a queue.
    pub fn set(&self, queue: usize, slip: &Slip) {
        let slot = self.slots.at(queue);
        slot.state.store(0, Ordering::Relaxed);
        slot.len.store(slip.len as u32, Ordering::Relaxed);
        slot.mark.store(slip.mark, Ordering::Relaxed);
        slot.priority.store(slip.priority, Ordering::Relaxed);
        for (to, bytes) in slot.head.iter().zip(slip.head.as_chunks().0) {
            to.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let way = slip.gateway.map_or(0, |(owner, right)| {
            u32::from(owner.byte()) << 8 | u32::from(right) << 16
        });
        slot.state.store(SET | way, Ordering::Release);
    }

    /// Ends the announcement after the packet was written. Returns false if the program has not seen the packet: it
    /// then has neither mark nor priority, and reaches no gateway.
    pub fn clear(&self, queue: usize) -> bool {
        self.slots.at(queue).state.swap(0, Ordering::AcqRel) == 0
    }

    /// Returns true if packets can be sent to other gateways.
    pub fn lead_to_gateways(&self) -> bool {
        self.leads
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
