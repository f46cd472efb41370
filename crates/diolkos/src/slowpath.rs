// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slow path: read from the TUN device → translate in place → write back.
//!
//! One thread for each queue. The kernel keeps a flow on one queue and each
//! thread writes where it reads, so no flow is reordered. A packet is copied
//! by the kernel on its way in and out, and by nobody else.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use diolkos_core::csum;
use diolkos_core::{
    Checksum, Env, Gso, GsoKind, Offload, Outbox, Packet, Reason, Translator, Verdict, HEADROOM,
};
use diolkos_sys::event::{Bell, Wake};
use diolkos_sys::tun::Queue;
use diolkos_sys::vnet::{self, ChecksumPlace, Header, Segments, Shape, LEN as VNET};
use tokio::sync::Notify;

use crate::counters::{Direction, Tally};
use crate::events::Events;

/// In front of a packet: the greatest growth of its headers, and the offload header.
const FRONT: usize = HEADROOM + VNET;
/// The longest packet: 64 KiB of payload behind an IPv6 header (RFC 8200), rounded up.
const LONGEST: usize = 65536 + 64;
/// Room behind the packet for what the translator adds at its end (padding of RFC 4884 extensions).
const BACK: usize = 256;

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
    failed: Arc<Notify>,
    /// What each thread did.
    pub tallies: Vec<Arc<Tally>>,
    /// What all of them obey; replaced as a whole.
    translator: Arc<RwLock<Arc<Translator>>>,
}

impl SlowPath {
    /// Starts one thread for each queue. `seeds` are random; they decide where identifications start.
    pub fn start(
        queues: Vec<Queue>,
        translator: Translator,
        seeds: impl Fn() -> u64,
    ) -> io::Result<SlowPath> {
        let bell = Arc::new(Bell::new()?);
        let translator = Arc::new(RwLock::new(Arc::new(translator)));
        let mut slow = SlowPath {
            bell,
            threads: Vec::new(),
            failed: Arc::new(Notify::new()),
            tallies: Vec::new(),
            translator,
        };

        for (i, queue) in queues.into_iter().enumerate() {
            let tally = Arc::new(Tally::default());
            let mut reader = Reader {
                queue,
                bell: slow.bell.clone(),
                translator: slow.translator.clone(),
                tally: tally.clone(),
                events: Events::default(),
                env: Clock {
                    start: Instant::now(),
                    next: seeds(),
                },
            };
            slow.tallies.push(tally);
            let end = End(slow.failed.clone());
            slow.threads
                .push(Builder::new().name(format!("tun-{i}")).spawn(
                    move || match reader.run() {
                        Ok(()) => std::mem::forget(end),
                        Err(error) => {
                            tracing::debug!("queue {i} of the TUN device failed: {error}")
                        }
                    },
                )?);
        }
        Ok(slow)
    }

    /// Returns when a thread has ended that should not have: the device is gone, or a part of the flows has no reader.
    pub async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Has every packet that is read from now on translated by another translator.
    pub fn swap(&self, translator: Translator) {
        let translator = Arc::new(translator);
        match self.translator.write() {
            Ok(mut current) => *current = translator,
            Err(poisoned) => *poisoned.into_inner() = translator,
        }
    }
}

/// Tells that a thread ended, be it by a panic.
struct End(Arc<Notify>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Drop for SlowPath {
    fn drop(&mut self) {
        self.bell.ring();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What the translator asks of the world.
struct Clock {
    start: Instant,
    next: u64,
}

impl Clock {
    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.next = self.next.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.next;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Env for Clock {
    fn now(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn ipv4_id(&mut self) -> u16 {
        self.random() as u16
    }
}

struct Reader {
    queue: Queue,
    bell: Arc<Bell>,
    translator: Arc<RwLock<Arc<Translator>>>,
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
        let Some(mut header) = Header::parse(&front) else {
            // A kind of super-packet that the device was not asked for.
            self.tally.dropped(Reason::OffloadMismatch);
            return;
        };
        if let Some(place) = vnet::checksum_place(&front) {
            header.partial_checksum = !finish_inner(&mut buffer[FRONT..FRONT + len], place);
        }
        let direction = match buffer[FRONT] >> 4 {
            4 => Direction::FourToSix,
            _ => Direction::SixToFour,
        };
        let ecn = matches!(header.segments, Some((Segments::Tcp { ecn: true }, _)));
        let translator = match self.translator.read() {
            Ok(current) => current.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };

        let mut packet = Packet::new(buffer, FRONT, FRONT + len, offload(&header));
        let mut out = Writer {
            queue: &self.queue,
            tally: &self.tally,
            events: &mut self.events,
        };
        match translator.translate(&mut packet, &mut self.env, &mut out) {
            Verdict::Forward => {
                let (range, offload) = (packet.range(), packet.offload);
                self.tally.translated(direction, len);
                let shape = shape(&buffer[range.clone()]);
                let start = range.start - VNET;
                buffer[start..range.start].copy_from_slice(&header_of(offload, ecn).emit(&shape));
                if self.queue.write(&buffer[start..range.end]).is_err() {
                    self.tally.unwritten();
                }
            }
            Verdict::Emitted => self.tally.translated(direction, len),
            Verdict::Held => {} // It is counted when it leaves, or is dropped.
            Verdict::Drop(reason) => {
                self.tally.dropped(reason);
                tracing::trace!(reason = reason.name(), len, "dropped");
            }
        }
    }
}

/// Sends what the translator originates.
struct Writer<'a> {
    queue: &'a Queue,
    tally: &'a Tally,
    events: &'a mut Events,
}

impl Outbox for Writer<'_> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        let mut bytes = Vec::with_capacity(VNET + packet.len());
        bytes.extend(header_of(offload, false).emit(&shape(packet)));
        bytes.extend(packet);
        match self.queue.write(&bytes) {
            Ok(()) => self.tally.emitted(),
            Err(_) => self.tally.unwritten(),
        }
    }

    fn refused(&mut self, reason: Reason, packet: &[u8]) {
        if let Some(line) = self.events.line(reason, packet, Instant::now()) {
            tracing::debug!("{line}");
        }
    }
}

/// A tunnel leaves the checksum of the packet inside to the device, and its own is whole. What is inside is not
/// translated, and the next device is told of the outer packet only: so the sum is finished here. False if it is the
/// outer one that is left to do.
fn finish_inner(packet: &mut [u8], place: ChecksumPlace) -> bool {
    let start = usize::from(place.start);
    let at = start + usize::from(place.offset);
    if start <= usize::from(shape(packet).l4_offset) || at + 2 > packet.len() {
        return false;
    }
    let sum = match !csum::sum(&packet[start..]).fold() {
        0 => 0xffff,
        sum => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

fn offload(header: &Header) -> Offload {
    Offload {
        checksum: if header.partial_checksum {
            Checksum::Partial
        } else {
            Checksum::Complete
        },
        gso: header.segments.map(|(kind, size)| Gso {
            kind: match kind {
                Segments::Tcp { .. } => GsoKind::Tcp,
                Segments::Udp => GsoKind::Udp,
            },
            size,
        }),
    }
}

fn header_of(offload: Offload, ecn: bool) -> Header {
    Header {
        partial_checksum: offload.checksum == Checksum::Partial,
        segments: offload.gso.map(|gso| match gso.kind {
            GsoKind::Tcp => (Segments::Tcp { ecn }, gso.size),
            GsoKind::Udp => (Segments::Udp, gso.size),
        }),
    }
}

/// Where the transport header stands. What the offload header does not need may be wrong for a fragment or an
/// unknown transport: those have no offloads.
fn shape(packet: &[u8]) -> Shape {
    let ipv6 = packet.first().is_some_and(|b| b >> 4 == 6);
    let (l4_offset, protocol) = if ipv6 {
        (40, packet.get(6))
    } else {
        (
            packet.first().map_or(20, |b| u16::from(b & 15) * 4),
            packet.get(9),
        )
    };
    let (l4_len, checksum_offset) = match protocol {
        Some(6) => {
            let data_offset = packet
                .get(usize::from(l4_offset) + 12)
                .map_or(5, |b| b >> 4);
            (u16::from(data_offset) * 4, 16)
        }
        _ => (8, 6),
    };
    Shape {
        ipv6,
        l4_offset,
        l4_len,
        checksum_offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_checksum_is_finished_and_an_outer_one_is_not() {
        // UDP with a UDP datagram inside, whose field holds the sum of a pseudo-header.
        let mut packet = vec![0; 20 + 8 + 8 + 4];
        (packet[0], packet[9]) = (0x45, 17);
        packet[34..36].copy_from_slice(&0x1234u16.to_be_bytes());
        packet[36..].copy_from_slice(&[1, 2, 3, 4]);
        let outer = ChecksumPlace {
            start: 20,
            offset: 6,
        };
        assert!(!finish_inner(&mut packet.clone(), outer));
        let inner = ChecksumPlace {
            start: 28,
            offset: 6,
        };
        assert!(finish_inner(&mut packet, inner));
        // 0x1234 + 0x0102 + 0x0304 = 0x163a
        assert_eq!(packet[34..36], (!0x163au16).to_be_bytes());
        let beyond = ChecksumPlace {
            start: 38,
            offset: 1,
        };
        assert!(!finish_inner(&mut packet, beyond));
    }

    #[test]
    fn the_shape_is_read_from_the_packet() {
        let mut tcp = vec![0; 60];
        tcp[0] = 0x45;
        tcp[9] = 6;
        tcp[32] = 8 << 4;
        assert_eq!(
            shape(&tcp),
            Shape {
                ipv6: false,
                l4_offset: 20,
                l4_len: 32,
                checksum_offset: 16
            }
        );

        let mut udp = vec![0; 60];
        udp[0] = 0x60;
        udp[6] = 17;
        assert_eq!(
            shape(&udp),
            Shape {
                ipv6: true,
                l4_offset: 40,
                l4_len: 8,
                checksum_offset: 6
            }
        );
        let _ = shape(&[]);
    }
}
