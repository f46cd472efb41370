// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slow path: read from the TUN device into a slot → translate in place → depart, joined with others of the flow.
//!
//! One thread serves each queue. The kernel keeps a flow on one queue and each thread writes where it reads, so no flow
//! is reordered. The only copies of a packet are those that the kernel makes on its way in and out.

mod clock;
mod coalesce;
pub mod join;
pub mod label;
pub mod offload;
mod onward;
mod slots;
mod ways;
mod writer;

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;

use diolkos_fastpath::LabelSlots;
use diolkos_nat64::session::Holding;
use diolkos_nat64::Nat64Trace;
use diolkos_sys::event::{Bell, Wake};
use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::{self, LEN as VNET};
use diolkos_xlat::{Offload, Packet, Reason, Translator, Verdict, HEADROOM};

use crate::error::DatapathError;
use crate::events::Events;
use diolkos_figures::counters::{Direction, QueueCounters};
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;
use diolkos_service::watchdog::Heartbeat;

pub use clock::Clock;
use coalesce::{Coalescer, Endpoint};
pub use label::Outlet;
use onward::Onward;
use slots::{BufferPlace, Slots};
pub use ways::Ways;
pub use writer::Writer;

/// The translator behind the readers. All of them use it concurrently.
pub trait Engine: Send + Sync {
    /// Translates one packet; see [`Translator::translate`].
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict;

    /// Prepares a packet for the way to another gateway, which takes `mtu` bytes; see [`diolkos_nat64::Nat64::onward`].
    fn onward(
        &self,
        _packet: &mut Packet<'_>,
        _mtu: usize,
        _env: &mut Clock,
        _out: &mut Writer<'_>,
        _send: &mut dyn FnMut(&[u8], Offload),
    ) -> Verdict {
        Verdict::Drop(Reason::Elsewhere)
    }

    /// Returns what would happen to a packet; see [`Translator::trace`]. None if that is unknown.
    fn trace(&self, _packet: &[u8], _env: &mut Clock) -> Option<Nat64Trace> {
        None
    }

    /// Returns what the prefixes hold that contain a node, if that is counted.
    fn holdings_of(&self, _node: Ipv6Addr) -> Vec<Holding> {
        Vec::new()
    }
}

impl Engine for Translator {
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        Translator::translate(self, packet, env, out)
    }

    fn trace(&self, packet: &[u8], env: &mut Clock) -> Option<Nat64Trace> {
        Some(Translator::trace(self, packet, env).into())
    }
}

/// Room in front of a packet: the greatest growth of its headers, and the offload header.
const FRONT: usize = HEADROOM + VNET;
/// The longest packet: 64 KiB of payload behind an IPv6 header (RFC 8200), rounded up.
const LONGEST: usize = 65536 + 64;
/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// For the lock, which is held only while an engine is replaced.
const WHOLE: &str = "nothing panics while an engine is replaced";

/// Returns the number of readers for a device with the setting `queues`; 0: one for each CPU, at most 4.
pub fn readers(queues: usize) -> usize {
    match queues {
        0 => std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(4),
        n => n,
    }
}

/// The running threads. They end when this is dropped.
pub struct SlowPath {
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<()>>,
    /// The counters of each thread.
    pub tallies: Vec<Arc<QueueCounters>>,
    /// The engine of all of them; replaced as a whole.
    engine: Arc<RwLock<Arc<dyn Engine>>>,
    /// The ways to other gateways of a cluster: none until they are set.
    pub ways: Arc<Ways>,
}

impl SlowPath {
    /// Starts one thread for each queue of the device. The watch is notified if one ends by itself: the device is gone,
    /// or a part of the flows has no reader. Without slots for labels, marks and priorities end here.
    pub fn start(
        device: &str,
        queues: Vec<Queue>,
        labels: Option<Arc<LabelSlots>>,
        engine: Arc<dyn Engine>,
        watch: &Watch,
    ) -> Result<SlowPath, DatapathError> {
        let unstarted = |source| DatapathError::Readers {
            device: device.to_owned(),
            source,
        };
        let bell = Arc::new(Bell::new().map_err(unstarted)?);
        let engine = Arc::new(RwLock::new(engine));
        let mut slow = SlowPath {
            bell,
            threads: Vec::new(),
            tallies: Vec::new(),
            engine,
            ways: Arc::default(),
        };

        for (i, queue) in queues.into_iter().enumerate() {
            let tally = Arc::new(QueueCounters::default());
            let slot = labels.clone().map(|slots| (slots, i));
            let mut reader = QueueReader {
                outlet: Arc::new(Outlet::new(queue, slot)),
                bell: slow.bell.clone(),
                engine: slow.engine.clone(),
                tally: tally.clone(),
                events: Events::default(),
                env: Clock::new(),
                slots: Slots::new(),
                coalescer: Coalescer::default(),
                ways: slow.ways.clone(),
                beat: watch.beat(format!("tun-{i}")),
            };
            slow.tallies.push(tally);
            let device = device.to_owned();
            let read = move || {
                reader.run().map_err(|source| {
                    tracing::debug!("queue {i} of the TUN device failed: {source}");
                    DatapathError::TunGone { device, source }.into()
                })
            };
            let name = format!("tun-{i}");
            let thread = watch.thread_with(privilege::TABLES, name, read);
            slow.threads.push(thread.map_err(unstarted)?);
        }
        Ok(slow)
    }

    /// Returns the current engine.
    pub fn engine(&self) -> Arc<dyn Engine> {
        self.engine.read().expect(WHOLE).clone()
    }

    /// Has another engine translate every packet that is read from now on.
    pub fn swap(&self, engine: Arc<dyn Engine>) {
        *self.engine.write().expect(WHOLE) = engine;
    }
}

impl SlowPath {
    /// Ends the threads, and with them the slow path.
    pub fn stop(&mut self) {
        self.bell.ring();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for SlowPath {
    fn drop(&mut self) {
        self.stop();
    }
}

struct QueueReader {
    outlet: Arc<Outlet>,
    bell: Arc<Bell>,
    engine: Arc<RwLock<Arc<dyn Engine>>>,
    tally: Arc<QueueCounters>,
    events: Events,
    env: Clock,
    slots: Slots,
    coalescer: Coalescer,
    ways: Arc<Ways>,
    beat: Heartbeat,
}

impl QueueReader {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.beat.beat();
            if self.slots.are_full() {
                self.depart();
            }
            match self.slots.read(self.outlet.queue()) {
                Ok((place, len)) if len >= VNET => self.packet(place, len - VNET),
                Ok((place, _)) => self.slots.free(place),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.depart();
                    let most = self.beat.every();
                    if self.bell.wait_readable(self.outlet.queue().as_fd(), most)? == Wake::Bell {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends all waiting packets.
    fn depart(&mut self) {
        self.coalescer.send_all(&mut Endpoint {
            slots: &mut self.slots,
            outlet: &self.outlet,
            tally: &self.tally,
        });
    }

    fn packet(&mut self, place: BufferPlace, len: usize) {
        self.coalescer.read_one(&mut Endpoint {
            slots: &mut self.slots,
            outlet: &self.outlet,
            tally: &self.tally,
        });
        let buffer = self.slots.buffer(place);
        let mut front = [0; VNET];
        front.copy_from_slice(&buffer[FRONT - VNET..FRONT]);
        let (label, skipped) = self.outlet.label(&buffer[FRONT..FRONT + len]);
        let (start, end) = (FRONT + skipped, FRONT + len);
        let front = vnet::without_front(&front, skipped as u16);
        let received = front.and_then(|front| offload::read(&front, &mut buffer[start..end]));
        let Some(mut received) = received else {
            self.tally.dropped(Reason::OffloadMismatch);
            self.slots.free(place);
            return;
        };
        received.offload.label = label;
        let len = len - skipped;
        if is_of_the_link(&buffer[start..end]) {
            self.slots.free(place);
            return;
        }
        let direction = match buffer[start..end].first().map(|byte| byte >> 4) {
            Some(4) => Direction::FourToSix,
            _ => Direction::SixToFour,
        };
        let is_error6 = is_error6(&buffer[start..end]);
        let answers_question = answers_question(&buffer[start..end]);
        let engine = self.engine.read().expect(WHOLE).clone();

        let mut packet = Packet::new(buffer, start, end, received.offload);
        let mut out = Writer::new(&self.outlet, &self.tally, &mut self.events);
        let verdict = engine.translate(&mut packet, &mut self.env, &mut out);
        match verdict {
            Verdict::Forward | Verdict::Emitted => {
                self.tally.translated(direction, len);
                if is_error6 {
                    self.tally.error6();
                }
                if answers_question {
                    self.tally.question_answered();
                }
            }
            Verdict::Held => self.tally.held(),
            // It is counted below.
            Verdict::Elsewhere(_) => {}
            Verdict::Drop(reason) => {
                self.tally.dropped(reason);
                if reason == Reason::HopLimit {
                    // It is refused before anything of it is changed.
                    self.tally.expired(packet.bytes());
                }
                tracing::trace!(reason = reason.name(), len, "dropped");
            }
        }
        let onward = Onward {
            outlet: &self.outlet,
            ways: &self.ways,
            tally: &self.tally,
            engine: &*engine,
        };
        for (to, mut bytes, offload) in out.take_forwarded() {
            let end = bytes.len();
            let mut packet = Packet::new(&mut bytes, 0, end, offload);
            onward.send(to, &mut packet, false, &mut self.env, &mut out);
        }
        if let Verdict::Elsewhere(to) = verdict {
            onward.send(to, &mut packet, received.ecn, &mut self.env, &mut out);
        }
        let (range, mut offload) = (packet.range(), packet.offload);
        // Packets that leave here no longer belong to another gateway, and may leave together with those that never
        // did.
        offload.label.link = 0;
        let mut endpoint = Endpoint {
            slots: &mut self.slots,
            outlet: &self.outlet,
            tally: &self.tally,
        };
        if !out.is_empty() {
            // It may belong to a flow with waiting packets.
            self.coalescer.send_all(&mut endpoint);
            out.send();
        }
        match verdict {
            Verdict::Forward => {
                self.coalescer
                    .send(&mut endpoint, place, range, offload, &received);
            }
            _ => endpoint.slots.free(place),
        }
    }
}

/// Returns true if it is an ICMPv6 error without extension headers before it (RFC 4443 section 2.1).
fn is_error6(packet: &[u8]) -> bool {
    const ICMPV6: u8 = 58;
    let byte = |at: usize| packet.get(at).copied().unwrap_or_default();
    byte(0) >> 4 == 6 && byte(6) == ICMPV6 && byte(40) < 128
}

/// Destination port of a CLAT's probes of the next router: UDP Discard (RFC 863). The probes run out of hops before.
pub const QUESTION_PORT: u16 = 9;

/// Returns true if a router reports that such a probe has run out of hops there (RFC 4443 section 3.3).
fn answers_question(packet: &[u8]) -> bool {
    const TIME_EXCEEDED: u8 = 3;
    const UDP: u8 = 17;
    let byte = |at: usize| packet.get(at).copied().unwrap_or_default();
    let port = u16::from_be_bytes([byte(90), byte(91)]);
    is_error6(packet) && byte(40) == TIME_EXCEEDED && byte(54) == UDP && port == QUESTION_PORT
}

/// Returns true if this host sends a packet to its neighbours on the TUN device, where there are none: a membership
/// report for groups, a router solicitation, or a redirect of the sender of a packet. Dropping it loses nothing. The
/// kernel forwards nothing with these addresses (RFC 4291 sections 2.5.2, 2.5.6 and 2.7).
fn is_of_the_link(packet: &[u8]) -> bool {
    const IPV6_LEN: usize = 40;
    if packet.len() < IPV6_LEN || packet[0] >> 4 != 6 {
        return false;
    }
    let (src, dst) = (&packet[8..24], &packet[24..IPV6_LEN]);
    let is_link_local = src[0] == 0xfe && src[1] & 0xc0 == 0x80;
    let is_to_the_link = dst[0] == 0xff && dst[1] & 0x0f <= 2;
    is_link_local || (is_to_the_link && src.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests;
