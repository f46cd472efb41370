// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts frames that arrive at an interface, until the limit is reached or a signal arrives.

use std::time::{Duration, Instant};

use crate::kernel::{Sink, SinkMode, Stream, Tally, Watch};
use diolkos_sys::task::Signals;
use serde::Serialize;

use crate::cli::{Counting, Xdp};
use crate::failure::Failure;
use crate::report::Received;

/// Interval between readings of the counts.
const LOOK: Duration = Duration::from_millis(20);
/// log2 of the words of 32 sequence numbers that are remembered for each stream: 8 388 608 numbers in 2 MiB.
const SLOT_BITS: u32 = 18;

/// The limits after which a sink ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// The time since it began.
    pub time: Option<Duration>,
    /// The number of received frames, on all streams.
    pub frames: Option<u64>,
    /// The time without a frame, after the first one.
    pub idle: Option<Duration>,
}

/// The parameters of a sink.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// The number of streams, which are numbered from 0.
    pub streams: u32,
    /// The key of the signature, see `Watch`.
    pub key: u64,
    /// A frame with a longer delay is late.
    pub late: Duration,
    /// Verify checksums.
    pub verify: bool,
    /// The hook of the program; `None`: in the driver if it has one.
    pub mode: Option<SinkMode>,
    /// The number of frames of stream 0 whose 4-tuples are remembered.
    pub remembers: u32,
    /// The sink answers segments of TCP connections.
    pub converses: bool,
}

/// The report on everything that arrived.
#[derive(Debug, Serialize)]
pub struct Arrived {
    sink: &'static str,
    streams: Vec<Received>,
    foreign: u64,
    corrupted_unattributed: u64,
}

/// The parameters from the options.
pub fn watching(counting: &Counting, streams: u32, key: u64) -> Watching {
    Watching {
        streams,
        key,
        late: Duration::from_secs_f64(counting.late_ms.max(0.0) / 1e3),
        verify: !counting.no_verify,
        mode: counting.xdp.map(|xdp| match xdp {
            Xdp::Driver => SinkMode::Driver,
            Xdp::Generic => SinkMode::Generic,
        }),
        remembers: 0,
        converses: false,
    }
}

/// Attaches a sink to an interface of this thread's network namespace.
pub fn open(ifindex: u32, watching: &Watching) -> Result<Sink, Failure> {
    let watch = Watch {
        key: watching.key,
        late_ns: watching.late.as_nanos().try_into().unwrap_or(u64::MAX),
        streams: watching.streams,
        slot_bits: SLOT_BITS,
        verify: watching.verify.into(),
        remembers: watching.remembers,
        converses: watching.converses.into(),
        pad: 0,
    };
    Ok(Sink::attach(&watch, ifindex, watching.mode)?)
}

/// The hook of a sink, for a report.
pub fn place(sink: &Sink) -> &'static str {
    match sink.mode() {
        Some(SinkMode::Driver) => "xdp-driver",
        Some(SinkMode::Generic) => "xdp-generic",
        None => "nowhere",
    }
}

/// Waits until a limit is reached, or a signal arrives.
pub fn wait(sink: &Sink, until: Until, signals: &Signals) -> Result<(), Failure> {
    let begun = Instant::now();
    let (mut last, mut changed) = (0, Instant::now());
    loop {
        if signals.wait(LOOK) || until.time.is_some_and(|time| begun.elapsed() >= time) {
            return Ok(());
        }
        let received = received(sink)?;
        if received != last {
            (last, changed) = (received, Instant::now());
        }
        if until.frames.is_some_and(|frames| received >= frames)
            || until
                .idle
                .is_some_and(|idle| received > 0 && changed.elapsed() >= idle)
        {
            return Ok(());
        }
    }
}

/// The number of frames received so far, on all streams.
pub fn received(sink: &Sink) -> Result<u64, Failure> {
    let tallies = sink
        .tallies()
        .map_err(|e| Failure::refused("read the counts", &e))?;
    Ok(tallies.iter().map(|t| t.received).sum())
}

/// The received frames of each stream, and the counts of those that belong to none.
pub fn read(sink: &Sink) -> Result<(Vec<Stream>, Tally), Failure> {
    sink.streams()
        .map_err(|e| Failure::refused("read the counts", &e))
}

/// The report; `sent` is the number of frames sent on the first stream, if that is known.
pub fn report(sink: &Sink, sent: Option<u64>, whole: bool) -> Result<Arrived, Failure> {
    let (streams, rest) = read(sink)?;
    let streams = (0..).zip(&streams);
    Ok(Arrived {
        sink: place(sink),
        streams: streams
            .map(|(number, stream)| {
                Received::new(number, stream, sent.filter(|_| number == 0), whole)
            })
            .collect(),
        foreign: rest.foreign,
        corrupted_unattributed: rest.corrupted,
    })
}
