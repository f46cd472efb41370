// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends the packets that a translator originates, through a queue of the TUN device.

use std::sync::Arc;
use std::time::Instant;

use diolkos_nat64::config::Gateway;
use diolkos_sys::vnet::LEN as VNET;
use diolkos_xlat::{ClampedMss, Label, Offload, Outbox, Reason};

use super::label::Outlet;
use super::offload;
use crate::events::{Events, Line};
use diolkos_figures::counters::{Direction, QueueCounters};

/// The writer for one packet, or for one round of the sweeper. It keeps what it is given until [`Writer::send`]. The
/// caller first counts the fate of the packet, so that the cause of an ICMP error is counted before the error is sent.
pub struct Writer<'a> {
    outlet: &'a Arc<Outlet>,
    tally: &'a QueueCounters,
    events: &'a mut Events,
    /// Packets with their offload headers, in the order in which they leave.
    waiting: Vec<(Vec<u8>, Label)>,
    /// Packets for other gateways, unchanged.
    elsewhere: Vec<Forwarded>,
}

/// A packet that was passed to [`Outbox::forward`].
pub type Forwarded = (Gateway, Vec<u8>, Offload);

impl<'a> Writer<'a> {
    /// Creates a writer. It counts what it sends in `tally`; `events` has the recent lines about drops.
    pub fn new(
        outlet: &'a Arc<Outlet>,
        tally: &'a QueueCounters,
        events: &'a mut Events,
    ) -> Writer<'a> {
        Writer {
            outlet,
            tally,
            events,
            waiting: Vec::new(),
            elsewhere: Vec::new(),
        }
    }

    /// Returns true if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of waiting bytes.
    pub fn bytes(&self) -> usize {
        self.waiting.iter().map(|(packet, _)| packet.len()).sum()
    }

    /// Sets the waiting packets aside, to leave later, followed by the packet itself, if it is to be forwarded.
    /// `received` is its length in bytes as received.
    pub fn set_aside(&mut self, whole: Option<(&[u8], Offload)>, received: usize) -> Aside {
        let whole = whole.map(|(packet, mut offload)| {
            // Packets that leave here no longer belong to another gateway.
            offload.label.link = 0;
            ready(packet, offload)
        });
        Aside {
            outlet: Arc::clone(self.outlet),
            parts: std::mem::take(&mut self.waiting),
            whole,
            received,
        }
    }

    /// Returns the packets that belong to other gateways, in order of arrival. The caller sends them, if there is a
    /// way.
    pub fn take_forwarded(&mut self) -> Vec<Forwarded> {
        std::mem::take(&mut self.elsewhere)
    }

    /// Sends the waiting packets. All of them count as originated; those that the kernel refuses also count as not
    /// written.
    pub fn send(&mut self) {
        for (packet, label) in self.waiting.drain(..) {
            self.tally.emitted();
            if self.outlet.write(&packet, label).is_err() {
                self.tally.unwritten();
            }
        }
    }
}

/// A translated packet, or its parts, that leave later, by the queue by which it came.
#[derive(Debug)]
pub struct Aside {
    outlet: Arc<Outlet>,
    /// Originated packets, with their offload headers.
    parts: Vec<(Vec<u8>, Label)>,
    /// The packet itself, in the same form; it leaves after them.
    whole: Option<(Vec<u8>, Label)>,
    /// Length of the packet as received, in bytes.
    received: usize,
}

impl Aside {
    /// Sends it, and counts it as a packet that has just been translated.
    pub fn send(self, tally: &QueueCounters) {
        // Only packets of the IPv6 side open bindings.
        tally.translated(Direction::SixToFour, self.received);
        self.parts.iter().for_each(|_| tally.emitted());
        for (packet, label) in self.parts.into_iter().chain(self.whole) {
            if self.outlet.write(&packet, label).is_err() {
                tally.unwritten();
            }
        }
    }
}

/// Returns a packet behind its offload header.
fn ready(packet: &[u8], offload: Offload) -> (Vec<u8>, Label) {
    let mut bytes = Vec::with_capacity(VNET + packet.len());
    bytes.extend(offload::write(offload, false, packet));
    bytes.extend(packet);
    (bytes, offload.label)
}

impl Outbox for Writer<'_> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        self.waiting.push(ready(packet, offload));
    }

    fn forward(&mut self, to: Gateway, packet: &[u8], offload: Offload) {
        self.elsewhere.push((to, packet.to_vec(), offload));
    }

    fn clamped(&mut self, _mss: ClampedMss) {
        self.tally.mss_clamped();
    }

    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        match self.events.line(reason, packet, Instant::now()) {
            Some(Line::Debug(line)) => tracing::debug!("{line}"),
            Some(Line::Warn(line)) => tracing::warn!("{line}"),
            None => {}
        }
    }
}
