// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Coalesces translated packets on their way back to the device: packets of a flow that are present at the same time
//! leave as one super-packet.
//!
//! The kernel's forwarding is most of what a packet costs. No packet waits for others that may still arrive: when there
//! is nothing to read, all leave; and if there is always something to read, the number of packets that one waits for is
//! bounded. Packets of a flow keep their order.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;

use diolkos_sys::vnet::LEN as VNET;
use diolkos_xlat::{Label, Offload};

use super::join::{self, Train, HEADERS, MOST};
use super::label::Outlet;
use super::offload::{self, Received};
use super::slots::{BufferPlace, Slots, SLOTS};
use diolkos_figures::counters::QueueCounters;

/// Maximum number of flows with waiting packets.
const TRAINS: usize = 64;
/// Number of packets that may be read while one waits: as many as can wait.
const PATIENCE: u32 = SLOTS as u32;

/// The coalescer of one queue.
#[derive(Debug, Default)]
pub struct Coalescer {
    /// The trains, the longest waiting first.
    trains: Vec<(Train, Vec<Waiting>)>,
    /// Tags of their flows, in the same order, which are faster to scan.
    tags: Vec<u32>,
    /// Empty lists for the next trains.
    spare: Vec<Vec<Waiting>>,
    /// Number of packets that were read.
    read: u32,
    /// True if this kernel (before 6.2) does not accept super-packets of datagrams.
    no_datagrams: bool,
}

/// A packet in its slot.
#[derive(Debug)]
struct Waiting {
    place: BufferPlace,
    range: Range<usize>,
    /// The range of its bytes.
    data: Range<usize>,
    /// Number of packets that were read before it.
    read: u32,
}

/// The source and the destination of packets.
pub struct Endpoint<'a> {
    /// The slots that hold them.
    pub slots: &'a mut Slots,
    /// The queue that they are written to.
    pub outlet: &'a Outlet,
    /// Counts those that the kernel does not accept.
    pub tally: &'a QueueCounters,
}

impl Coalescer {
    /// Notes that another packet was read, of any flow. Packets that have waited for too many others leave.
    pub fn read_one(&mut self, endpoint: &mut Endpoint<'_>) {
        self.read = self.read.wrapping_add(1);
        let now = self.read;
        let is_late = |waiting: &[Waiting]| now.wrapping_sub(waiting[0].read) > PATIENCE;
        while self
            .trains
            .first()
            .is_some_and(|(_, waiting)| is_late(waiting))
        {
            self.send_train(endpoint, 0);
        }
    }

    /// Sends a translated packet, or keeps it in its slot for those behind it.
    pub fn send(
        &mut self,
        endpoint: &mut Endpoint<'_>,
        place: BufferPlace,
        range: Range<usize>,
        offload: Offload,
        received: &Received,
    ) {
        let packet = endpoint.slots.bytes(place, &range);
        let front = offload::write(offload, received.ecn, packet);
        let flow = join::flow(packet);
        let part = match place {
            BufferPlace::Slot(_) => join::part(packet, offload, received.checked),
            BufferPlace::Large => None,
        };
        endpoint.slots.buffer(place)[range.start - VNET..range.start].copy_from_slice(&front);

        let Some(flow) = flow else {
            // It may belong to any of the flows, for example as a fragment.
            self.send_all(endpoint);
            endpoint.write(place, &range, offload.label);
            return;
        };
        let part = part.filter(|part| !(self.no_datagrams && part.is_udp()));
        let tag = flow.tag();
        let mut alike = (0..self.tags.len()).filter(|&at| self.tags[at] == tag);
        if let Some(at) = alike.find(|&at| self.trains[at].0.flow == flow) {
            let (train, waiting) = &mut self.trains[at];
            let first = endpoint.slots.bytes(waiting[0].place, &waiting[0].range);
            let packet = endpoint.slots.bytes(place, &range);
            if let Some(part) = part.filter(|part| train.take(packet, part, first)) {
                let (data, read) = (part.data(), self.read);
                waiting.push(Waiting {
                    place,
                    range,
                    data,
                    read,
                });
                if train.is_closed {
                    self.send_train(endpoint, at);
                }
                return;
            }
            self.send_train(endpoint, at);
        }
        let train = part.map(|part| {
            let packet = endpoint.slots.bytes(place, &range);
            (Train::new(flow, packet, part), part.data())
        });
        let Some((train, data)) = train.filter(|(train, _)| !train.is_closed) else {
            endpoint.write(place, &range, offload.label);
            return;
        };
        if self.trains.len() == TRAINS {
            self.send_all(endpoint);
        }
        let mut waiting = self.spare.pop().unwrap_or_default();
        waiting.push(Waiting {
            place,
            range,
            data,
            read: self.read,
        });
        self.trains.push((train, waiting));
        self.tags.push(tag);
    }

    /// Sends all waiting packets.
    pub fn send_all(&mut self, endpoint: &mut Endpoint<'_>) {
        let mut trains = std::mem::take(&mut self.trains);
        self.tags.clear();
        for (train, waiting) in trains.drain(..) {
            self.leave(endpoint, &train, waiting);
        }
        self.trains = trains;
    }

    fn send_train(&mut self, endpoint: &mut Endpoint<'_>, at: usize) {
        let (train, waiting) = self.trains.remove(at);
        self.tags.remove(at);
        self.leave(endpoint, &train, waiting);
    }

    fn leave(&mut self, endpoint: &mut Endpoint<'_>, train: &Train, mut waiting: Vec<Waiting>) {
        let written = train
            .is_joined()
            .then(|| endpoint.write_joined(train, &waiting));
        if !matches!(written, Some(Ok(()))) {
            if let Some(Err(error)) = written {
                // They are also written one by one if the kernel does not support this kind. A device that is down
                // supports it again later.
                self.no_datagrams |= train.is_udp() && error.kind() == ErrorKind::InvalidInput;
            }
            for Waiting { place, range, .. } in &waiting {
                endpoint.write(*place, range, train.label());
            }
        }
        waiting.clear();
        self.spare.push(waiting);
    }
}

impl Endpoint<'_> {
    /// Writes one packet, with the offload header in front of it.
    fn write(&mut self, place: BufferPlace, range: &Range<usize>, label: Label) {
        let bytes = self.slots.bytes(place, &(range.start - VNET..range.end));
        if self.outlet.write(bytes, label).is_err() {
            self.tally.unwritten();
        }
        self.slots.free(place);
    }

    /// Writes a super-packet. If the kernel does not accept it, nothing has happened.
    fn write_joined(&mut self, train: &Train, waiting: &[Waiting]) -> io::Result<()> {
        let (header, len, offload) = train.headers();
        let mut front = [0; VNET + HEADERS];
        front[VNET..].copy_from_slice(&header);
        front[..VNET].copy_from_slice(&offload::write(offload, false, &header[..len]));

        let mut pieces: [IoSlice<'_>; 1 + MOST] = std::array::from_fn(|_| IoSlice::new(&[]));
        pieces[0] = IoSlice::new(&front[..VNET + len]);
        for (piece, packet) in pieces[1..].iter_mut().zip(waiting) {
            let (start, data) = (packet.range.start, &packet.data);
            let bytes = start + data.start..start + data.end;
            *piece = IoSlice::new(self.slots.bytes(packet.place, &bytes));
        }
        self.outlet
            .write_vectored(&pieces[..1 + waiting.len()], offload.label)?;
        for packet in waiting {
            self.slots.free(packet.place);
        }
        Ok(())
    }
}
