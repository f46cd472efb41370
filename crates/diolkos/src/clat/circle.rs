// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that go round through an uplink whose own packets the kernel does not tell: WireGuard, and the TUN device of a
//! program. What the CLAT sends comes back inside an IPv4 packet, is translated and sent once more, and longer each time.
//!
//! many leave and nothing comes back ─► send nothing for a moment ─► does anything still come to be sent?
//!
//! A one-way stream goes on then, and what goes round is over. Wrapped packets have nothing else that tells them.

use std::time::Duration;

use tokio::time::{sleep, Instant};

use super::Clat;
use diolkos_figures::counters;
use diolkos_kernel::net::LinkKind;
use diolkos_service::failure::Failure;

/// Packets a second, from which on nothing but a circle may be expected to get no answer at all.
const MANY: u64 = 200;
/// For packets that are on their way when sending stops, and then to see whether others come.
const DRAIN: Duration = Duration::from_millis(100);
const LISTEN: Duration = Duration::from_millis(100);
/// Fewer than one in so many, of those that would come by then: they have gone round.
const SHARE: u64 = 10;
/// Until a stream that goes on without answers is interrupted again.
const REST: Duration = Duration::from_secs(60);
/// Until packets are sent again although nothing is known to have changed.
const RETRY: Duration = Duration::from_secs(60);

/// What is known of packets that go round.
#[derive(Default)]
pub(super) struct Circle {
    /// Packets that were translated, from IPv4 and from IPv6, and when.
    before: Option<([u64; 2], Instant)>,
    /// Nothing is interrupted before.
    rests: Option<Instant>,
    /// They do, and until when nothing is sent.
    found: Option<(String, Instant)>,
}

impl Circle {
    /// Why nothing is sent.
    pub(super) fn obstacle(&self) -> Option<String> {
        let (text, until) = self.found.as_ref()?;
        (Instant::now() < *until).then(|| text.clone())
    }

    /// Routes have changed: it may be over.
    pub(super) fn forget(&mut self) {
        self.found = None;
    }

    /// Packets a second that left since the last look, if nothing came.
    fn unanswered(&mut self, now: [u64; 2]) -> Option<u64> {
        let ([out, back], at) = self.before.replace((now, Instant::now()))?;
        let passed_ms = (at.elapsed().as_millis() as u64).max(1);
        let rate = now[0].saturating_sub(out) * 1000 / passed_ms;
        (now[1] == back && rate >= MANY).then_some(rate)
    }
}

impl Clat {
    /// Looks for packets that go round, and sends nothing while they would.
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
