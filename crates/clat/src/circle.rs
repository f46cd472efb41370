// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects packets that loop through an uplink whose own packets the kernel does not identify: WireGuard, and the TUN
//! device of a program. What the CLAT sends comes back inside an IPv4 packet, and is translated and sent once more,
//! longer each time.
//!
//! many leave and nothing comes back ─► send nothing for a moment ─► does anything still come to be sent?
//!
//! A one-way stream continues during the pause, and a loop ends. Nothing else identifies wrapped packets.

use std::time::Duration;

use tokio::time::{sleep, Instant};

use super::Clat;
use diolkos_figures::counters;
use diolkos_kernel::net::LinkKind;
use diolkos_service::failure::Failure;

/// Rate, in packets a second, at which only a loop can be expected to get no answer at all.
const MANY: u64 = 200;
/// Pause for packets that are in flight when sending stops, and then the time to see whether others arrive.
const DRAIN: Duration = Duration::from_millis(100);
const LISTEN: Duration = Duration::from_millis(100);
/// A loop is assumed if fewer than 1/`SHARE` of the packets arrive that would otherwise arrive in that time.
const SHARE: u64 = 10;
/// Time until a stream that continues without answers is interrupted again.
const REST: Duration = Duration::from_secs(60);
/// Time until packets are sent again although no change is known.
const RETRY: Duration = Duration::from_secs(60);

/// What is known of packets that loop.
#[derive(Default)]
pub(super) struct Circle {
    /// Number of packets that were translated, from IPv4 and from IPv6, and when.
    before: Option<([u64; 2], Instant)>,
    /// The time before which nothing is interrupted.
    rests: Option<Instant>,
    /// The loop that was found, and until when nothing is sent.
    found: Option<(String, Instant)>,
}

impl Circle {
    /// Returns the reason why nothing is sent.
    pub(super) fn obstacle(&self) -> Option<String> {
        let (text, until) = self.found.as_ref()?;
        (Instant::now() < *until).then(|| text.clone())
    }

    /// Forgets the loop, because routes have changed.
    pub(super) fn forget(&mut self) {
        self.found = None;
    }

    /// Returns the rate of packets a second that left since the last check, if no packet came back.
    fn unanswered(&mut self, now: [u64; 2]) -> Option<u64> {
        let ([out, back], at) = self.before.replace((now, Instant::now()))?;
        let passed_ms = (at.elapsed().as_millis() as u64).max(1);
        let rate = now[0].saturating_sub(out) * 1000 / passed_ms;
        (now[1] == back && rate >= MANY).then_some(rate)
    }
}

impl Clat {
    /// Detects packets that loop, and sends nothing while they would.
    pub(super) async fn look_for_circle(&mut self) -> Result<(), Failure> {
        let uplink = &self.site.uplink;
        let Some(device) = &mut self.device else {
            return Ok(());
        };
        if uplink.kind != LinkKind::Opaque || self.ready.is_none() {
            self.circle.before = None;
            return Ok(());
        }
        let now = counters::translated(device.fast.as_deref(), &device.slow.tallies);
        let rests = self
            .circle
            .rests
            .is_some_and(|until| Instant::now() < until);
        let Some(rate) = self.circle.unanswered(now).filter(|_| !rests) else {
            return Ok(());
        };
        device.send(uplink, false);
        sleep(DRAIN).await;
        let (came, since) = (counters::unroutable(&device.slow.tallies), Instant::now());
        sleep(LISTEN).await;
        let came = counters::unroutable(&device.slow.tallies) - came;
        let expected = rate * since.elapsed().as_millis() as u64 / 1000;
        match came * SHARE < expected {
            true => {
                let (name, device) = (&uplink.name, &self.site.settings.translator.device);
                let text = format!(
                    "what is sent through {name} comes back to be sent again ({rate} packets a second, and none while nothing \
                     was sent): give the remote end of {name} a route that does not lead to {device}"
                );
                self.circle.found = Some((text, Instant::now() + RETRY));
            }
            false => self.circle.rests = Some(Instant::now() + REST),
        }
        self.ask_for_way().await
    }
}
