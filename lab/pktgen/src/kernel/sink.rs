// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sink: load → attach to an interface (XDP) → read the counts.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use libbpf_sys as bpf;

use super::skel::pktgen_sink::PktgenSinkSkelBuilder;
use super::{numbers, read_array, Tally, Watch, BUCKETS};
use diolkos_fastpath::load::AsMap;
use diolkos_fastpath::load::{failed, keep, listen, no_data};
use diolkos_fastpath::FastPathError;

/// Histograms of each stream: delay, increase over the previous delay, decrease.
const KINDS: usize = 3;

/// A program attached to an interface. Dropping it detaches the program.
#[derive(Debug)]
pub struct Sink {
    link: Option<(OwnedFd, SinkMode)>,
    program: OwnedFd,
    streams: u32,
    tallies: MapHandle,
    shared: MapHandle,
    received: MapHandle,
    memory: MapHandle,
}

/// The hook of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkMode {
    /// In the driver, before the kernel makes a packet of a frame.
    Driver,
    /// In the kernel's generic receive path, if the driver has no hook.
    Generic,
}

/// The 4-tuples that a sink remembers; a [`Generator`](super::Generator) can send answers with them.
#[derive(Debug)]
pub struct Memory(pub(super) MapHandle);

/// The received frames of one stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Counts.
    pub tally: Tally,
    /// The highest sequence number that arrived, plus one; 0 if none arrived.
    pub next: u64,
    /// The bucket counts of three histograms: delay; increase over the previous delay; decrease.
    pub histograms: [Vec<u64>; KINDS],
}

impl Sink {
    /// Loads the program and attaches it: at the hook `mode`, or with `None` in the driver if it has a hook.
    pub fn attach(
        watch: &Watch,
        ifindex: u32,
        mode: Option<SinkMode>,
    ) -> Result<Sink, FastPathError> {
        let mut sink = Sink::load(watch)?;
        let link = attach(sink.program.as_fd(), ifindex, mode);
        sink.link = Some(link.map_err(|source| FastPathError::Attach {
            program: "pktgen_sink",
            source,
        })?);
        Ok(sink)
    }

    /// Loads the program without attaching it; it counts the frames given to [`Sink::feed`].
    #[cfg(feature = "testrun")]
    pub fn unattached(watch: &Watch) -> Result<Sink, FastPathError> {
        Sink::load(watch)
    }

    /// Runs the program on one frame.
    #[cfg(feature = "testrun")]
    pub fn feed(&self, frame: &[u8]) -> io::Result<super::testrun::Action> {
        self.answer(frame).map(|(action, _)| action)
    }

    /// Runs the program on one frame, and returns the resulting frame.
    #[cfg(feature = "testrun")]
    pub fn answer(&self, frame: &[u8]) -> io::Result<(super::testrun::Action, Vec<u8>)> {
        super::testrun::run(self.program.as_fd(), frame)
    }

    fn load(watch: &Watch) -> Result<Sink, FastPathError> {
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = PktgenSinkSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        let data = open.maps.rodata_data.as_deref_mut().ok_or_else(no_data)?;
        data.watch = *watch;
        let maps = &mut open.maps;
        let streams = watch.streams;
        for (map, entries) in [
            (&mut maps.tallies, streams + 1),
            (&mut maps.streams, streams),
            (&mut maps.seen, streams << watch.slot_bits),
            (&mut maps.received, streams * KINDS as u32 * BUCKETS as u32),
            (&mut maps.memory, watch.remembers.max(1)),
        ] {
            map.set_max_entries(entries)
                .map_err(|e| failed("size a map", e))?;
        }
        let loaded = open.load().map_err(|e| failed("load", e))?;
        Ok(Sink {
            link: None,
            program: keep(loaded.progs.pktgen_sink.as_fd())?,
            streams,
            tallies: loaded.maps.tallies.handle()?,
            shared: loaded.maps.streams.handle()?,
            received: loaded.maps.received.handle()?,
            memory: loaded.maps.memory.handle()?,
        })
    }

    /// The hook at which the program is attached.
    pub fn mode(&self) -> Option<SinkMode> {
        self.link.as_ref().map(|(_, mode)| *mode)
    }

    /// The 4-tuples of the first `watch.remembers` frames of stream 0, reversed.
    pub fn memory(&self) -> io::Result<Memory> {
        MapHandle::try_from(&self.memory)
            .map(Memory)
            .map_err(io::Error::other)
    }

    /// The counts of each stream, without histograms; the last entry counts frames that belong to no stream.
    pub fn tallies(&self) -> io::Result<Vec<Tally>> {
        (0..=self.streams)
            .map(|number| self.tally(number))
            .collect()
    }

    /// All streams with their histograms, and the counts of frames that belong to no stream.
    pub fn streams(&self) -> io::Result<(Vec<Stream>, Tally)> {
        let all = read_array(&self.received, self.streams as usize * KINDS * BUCKETS)?;
        let streams = (0..self.streams)
            .map(|number| {
                let histogram = |kind: usize| {
                    let at = (number as usize * KINDS + kind) * BUCKETS;
                    all[at..at + BUCKETS].to_vec()
                };
                Ok(Stream {
                    tally: self.tally(number)?,
                    next: self.next(number)?,
                    histograms: [histogram(0), histogram(1), histogram(2)],
                })
            })
            .collect::<io::Result<_>>()?;
        Ok((streams, self.tally(self.streams)?))
    }

    fn next(&self, stream: u32) -> io::Result<u64> {
        let shared = self
            .shared
            .lookup(&stream.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        Ok(shared.first_chunk().map_or(0, |n| u64::from_ne_bytes(*n)))
    }

    /// The counts of a stream, summed over the CPUs.
    fn tally(&self, number: u32) -> io::Result<Tally> {
        let per_cpu = self
            .tallies
            .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        let mut sum = Tally::default();
        for bytes in per_cpu {
            let part = tally(&bytes)?;
            sum.received += part.received;
            sum.bytes += part.bytes;
            sum.duplicate += part.duplicate;
            sum.reordered += part.reordered;
            sum.late += part.late;
            sum.corrupted += part.corrupted;
            sum.foreign += part.foreign;
            sum.forgotten += part.forgotten;
            sum.unfinished += part.unfinished;
            sum.extent = sum.extent.max(part.extent);
            sum.latest_ns = sum.latest_ns.max(part.latest_ns);
            if part.first_ns > 0 && (sum.first_ns == 0 || part.first_ns < sum.first_ns) {
                sum.first_ns = part.first_ns;
            }
        }
        Ok(sum)
    }
}

fn attach(
    program: BorrowedFd<'_>,
    ifindex: u32,
    mode: Option<SinkMode>,
) -> io::Result<(OwnedFd, SinkMode)> {
    match mode {
        Some(mode) => Ok((link(program, ifindex, mode)?, mode)),
        None => match link(program, ifindex, SinkMode::Driver) {
            Ok(link) => Ok((link, SinkMode::Driver)),
            // Another program is attached: the other hook would be refused as well, with a less clear error.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(error),
            Err(_) => {
                let mode = SinkMode::Generic;
                Ok((link(program, ifindex, mode)?, mode))
            }
        },
    }
}

fn link(program: BorrowedFd<'_>, ifindex: u32, mode: SinkMode) -> io::Result<OwnedFd> {
    let flags = match mode {
        SinkMode::Driver => bpf::XDP_FLAGS_DRV_MODE,
        SinkMode::Generic => bpf::XDP_FLAGS_SKB_MODE,
    };
    diolkos_sys::bpf::attach(program, ifindex, bpf::BPF_XDP, flags)
}

/// `struct pktgen_tally`.
fn tally(bytes: &[u8]) -> io::Result<Tally> {
    let [received, bytes, duplicate, reordered, late, corrupted, foreign, forgotten, unfinished, extent, first_ns, latest_ns] =
        numbers(bytes)?;
    Ok(Tally {
        received,
        bytes,
        duplicate,
        reordered,
        late,
        corrupted,
        foreign,
        forgotten,
        unfinished,
        extent,
        first_ns,
        latest_ns,
    })
}
