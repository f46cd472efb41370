// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what arrives at an interface, until enough did, it is over, or somebody says so.

use std::time::{Duration, Instant};

use crate::kernel::{Sink, SinkMode, Stream, Tally, Watch};
use diolkos_sys::task::Signals;
use serde::Serialize;

use crate::cli::{Counting, Xdp};
use crate::failure::Failure;
use crate::report::Received;

/// How often the counts are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Sequence numbers that are remembered of each stream: 2^18 words with 32 each, 8 388 608 in 2 MiB.
const SLOT_BITS: u32 = 18;

/// When a sink has seen enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// So long after it began.
    pub time: Option<Duration>,
    /// So many frames were received, on all streams.
    pub frames: Option<u64>,
    /// So long without a frame, once one has come.
    pub idle: Option<Duration>,
}

/// What a sink counts.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// Streams 0 to this, without it.
    pub streams: u32,
    /// See `Watch`.
    pub key: u64,
    /// A frame that took longer is late.
    pub late: Duration,
    /// Verify checksums.
    pub verify: bool,
    /// Where the program sits; None: in the driver if it has a place.
    pub mode: Option<SinkMode>,
    /// 4-tuples of the first so many frames of stream 0 are kept.
    pub remembers: u32,
    /// Segments of TCP connections are answered.
    pub converses: bool,
}

/// Everything that arrived.
#[derive(Debug, Serialize)]
pub struct Arrived {
    sink: &'static str,
    streams: Vec<Received>,
    foreign: u64,
    corrupted_unattributed: u64,
}

/// From options.
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

/// Puts a sink at an interface of this thread's network namespace.
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

/// Where it sits, for a report.
pub fn place(sink: &Sink) -> &'static str {
    match sink.mode() {
        Some(SinkMode::Driver) => "xdp-driver",
        Some(SinkMode::Generic) => "xdp-generic",
        None => "nowhere",
    }
}

/// Waits until it has seen enough, or a signal arrives.
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

/// Frames received so far, on all streams.
pub fn received(sink: &Sink) -> Result<u64, Failure> {
    let tallies = sink
        .tallies()
        .map_err(|e| Failure::refused("read the counts", &e))?;
    Ok(tallies.iter().map(|t| t.received).sum())
}

/// What came of each stream, and of none.
pub fn read(sink: &Sink) -> Result<(Vec<Stream>, Tally), Failure> {
    sink.streams()
        .map_err(|e| Failure::refused("read the counts", &e))
}

/// What arrived; of so many frames that were sent on the first stream, if that is known.
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
