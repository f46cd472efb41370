// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends what a translator originates, through a queue of the TUN device.

use std::time::Instant;

use diolkos_core::{Offload, Outbox, Reason};
use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::LEN as VNET;

use super::offload;
use crate::counters::Tally;
use crate::events::{Events, Line};

/// For one packet, or for one round of the sweeper.
pub struct Writer<'a> {
    queue: &'a Queue,
    tally: &'a Tally,
    events: &'a mut Events,
}

impl<'a> Writer<'a> {
    /// Counts in `tally` what it sends; `events` is what was said lately about drops.
    pub fn new(queue: &'a Queue, tally: &'a Tally, events: &'a mut Events) -> Writer<'a> {
        Writer {
            queue,
            tally,
            events,
        }
    }
}

impl Outbox for Writer<'_> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        let mut bytes = Vec::with_capacity(VNET + packet.len());
        bytes.extend(offload::write(offload, false, packet));
        bytes.extend(packet);
        match self.queue.write(&bytes) {
            Ok(()) => self.tally.emitted(),
            Err(_) => self.tally.unwritten(),
        }
    }

    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        match self.events.line(reason, packet, Instant::now()) {
            Some(Line::Debug(line)) => tracing::debug!("{line}"),
            Some(Line::Warn(line)) => tracing::warn!("{line}"),
            None => {}
        }
    }
}
