// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The output of the program: one JSON object on each line of standard output. README.md explains the fields.

use std::io::{self, Write};

use crate::kernel::Stream;
use serde::Serialize;
use serde_json::{json, Value};

use crate::failure::Failure;
use crate::histogram::{Distribution, Summary};

/// The format version of the lines; it increases when a field changes its meaning or is removed.
pub const FORMAT: u32 = 1;

/// Prints one object, with the format and the event first.
pub fn print_event(event: &str, fields: impl Serialize) -> Result<(), Failure> {
    let mut line = json!({"format": FORMAT, "event": event});
    let fields = serde_json::to_value(fields)
        .map_err(|e| Failure::run_time(format!("cannot write the report: {e}")))?;
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        // The reader of a pipe has closed it, which is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::run_time(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// The summary of a distribution and, if requested, all its values.
#[derive(Debug, Serialize)]
pub struct Delays {
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Vec<(f64, u64)>>,
}

impl Delays {
    /// `None` for an empty distribution.
    pub fn new(distribution: &Distribution, whole: bool) -> Option<Delays> {
        Some(Delays {
            summary: distribution.summary()?,
            histogram: whole.then(|| distribution.pairs().to_vec()),
        })
    }
}

/// The received frames of one stream.
#[derive(Debug, Serialize)]
pub struct Received {
    stream: u32,
    expected: u64,
    received: u64,
    lost: u64,
    loss_ratio: f64,
    duplicate: u64,
    reordered: u64,
    reordering_extent: u64,
    late: u64,
    corrupted: u64,
    forgotten: u64,
    unfinished_checksums: u64,
    bytes: u64,
    first_ns: u64,
    latest_ns: u64,
    duration_s: f64,
    rate_pps: Option<f64>,
    delay_ns: Option<Delays>,
    pdv_ns: Option<f64>,
    ipdv_ns: Option<Delays>,
}

impl Received {
    /// Undamaged frames, each counted once.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The report on a stream of which `sent` frames were sent; without that number, up to the highest sequence number that
    /// arrived.
    pub fn new(number: u32, stream: &Stream, sent: Option<u64>, whole: bool) -> Received {
        let tally = &stream.tally;
        let expected = sent.unwrap_or(stream.next);
        let lost = expected.saturating_sub(tally.received);
        let duration_s = tally.latest_ns.saturating_sub(tally.first_ns) as f64 / 1e9;
        let [delay, longer, shorter] = &stream.histograms;
        let delay = Distribution::new(delay);
        let least = delay.summary().map(|s| s.min);
        Received {
            stream: number,
            expected,
            received: tally.received,
            lost,
            loss_ratio: if expected > 0 {
                lost as f64 / expected as f64
            } else {
                0.0
            },
            duplicate: tally.duplicate,
            reordered: tally.reordered,
            reordering_extent: tally.extent,
            late: tally.late,
            corrupted: tally.corrupted,
            forgotten: tally.forgotten,
            unfinished_checksums: tally.unfinished,
            bytes: tally.bytes,
            first_ns: tally.first_ns,
            latest_ns: tally.latest_ns,
            duration_s,
            rate_pps: (duration_s > 0.0).then(|| (tally.received - 1) as f64 / duration_s),
            // RFC 8219 section 7.3.1: from the least delay to the 99.9th percentile.
            pdv_ns: least.and_then(|least| Some(delay.quantile(0.999)? - least)),
            delay_ns: Delays::new(&delay, whole),
            ipdv_ns: Delays::new(&Distribution::signed(longer, shorter), whole),
        }
    }
}
