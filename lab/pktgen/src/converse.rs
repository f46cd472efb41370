// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP connections from the first SYN to the last acknowledgement, as many per second as possible.
//!
//! ends ─► generator: SYNs ─► each sink answers with the next segment (`lab/pktgen/bpf/converse.h`) ─► wait for the last ─► report

use std::time::{Duration, Instant};

use crate::kernel::{Sink, SEGMENTS};
use diolkos_sys::task::Signals;
use serde::Serialize;

use crate::cli::{Amount, Converse, Flows, Looks, Number, TcpFlags};
use crate::failure::Failure;
use crate::report::Received;
use crate::sink::{self, Watching};
use crate::ways::{self, Common, Direction, Way};

/// Interval between checks.
const LOOK: Duration = Duration::from_millis(20);
const SYN: u8 = 0x02;

/// The report.
#[derive(Debug, Serialize)]
pub struct Conversed {
    connections: u64,
    /// Connections whose last segment arrived.
    completed: u64,
    all: bool,
    /// The SYNs.
    opened: Direction,
    /// The arrived frames of each segment of a connection, in order.
    segments: Vec<Received>,
}

/// Opens connections, and lets both ends close them.
pub fn converse(options: &Converse, signals: &Signals) -> Result<Conversed, Failure> {
    if options.looks.udp || options.looks.icmp || options.looks.flows != Flows::Some(1) {
        return Err(Failure::usage(
            "each connection is one of TCP, with a 4-tuple of its own: leave --udp, --icmp and --flows away",
        ));
    }
    let watching = Watching {
        converses: true,
        ..sink::watching(&options.counting, SEGMENTS, options.common.key)
    };
    let near = ways::open(&options.ends.from, Some(&watching))?;
    let far = ways::open(&options.ends.to, Some(&watching))?;
    let (Some(near_sink), Some(far_sink)) = (&near.sink, &far.sink) else {
        return Err(Failure::run_time("an end has no sink"));
    };
    let connections = u64::from(options.connections);
    let patience = Duration::from_secs_f64(options.settle);
    let amount = Amount {
        rate: options.rate,
        count: Some(Number(connections)),
        seconds: None,
        burst: options.burst,
        path: None,
        cpu: options.cpu,
    };
    let opens = Way {
        name: "forth",
        stream: 0,
        from: &near,
        sink: far_sink,
        addresses: (options.ends.src, options.ends.dst),
        looks: Looks {
            tcp: true,
            tcp_flags: TcpFlags(SYN),
            flows: Flows::Unique,
            ..options.looks.clone()
        },
        amount: &amount,
        cpu: options.cpu,
        memory: None,
    };
    let common = Common {
        key: options.common.key,
        whole: options.common.histogram,
        patience,
    };
    let opened = ways::run(&[opens], common, signals)?.into_iter().next();
    let opened = opened.ok_or_else(|| Failure::run_time("no direction was measured"))?;
    settle(near_sink, connections, patience, signals)?;

    let ends = [sink::read(far_sink)?.0, sink::read(near_sink)?.0];
    let segments = (0..SEGMENTS).map(|number| {
        // The far end receives every other segment.
        let stream = &ends[number as usize % 2][number as usize];
        Received::new(number, stream, Some(connections), common.whole)
    });
    let segments: Vec<Received> = segments.collect();
    let completed = segments.last().map_or(0, Received::received);
    Ok(Conversed {
        connections,
        completed,
        all: completed == connections,
        opened,
        segments,
    })
}

/// Waits until every connection is closed, or none has been closed for `patience`.
fn settle(
    near: &Sink,
    connections: u64,
    patience: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    let (mut last, mut changed) = (0, Instant::now());
    loop {
        let tallies = near
            .tallies()
            .map_err(|e| Failure::refused("read the counts", &e))?;
        let received = tallies[SEGMENTS as usize - 1].received;
        if received != last {
            (last, changed) = (received, Instant::now());
        }
        if received >= connections || changed.elapsed() >= patience || signals.wait(LOOK) {
            return Ok(());
        }
    }
}
