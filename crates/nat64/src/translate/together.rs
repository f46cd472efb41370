// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Continues with fragments that have waited: those behind their first fragment (`release`), and reassembled packets
//! (`gather`, `begin_anew`).

use super::fragment::{Gathered, HeldPacket, Key};
use super::{Nat64, Random};
use crate::session::Watcher;
use diolkos_xlat::packet::{Offload, Outbox, Packet, HEADROOM};
use diolkos_xlat::refusal::Refusal;
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::verdict::{Reason, Verdict};
use std::time::Duration;

/// The role of a fragment for its packet.
pub(super) enum Fragmented {
    /// The first fragment: the key and ports of its packet.
    First(Key, Numbers),
    /// The last missing fragment: the reassembled packet, and its fragments.
    Whole(HeldPacket, Vec<HeldPacket>),
}

/// Reports fragments that were evicted before the first fragment of their packet arrived.
pub(super) fn note_lost(lost: usize, watcher: &mut impl Watcher) {
    (0..lost).for_each(|_| watcher.dropped(Reason::FragmentLimit));
}

impl Nat64 {
    /// Handles the verdict on a first fragment: the fragments that waited for it follow it in the same way.
    #[cold]
    pub(super) fn release(
        &mut self,
        verdict: Verdict,
        first: &Packet<'_>,
        held: Vec<HeldPacket>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
    ) -> Verdict {
        match verdict {
            Verdict::Forward => out.emit(first.bytes(), first.offload),
            Verdict::Emitted => {}
            // It is sent before the others, each of which gets the same verdict.
            Verdict::Elsewhere(gateway) => out.forward(gateway, first.bytes(), first.offload),
            // An unsolicited SYN is held, but not its other fragments.
            Verdict::Held => {
                held.iter()
                    .for_each(|_| watcher.dropped(Reason::SynUnanswered));
                return verdict;
            }
            Verdict::Drop(reason) => {
                held.iter().for_each(|_| watcher.dropped(reason));
                return verdict;
            }
        }
        for fragment in held {
            let pieces = std::slice::from_ref(&fragment);
            match self.begin_anew(&fragment, pieces, env, out, watcher) {
                Verdict::Forward | Verdict::Emitted | Verdict::Held | Verdict::Elsewhere(_) => {}
                Verdict::Drop(reason) => watcher.dropped(reason),
            }
        }
        Verdict::Emitted
    }

    /// Translates a held or reassembled packet from the start. The resulting packets have been sent; if the packet
    /// belongs to another gateway, its fragments are forwarded as they arrived.
    #[cold]
    pub(super) fn begin_anew(
        &mut self,
        held: &HeldPacket,
        pieces: &[HeldPacket],
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
    ) -> Verdict {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&held.bytes);
        let end = buffer.len();
        let offload = Offload {
            label: held.label,
            ..Offload::default()
        };
        let mut packet = Packet::new(&mut buffer, HEADROOM, end, offload);
        let verdict = self.translate(&mut packet, env, out, watcher);
        if let Verdict::Elsewhere(gateway) = verdict {
            for HeldPacket { bytes, label } in pieces {
                let label = *label;
                let offload = Offload {
                    label,
                    ..Offload::default()
                };
                out.forward(gateway, bytes, offload);
            }
            return Verdict::Emitted;
        }
        if verdict != Verdict::Forward {
            return verdict;
        }
        out.emit(packet.bytes(), packet.offload);
        Verdict::Emitted
    }

    /// Holds a fragment that cannot be translated without the rest of its packet. The last missing fragment sets
    /// `first` to the packet.
    #[cold]
    pub(super) fn gather(
        &mut self,
        key: Key,
        packet: &Packet<'_>,
        now: Duration,
        watcher: &mut impl Watcher,
        first: &mut Option<Fragmented>,
    ) -> Result<Verdict, Refusal> {
        match self.fragments.gather(key, packet, now)? {
            Gathered::Waits { lost } => {
                note_lost(lost, watcher);
            }
            Gathered::Whole {
                packet,
                pieces,
                lost,
            } => {
                note_lost(lost, watcher);
                *first = Some(Fragmented::Whole(packet, pieces));
            }
            Gathered::Spoilt {
                reason,
                refused,
                lost,
            } => {
                note_lost(lost, watcher);
                (0..refused).for_each(|_| watcher.dropped(reason));
                return Err(reason.into());
            }
        }
        Ok(Verdict::Held)
    }
}
