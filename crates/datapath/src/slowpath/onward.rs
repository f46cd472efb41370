// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends packets to other gateways of a cluster: untranslated, but with one hop less, like a router.
//!
//! packet as it came → its way (`ways`) → one hop less, fragments, or an ICMP error (the engine) → slot of the queue
//! (`label`)
//!
//! None of them waits for others of its flow.

use diolkos_fastpath::Owner;
use diolkos_nat64::config::Gateway;
use diolkos_xlat::{Offload, Outbox, Packet, Reason, Verdict};

use super::label::Outlet;
use super::offload;
use super::ways::Ways;
use super::{Clock, Engine, Writer};
use diolkos_figures::counters::QueueCounters;

/// The sender of one reader.
pub struct Onward<'a> {
    pub outlet: &'a Outlet,
    pub ways: &'a Ways,
    pub tally: &'a QueueCounters,
    pub engine: &'a dyn Engine,
}

impl Onward<'_> {
    /// Sends a packet, and counts the result. ICMP errors about it go to `out`. For `ecn` see [`offload::Received`].
    pub fn send(
        &self,
        to: Gateway,
        packet: &mut Packet<'_>,
        ecn: bool,
        env: &mut Clock,
        out: &mut Writer<'_>,
    ) {
        let verdict = match self.way(to) {
            Some((owner, mtu)) => {
                let mut send = |bytes: &[u8], offload| self.write(owner, bytes, offload, ecn);
                let verdict = self.engine.onward(packet, mtu, env, out, &mut send);
                if verdict == Verdict::Forward {
                    send(packet.bytes(), packet.offload);
                }
                verdict
            }
            None => {
                out.refused(Reason::OwnerUnreachable, packet.bytes());
                Verdict::Drop(Reason::OwnerUnreachable)
            }
        };
        if let Verdict::Drop(reason) = verdict {
            self.tally.dropped(reason);
            if reason == Reason::HopLimit {
                self.tally.expired(packet.bytes());
            }
        }
    }

    fn way(&self, to: Gateway) -> Option<(Owner, usize)> {
        let mtu = self.ways.mtu(to).filter(|_| self.outlet.leads())?;
        Some((Owner::node(to)?, mtu))
    }

    fn write(&self, to: Owner, packet: &[u8], offload: Offload, ecn: bool) {
        let front = offload::write(offload, ecn, packet);
        match self.outlet.lead(to, &front, packet, offload.label) {
            Ok(true) => self.tally.led(packet.len()),
            Ok(false) => self.tally.strayed(),
            Err(_) => self.tally.unwritten(),
        }
    }
}
