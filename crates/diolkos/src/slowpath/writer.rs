// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends what a translator originates, through a queue of the TUN device.

use std::time::Instant;

use diolkos_core::config::nat64::Gateway;
use diolkos_core::{Label, Offload, Outbox, Reason};
use diolkos_sys::vnet::LEN as VNET;

use super::label::Outlet;
use super::offload;
use crate::counters::Tally;
use crate::events::{Events, Line};

/// For one packet, or for one round of the sweeper. It keeps what it is given until [`Writer::send`]. The caller counts
/// what became of the packet first, so the counters know the cause of an ICMP error before the error is sent.
pub struct Writer<'a> {
    outlet: &'a Outlet,
    tally: &'a Tally,
    events: &'a mut Events,
    /// With their offload headers, in the order in which they leave.
    waiting: Vec<(Vec<u8>, Label)>,
    /// For other gateways, as they came.
    elsewhere: Vec<Forwarded>,
}

/// A packet that was given to [`Outbox::forward`].
pub type Forwarded = (Gateway, Vec<u8>, Offload);

impl<'a> Writer<'a> {
    /// Counts in `tally` what it sends; `events` is what was said lately about drops.
    pub fn new(outlet: &'a Outlet, tally: &'a Tally, events: &'a mut Events) -> Writer<'a> {
        Writer {
            outlet,
            tally,
            events,
            waiting: Vec::new(),
            elsewhere: Vec::new(),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What belongs to other gateways, in the order in which it came. Whoever has a way there sends it.
    pub fn take_forwarded(&mut self) -> Vec<Forwarded> {
        std::mem::take(&mut self.elsewhere)
    }

    /// Sends what waits. All of it counts as originated, and what the kernel does not take as not written, too.
    pub fn send(&mut self) {
        for (packet, label) in self.waiting.drain(..) {
            self.tally.emitted();
            if self.outlet.write(&packet, label).is_err() {
                self.tally.unwritten();
            }
        }
    }
}

impl Outbox for Writer<'_> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        let mut bytes = Vec::with_capacity(VNET + packet.len());
        bytes.extend(offload::write(offload, false, packet));
        bytes.extend(packet);
        self.waiting.push((bytes, offload.label));
    }

    fn forward(&mut self, to: Gateway, packet: &[u8], offload: Offload) {
        self.elsewhere.push((to, packet.to_vec(), offload));
    }

    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        match self.events.line(reason, packet, Instant::now()) {
            Some(Line::Debug(line)) => tracing::debug!("{line}"),
            Some(Line::Warn(line)) => tracing::warn!("{line}"),
            None => {}
        }
    }
}
