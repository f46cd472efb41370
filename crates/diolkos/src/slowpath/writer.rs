// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends what a translator originates, through a queue of the TUN device.

use std::sync::Arc;
use std::time::Instant;

use diolkos_core::config::nat64::Gateway;
use diolkos_core::{Label, Offload, Outbox, Reason};
use diolkos_sys::vnet::LEN as VNET;

use super::label::Outlet;
use super::offload;
use crate::events::{Events, Line};
use diolkos_figures::counters::{Direction, Tally};

/// For one packet, or for one round of the sweeper. It keeps what it is given until [`Writer::send`]. The caller counts
/// what became of the packet first, so the counters know the cause of an ICMP error before the error is sent.
pub struct Writer<'a> {
    outlet: &'a Arc<Outlet>,
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
    pub fn new(outlet: &'a Arc<Outlet>, tally: &'a Tally, events: &'a mut Events) -> Writer<'a> {
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

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.waiting.iter().map(|(packet, _)| packet.len()).sum()
    }

    /// What waits leaves later, and behind it the packet itself, if it is to be forwarded. `received`: its bytes, as it came.
    pub fn set_aside(&mut self, whole: Option<(&[u8], Offload)>, received: usize) -> Aside {
        let whole = whole.map(|(packet, mut offload)| {
            // What leaves is no other gateway's any more.
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

/// A translated packet, or its parts, that leave later, by the queue by which it came.
#[derive(Debug)]
pub struct Aside {
    outlet: Arc<Outlet>,
    /// Originated ones, with their offload headers.
    parts: Vec<(Vec<u8>, Label)>,
    /// The same of the packet itself, which leaves behind them.
    whole: Option<(Vec<u8>, Label)>,
    /// Bytes, as it was received.
    received: usize,
}

impl Aside {
    /// Sends it, and counts it as a packet that has just been translated.
    pub fn send(self, tally: &Tally) {
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

/// A packet behind its offload header.
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

    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        match self.events.line(reason, packet, Instant::now()) {
            Some(Line::Debug(line)) => tracing::debug!("{line}"),
            Some(Line::Warn(line)) => tracing::warn!("{line}"),
            None => {}
        }
    }
}
