// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries a packet's mark and priority through the TUN device, which carries only bytes (`bpf/label.bpf.c`): in front
//! of a packet that is read, and in a slot beside the queue while a packet is written. The label in front also has the
//! link by which another gateway has sent the packet, and the slot has the gateway that it should go to.
//!
//! No host can forge a label. The kernel receives nothing as IP whose version is not 4 or 6, and the programs drop
//! other packets that begin like a label. Only a process that may send any bytes by an interface of this network
//! namespace (CAP_NET_RAW) can forge one.

use std::io::{self, IoSlice};
use std::sync::{Arc, PoisonError};

use diolkos_fastpath::{LabelSlots, Owner, Slip, LABEL_HEAD, SPOILT_V4, SPOILT_V6};
use diolkos_service::ordered::{Ordered, Rank};
use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::LEN as VNET;
use diolkos_xlat::Label;

/// The first bytes of a label (`DIOLKOS_LABEL_MAGIC`): they have the version of no IP packet.
const MAGIC: [u8; 4] = [0xd1, 0x01, 0xc0, 0x5e];
/// The same for a packet from another gateway (`DIOLKOS_LABEL_FORWARDED`).
const FORWARDED: [u8; 4] = [0xd1, 0x01, 0xc0, 0x5f];

/// Returns the label in front of a packet, if there is one, and its length in bytes.
pub fn read(bytes: &[u8]) -> Option<(Label, usize)> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().copied();
    let number = |at| word(at).map(u32::from_ne_bytes);
    let (link, len) = match word(0)? {
        MAGIC => (0, 12),
        FORWARDED => (number(12)?, 16),
        _ => return None,
    };
    let label = Label {
        mark: number(4)?,
        priority: number(8)?,
        link,
    };
    Some((label, len))
}

/// A queue of the device by which packets leave, and the slot beside it.
#[derive(Debug)]
pub struct Outlet {
    queue: Queue,
    slot: Option<Slot>,
    /// Serializes the use of the slot by the queue's reader and a thread that sends deferred packets.
    turn: Ordered<()>,
}

/// The slots of the device's queues, and the index of this one.
pub type Slot = (Arc<LabelSlots>, usize);

impl Outlet {
    /// Creates an outlet. Without a slot, labels end here.
    pub fn new(queue: Queue, slot: Option<Slot>) -> Outlet {
        Outlet {
            queue,
            slot,
            turn: Ordered::new(Rank::Outlet, ()),
        }
    }

    /// Returns true if packets can be sent to other gateways.
    pub fn leads(&self) -> bool {
        let slots = self.slot.as_ref();
        slots.is_some_and(|(slots, _)| slots.lead_to_gateways())
    }

    /// Returns the label in front of a packet that was read, and its length. Where no program adds labels, bytes that
    /// look like one are not a label.
    pub fn label(&self, bytes: &[u8]) -> (Label, usize) {
        let label = self.slot.as_ref().and_then(|_| read(bytes));
        label.unwrap_or_default()
    }

    /// Returns the queue to read from.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Writes one packet, with its offload header in front.
    pub fn write(&self, packet: &[u8], label: Label) -> io::Result<()> {
        self.beside(&[IoSlice::new(packet)], label, || self.queue.write(packet))
    }

    /// Writes one packet in several pieces of memory, with the offload header in front of all.
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>], label: Label) -> io::Result<()> {
        self.beside(pieces, label, || self.queue.write_vectored(pieces))
    }

    /// Writes one packet to another gateway, with the offload header `front`. Returns false if it did not meet its
    /// slot, so that the kernel has dropped it.
    ///
    /// The kernel would route it back to this device. So it is written with one byte that makes the kernel drop it,
    /// unless the program at the device has replaced that byte by the right one.
    pub fn lead(
        &self,
        to: Owner,
        front: &[u8; VNET],
        packet: &[u8],
        label: Label,
    ) -> io::Result<bool> {
        let (Some((slots, at)), Some((head, right))) = (&self.slot, spoilt(packet)) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let pieces = [front, &head[..], &packet[head.len()..]].map(IoSlice::new);
        let slip = slip(&pieces, label, Some((to, right)));
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        slots.set(*at, &slip);
        let written = self.queue.write_vectored(&pieces);
        let is_met = slots.clear(*at);
        written.map(|()| is_met)
    }

    /// Keeps the label in the slot while the packet is written.
    fn beside(
        &self,
        pieces: &[IoSlice<'_>],
        label: Label,
        write: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let is_plain = (label.mark, label.priority) == (0, 0);
        let Some((slots, at)) = self.slot.as_ref().filter(|_| !is_plain) else {
            return write();
        };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        slots.set(*at, &slip(pieces, label, None));
        let written = write();
        slots.clear(*at);
        written
    }
}

/// Returns the first bytes of a packet that the kernel drops, and the right value of the wrong byte. None if the packet
/// is too short for an IP header.
fn spoilt(packet: &[u8]) -> Option<([u8; 20], u8)> {
    let mut head = *packet.first_chunk()?;
    let (at, wrong) = match head[0] >> 4 {
        4 => (SPOILT_V4, !head[SPOILT_V4]),
        _ => (SPOILT_V6, 0xff),
    };
    let right = std::mem::replace(&mut head[at], wrong);
    Some((head, right))
}

/// Returns the content of the slot for a packet behind its offload header.
fn slip(pieces: &[IoSlice<'_>], label: Label, gateway: Option<(Owner, u8)>) -> Slip {
    let (len, head) = known_by(pieces);
    Slip {
        len,
        head,
        mark: label.mark,
        priority: label.priority,
        gateway,
    }
}

/// Returns the length and the first bytes of a packet behind its offload header.
fn known_by(pieces: &[IoSlice<'_>]) -> (usize, [u8; LABEL_HEAD]) {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut head = [0; LABEL_HEAD];
    let bytes = pieces.iter().flat_map(|piece| piece.iter()).skip(VNET);
    for (to, byte) in head.iter_mut().zip(bytes) {
        *to = *byte;
    }
    (len.saturating_sub(VNET), head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_and_nothing_else_is_one() {
        let mut packet = MAGIC.to_vec();
        packet.extend(51_820u32.to_ne_bytes());
        packet.extend(6u32.to_ne_bytes());
        packet.extend([0x45, 0, 0, 20]);
        let label = Label {
            mark: 51_820,
            priority: 6,
            link: 0,
        };
        assert_eq!(read(&packet), Some((label, 12)));
        for len in 0..12 {
            assert_eq!(read(&packet[..len]), None, "{len}");
        }
        // No IP packet is taken for one, whatever follows its first byte.
        for version in [4, 6] {
            packet[0] = version << 4 | 1;
            assert_eq!(read(&packet), None);
        }
        packet[..4].copy_from_slice(&[0xd1, 0x01, 0xc0, 0x60]);
        assert_eq!(read(&packet), None);
    }

    #[test]
    fn the_label_of_another_gateways_packet_names_the_link() {
        let mut packet = FORWARDED.to_vec();
        for number in [51_820u32, 6, 7] {
            packet.extend(number.to_ne_bytes());
        }
        packet.extend([0x45, 0, 0, 20]);
        let label = Label {
            mark: 51_820,
            priority: 6,
            link: 7,
        };
        assert_eq!(read(&packet), Some((label, 16)));
        for len in 0..16 {
            assert_eq!(read(&packet[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_packet_is_known_by_its_beginning_wherever_it_lies() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut head = [0; LABEL_HEAD];
        head.copy_from_slice(&bytes[VNET..VNET + LABEL_HEAD]);
        for cut in [0, VNET, VNET + 1, 30, VNET + LABEL_HEAD, 99] {
            let pieces = [&bytes[..cut], &bytes[cut..]].map(IoSlice::new);
            assert_eq!(known_by(&pieces), (100 - VNET, head), "{cut}");
        }
        let short = [IoSlice::new(&bytes[..VNET + 20])];
        head[20..].fill(0);
        assert_eq!(known_by(&short), (20, head));
    }
}
