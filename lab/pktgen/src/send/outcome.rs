// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports what was sent, and whether that matches the request.

use serde::Serialize;

use super::{Done, Job, Path};
use crate::frame::{self, FCS};
use crate::histogram::Distribution;
use crate::report::Delays;

/// A burst that starts this much after its scheduled time, ns, counts as late.
const LATE_NS: f64 = 1e6;
/// A trial in which a larger share of bursts is late has not kept up.
const LATE_SHARE: f64 = 0.01;
/// A trial whose mean rate is off by a larger share has not kept up either.
const RATE_ERROR: f64 = 1e-3;

/// The report on sent frames; README.md explains the fields.
#[derive(Debug, Serialize)]
pub struct Sent {
    stream: u32,
    path: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_because: Option<String>,
    frame_bytes: usize,
    flows: u64,
    burst: u32,
    rate_wanted_pps: Option<f64>,
    written: u64,
    sent: u64,
    refused: u64,
    begun_ns: u64,
    duration_s: f64,
    rate_pps: Option<f64>,
    kept_up: bool,
    not_kept_up: Vec<String>,
    gap_ns: Option<Delays>,
    lateness_ns: Option<Delays>,
}

impl Sent {
    pub(super) fn new(job: &Job<'_>, done: &Done) -> Sent {
        let plan = &job.plan;
        let late = Distribution::new(&done.late);
        // The time from the first burst to the start of the last one.
        let duration_s = done.burst_ns.saturating_sub(done.begun_ns) as f64 / 1e9;
        let before_last = done.bursts.saturating_sub(1) * u64::from(plan.burst);
        let rate = (duration_s > 0.0).then(|| before_last as f64 / duration_s);
        let refused = done.written.saturating_sub(done.accepted);
        let not_kept_up = not_kept_up(job.pace.rate, rate, refused, &late);
        Sent {
            stream: plan.stream,
            path: match done.path {
                Path::Live => "live-frames",
                Path::Packet => "packet-socket",
            },
            path_because: done.because.clone(),
            frame_bytes: frame::length(plan) + FCS,
            flows: plan.flows,
            burst: plan.burst,
            rate_wanted_pps: job.pace.rate,
            written: done.written,
            sent: done.accepted,
            refused,
            begun_ns: done.begun_ns,
            duration_s,
            rate_pps: rate,
            kept_up: not_kept_up.is_empty(),
            not_kept_up,
            gap_ns: Delays::new(&Distribution::new(&done.gaps), job.whole),
            lateness_ns: Delays::new(&late, job.whole),
        }
    }

    /// Returns true if the trial matched the request.
    pub fn kept_up(&self) -> bool {
        self.kept_up
    }

    /// The start times of the first and the last burst, CLOCK_MONOTONIC, ns.
    pub fn sending_ns(&self) -> (u64, u64) {
        (
            self.begun_ns,
            self.begun_ns + (self.duration_s * 1e9) as u64,
        )
    }

    /// The number of frames that the interface accepted.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// The reason, in words, why a trial does not match the request.
fn not_kept_up(
    wanted: Option<f64>,
    rate: Option<f64>,
    refused: u64,
    late: &Distribution,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if refused > 0 {
        reasons.push(format!("the interface refused {refused} frames"));
    }
    if let (Some(wanted), Some(rate)) = (wanted, rate) {
        let error = rate / wanted - 1.0;
        if error.abs() > RATE_ERROR {
            reasons.push(format!("the mean rate is off by {:.2} %", error * 100.0));
        }
    }
    let (late, all) = (late.above(LATE_NS), late.count());
    if late as f64 > LATE_SHARE * all as f64 {
        reasons.push(format!("{late} of {all} bursts began more than 1 ms late"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::bucket_of;
    use crate::kernel::BUCKETS;

    fn late(values: &[(u64, u64)]) -> Distribution {
        let mut counts = vec![0; BUCKETS];
        for (ns, n) in values {
            counts[bucket_of(*ns)] += n;
        }
        Distribution::new(&counts)
    }

    #[test]
    fn what_was_asked_for_was_done() {
        let late = late(&[(10, 995), (2_000_000, 5)]);
        assert!(not_kept_up(Some(1000.0), Some(999.5), 0, &late).is_empty());
        assert!(not_kept_up(None, Some(2e6), 0, &Distribution::default()).is_empty());
    }

    #[test]
    fn each_way_not_to_keep_up_has_a_reason() {
        let on_time = late(&[(10, 1000)]);
        let reasons = |rate, refused, late| not_kept_up(Some(1000.0), Some(rate), refused, late);
        assert_eq!(
            reasons(1000.0, 3, &on_time),
            ["the interface refused 3 frames"]
        );
        assert_eq!(
            reasons(990.0, 0, &on_time),
            ["the mean rate is off by -1.00 %"]
        );
        let often = late(&[(10, 980), (2_000_000, 20)]);
        let expected = ["20 of 1000 bursts began more than 1 ms late"];
        assert_eq!(reasons(1000.0, 0, &often), expected);
    }
}
