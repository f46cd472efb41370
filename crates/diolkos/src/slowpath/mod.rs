// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slow path: read from the TUN device → translate in place → write back.
//!
//! One thread for each queue. The kernel keeps a flow on one queue and each
//! thread writes where it reads, so no flow is reordered. A packet is copied
//! by the kernel on its way in and out, and by nobody else.

mod clock;
pub mod offload;
mod writer;

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;

use diolkos_core::{Packet, Reason, Translator, Verdict, HEADROOM};
use diolkos_sys::event::{Bell, Wake};
use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::LEN as VNET;

use crate::counters::{Direction, Tally};
use crate::events::Events;
use crate::failure::Failure;
use crate::supervise::Watch;

pub use clock::Clock;
pub use writer::Writer;

/// What the readers obey. All of them use it at once.
pub trait Engine: Send + Sync {
    /// Translates one packet; see [`Translator::translate`].
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict;
}

impl Engine for Translator {
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        Translator::translate(self, packet, env, out)
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
}

impl SlowPath {
    /// Starts one thread for each queue of the device. The watch hears of one that ends by itself: the device is gone, or
    /// a part of the flows has no reader.
    pub fn start(
        device: &str,
        queues: Vec<Queue>,
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
        };

        for (i, queue) in queues.into_iter().enumerate() {
            let tally = Arc::new(Tally::default());
            let mut reader = Reader {
                queue,
                bell: slow.bell.clone(),
                engine: slow.engine.clone(),
                tally: tally.clone(),
                events: Events::default(),
                env: Clock::new(),
            };
            slow.tallies.push(tally);
            let device = device.to_owned();
            let read = move || {
                reader.run().map_err(|error| {
                    tracing::debug!("queue {i} of the TUN device failed: {error}");
                    Failure::run_time(format!("the TUN device {device} is gone"))
                })
            };
            slow.threads.push(watch.thread(format!("tun-{i}"), read)?);
        }
        Ok(slow)
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
    queue: Queue,
    bell: Arc<Bell>,
    engine: Arc<RwLock<Arc<dyn Engine>>>,
    tally: Arc<Tally>,
    events: Events,
    env: Clock,
}

impl Reader {
    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; FRONT + LONGEST + BACK];
        loop {
            match self.queue.read(&mut buffer[FRONT - VNET..FRONT + LONGEST]) {
                Ok(len) if len >= VNET => self.packet(&mut buffer, len - VNET),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.bell.wait_readable(self.queue.as_fd())? == Wake::Bell {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn packet(&mut self, buffer: &mut [u8], len: usize) {
        let mut front = [0; VNET];
        front.copy_from_slice(&buffer[FRONT - VNET..FRONT]);
        let Some(received) = offload::read(&front, &mut buffer[FRONT..FRONT + len]) else {
            self.tally.dropped(Reason::OffloadMismatch);
            return;
        };
        let direction = match buffer[FRONT] >> 4 {
            4 => Direction::FourToSix,
            _ => Direction::SixToFour,
        };
        let engine = self.engine.read().expect(WHOLE).clone();

        let mut packet = Packet::new(buffer, FRONT, FRONT + len, received.offload);
        let mut out = Writer::new(&self.queue, &self.tally, &mut self.events);
        let verdict = engine.translate(&mut packet, &mut self.env, &mut out);
        match verdict {
            Verdict::Forward | Verdict::Emitted => self.tally.translated(direction, len),
            Verdict::Held => self.tally.held(),
            Verdict::Drop(reason) => {
                self.tally.dropped(reason);
                tracing::trace!(reason = reason.name(), len, "dropped");
            }
        }
        out.send();
        if let Verdict::Forward = verdict {
            let range = packet.range();
            let front = offload::write(packet.offload, received.ecn, packet.bytes());
            let start = range.start - VNET;
            buffer[start..range.start].copy_from_slice(&front);
            if self.queue.write(&buffer[start..range.end]).is_err() {
                self.tally.unwritten();
            }
        }
    }
}

#[cfg(test)]
mod tests;
