// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slow path: read from the TUN device into a slot → translate in place → depart, joined with others of the flow.
//!
//! One thread for each queue. The kernel keeps a flow on one queue and each
//! thread writes where it reads, so no flow is reordered. A packet is copied
//! by the kernel on its way in and out, and by nobody else.

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

use diolkos_core::session::Holding;
use diolkos_core::{Offload, Packet, Reason, Trace, Translator, Verdict, HEADROOM};
use diolkos_sys::event::{Bell, Wake};
use diolkos_sys::fastpath::LabelSlots;
use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::{self, LEN as VNET};

use crate::events::Events;
use diolkos_figures::counters::{Direction, Tally};
use diolkos_service::failure::Failure;
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;
use diolkos_service::watchdog::Heartbeat;

pub use clock::Clock;
use coalesce::{Coalescer, Endpoint};
pub use label::Outlet;
use onward::Onward;
use slots::{Place, Slots};
pub use ways::Ways;
pub use writer::Writer;

/// What the readers obey. All of them use it at once.
pub trait Engine: Send + Sync {
    /// Translates one packet; see [`Translator::translate`].
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict;

    /// Makes a packet for another gateway ready for the way there, which takes `mtu` bytes; see [`diolkos_core::Nat64::onward`].
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

    /// What would become of a packet; see [`Translator::trace`]. None if that cannot be said.
    fn trace(&self, _packet: &[u8], _env: &mut Clock) -> Option<Trace> {
        None
    }

    /// What the prefixes have that a node is in, if anybody counts that.
    fn holdings_of(&self, _node: Ipv6Addr) -> Vec<Holding> {
        Vec::new()
    }
}

impl Engine for Translator {
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        Translator::translate(self, packet, env, out)
    }

    fn trace(&self, packet: &[u8], env: &mut Clock) -> Option<Trace> {
        Some(Translator::trace(self, packet, env))
    }
}

/// In front of a packet: the greatest growth of its headers, and the offload header.
const FRONT: usize = HEADROOM + VNET;
/// The longest packet: 64 KiB of payload behind an IPv6 header (RFC 8200), rounded up.
const LONGEST: usize = 65536 + 64;
/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

/// Of the lock that is held for a moment only, while an engine takes the place of another.
const WHOLE: &str = "nothing panics while an engine is replaced";

/// How many readers a device gets that asks for `queues`; 0: one for each CPU, at most 4.
pub fn readers(queues: usize) -> usize {
    match queues {
        0 => std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(4),
        n => n,
    }
}

/// The running threads. Dropped, they end.
pub struct SlowPath {
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<()>>,
    /// What each thread did.
    pub tallies: Vec<Arc<Tally>>,
    /// What all of them obey; replaced as a whole.
    engine: Arc<RwLock<Arc<dyn Engine>>>,
    /// To other gateways of a cluster: none, until somebody sets them.
    pub ways: Arc<Ways>,
}

impl SlowPath {
    /// Starts one thread for each queue of the device. The watch hears of one that ends by itself: the device is gone, or
    /// a part of the flows has no reader. Without slots for labels, marks and priorities end here.
    pub fn start(
        device: &str,
        queues: Vec<Queue>,
        labels: Option<Arc<LabelSlots>>,
        engine: Arc<dyn Engine>,
        watch: &Watch,
    ) -> io::Result<SlowPath> {
        let bell = Arc::new(Bell::new()?);
        let engine = Arc::new(RwLock::new(engine));
        let mut slow = SlowPath {
            bell,
            threads: Vec::new(),
            tallies: Vec::new(),
            engine,
            ways: Arc::default(),
        };

        for (i, queue) in queues.into_iter().enumerate() {
            let tally = Arc::new(Tally::default());
            let slot = labels.clone().map(|slots| (slots, i));
            let mut reader = Reader {
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
                reader.run().map_err(|error| {
                    tracing::debug!("queue {i} of the TUN device failed: {error}");
                    Failure::run_time(format!("the TUN device {device} is gone"))
                })
            };
            let name = format!("tun-{i}");
            slow.threads
                .push(watch.thread_with(privilege::TABLES, name, read)?);
        }
        Ok(slow)
    }

    /// What translates now.
    pub fn engine(&self) -> Arc<dyn Engine> {
        self.engine.read().expect(WHOLE).clone()
    }

    /// Has every packet that is read from now on translated by another engine.
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

struct Reader {
    outlet: Arc<Outlet>,
    bell: Arc<Bell>,
    engine: Arc<RwLock<Arc<dyn Engine>>>,
    tally: Arc<Tally>,
    events: Events,
    env: Clock,
    slots: Slots,
    coalescer: Coalescer,
    ways: Arc<Ways>,
    beat: Heartbeat,
}

impl Reader {
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

    /// Everything that waits leaves.
    fn depart(&mut self) {
        self.coalescer.send_all(&mut Endpoint {
            slots: &mut self.slots,
            outlet: &self.outlet,
            tally: &self.tally,
        });
    }

    fn packet(&mut self, place: Place, len: usize) {
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
        // What leaves is no other gateway's any more, and may leave together with what never was.
        offload.label.link = 0;
        let mut endpoint = Endpoint {
            slots: &mut self.slots,
            outlet: &self.outlet,
            tally: &self.tally,
        };
        if !out.is_empty() {
            // It may belong to a flow of which packets wait.
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

/// Whether it is an ICMPv6 error without extension headers before it (RFC 4443 section 2.1).
fn is_error6(packet: &[u8]) -> bool {
    const ICMPV6: u8 = 58;
    let byte = |at: usize| packet.get(at).copied().unwrap_or_default();
    byte(0) >> 4 == 6 && byte(6) == ICMPV6 && byte(40) < 128
}

/// Where questions of a CLAT to the next router would go, if they had the hops: UDP Discard (RFC 863).
pub const QUESTION_PORT: u16 = 9;

/// Whether a router says that such a question has run out of hops there (RFC 4443 section 3.3).
fn answers_question(packet: &[u8]) -> bool {
    const TIME_EXCEEDED: u8 = 3;
    const UDP: u8 = 17;
    let byte = |at: usize| packet.get(at).copied().unwrap_or_default();
    let port = u16::from_be_bytes([byte(90), byte(91)]);
    is_error6(packet) && byte(40) == TIME_EXCEEDED && byte(54) == UDP && port == QUESTION_PORT
}

/// Whether this host says something to its neighbours on the TUN device, where there are none: that it listens to groups,
/// solicits routers, or redirects the sender of a packet. Nobody's packet is lost with it. The kernel forwards nothing with
/// these addresses (RFC 4291 sections 2.5.2, 2.5.6 and 2.7).
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
