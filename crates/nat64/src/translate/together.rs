// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments that have waited: those behind their first one (`release`), and packets that are whole now (`gather`,
//! `begin_anew`).

use super::fragment::{Gathered, Held, Key};
use super::{Nat64, Random};
use crate::session::Watcher;
use diolkos_xlat::packet::{Offload, Outbox, Packet, HEADROOM};
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::translate::Refusal;
use diolkos_xlat::verdict::{Reason, Verdict};
use std::time::Duration;

/// What a fragment brings besides itself.
pub(super) enum Fragmented {
    /// It is the first: the packet that it is of, and the ports.
    First(Key, Numbers),
    /// It was the last to come, and this is the packet, and what it was put together from.
    Whole(Held, Vec<Held>),
}

/// Fragments had to go before the first of their packet came.
pub(super) fn note_lost(lost: usize, watcher: &mut impl Watcher) {
    (0..lost).for_each(|_| watcher.dropped(Reason::FragmentLimit));
}

impl Nat64 {
    /// A first fragment has come, with this verdict: what had to wait for it goes the same way,
    /// behind it.
    #[cold]
    pub(super) fn release(
        &mut self,
        verdict: Verdict,
        first: &Packet<'_>,
        held: Vec<Held>,
        env: &mut impl Random,
        out: &mut impl Outbox,
        watcher: &mut impl Watcher,
    ) -> Verdict {
        match verdict {
            Verdict::Forward => out.emit(first.bytes(), first.offload),
            Verdict::Emitted => {}
            // It keeps its place before the others, each of which finds the same way.
            Verdict::Elsewhere(gateway) => out.forward(gateway, first.bytes(), first.offload),
            // A SYN that nobody has asked for is kept; what belongs to it is not.
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
            match self.begin_anew(&fragment, pieces, (env, out, watcher)) {
                Verdict::Forward | Verdict::Emitted | Verdict::Held | Verdict::Elsewhere(_) => {}
                Verdict::Drop(reason) => watcher.dropped(reason),
            }
        }
        Verdict::Emitted
    }

    /// A packet that was kept, or has been put together from pieces, takes its way. What becomes of it has left; if it belongs to another gateway, the
    /// pieces have, as they came.
    #[cold]
    pub(super) fn begin_anew(
        &mut self,
        held: &Held,
        pieces: &[Held],
        (env, out, watcher): (&mut impl Random, &mut impl Outbox, &mut impl Watcher),
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
            for Held { bytes, label } in pieces {
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

    /// A fragment that cannot be translated without the others of its packet waits for them; the last one to come brings the
    /// packet into `first`.
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
