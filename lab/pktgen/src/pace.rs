// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The schedule of frames: bursts at an interval that is kept to fractions of a nanosecond.

use crate::kernel::Plan;

/// The bursts per second that one CPU can start without spending its time on starting them.
const BURSTS_PER_S: f64 = 50_000.0;
/// The number of frames that the kernel passes to a program at once by default.
const NAPI_WEIGHT: u32 = 64;
/// The most frames that it can be asked to pass at once.
const MOST_AT_ONCE: u32 = 256;

/// The pace of frames.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Frames per second; `None`: as many as possible.
    pub rate: Option<f64>,
    /// Frames in a burst; `None`: one up to 50 000 frames per second, and proportionally more above, up to 64.
    pub burst: Option<u32>,
}

impl Pace {
    /// The number of frames in a burst.
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or_else(|| match self.rate {
            Some(rate) => ((rate / BURSTS_PER_S).ceil() as u32).clamp(1, NAPI_WEIGHT),
            None => NAPI_WEIGHT,
        })
    }

    /// Fills in the part of a plan that describes the schedule, except begin and end.
    pub fn fill(&self, plan: &mut Plan) {
        plan.burst = self.burst();
        plan.batch = if plan.burst <= MOST_AT_ONCE {
            plan.burst
        } else {
            NAPI_WEIGHT
        };
        if let Some(rate) = self.rate {
            // The rate in thousandths of a frame per second, so that the interval is a fraction of whole numbers.
            let parts = ((rate * 1e3).round() as u64).max(1);
            let thousandths = u64::from(plan.burst) * 1_000_000_000_000;
            plan.interval_parts = parts;
            plan.interval_ns = thousandths / parts;
            plan.interval_rest = thousandths % parts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Block, Ports, Shape, Transport};

    fn filled(rate: Option<f64>, burst: Option<u32>) -> Plan {
        let block = Block {
            first: "198.18.0.1".parse().expect("an address"),
            count: 1,
        };
        let ports = Ports { low: 1, high: 1 };
        let shape = Shape {
            macs: ([0; 6], [0; 6]),
            src: block,
            dst: block,
            transport: Transport::Udp,
            sport: ports,
            dport: ports,
            size: None,
        };
        let mut plan = shape.plan().expect("there is room");
        Pace { rate, burst }.fill(&mut plan);
        plan
    }

    /// After the bursts of one hour, the schedule is exact to the nanosecond.
    #[test]
    fn nothing_is_lost_between_two_nanoseconds() {
        for rate in [0.7, 3.0, 29_999.7, 1_000_003.0, 2_314_159.265] {
            let plan = filled(Some(rate), Some(1));
            let bursts = (rate * 3600.0).ceil() as u128;
            let rest = bursts * u128::from(plan.interval_rest) / u128::from(plan.interval_parts);
            let due = bursts * u128::from(plan.interval_ns) + rest;
            let exact = bursts * 1_000_000_000_000 / (rate * 1e3).round() as u128;
            assert_eq!(due, exact, "{rate}");
        }
    }

    #[test]
    fn bursts_grow_with_the_rate() {
        let bursts =
            [1.0, 50_000.0, 50_001.0, 900_000.0, 1e7].map(|rate| filled(Some(rate), None).burst);
        assert_eq!(bursts, [1, 1, 2, 18, 64]);
        let plan = filled(None, None);
        assert_eq!(
            (plan.burst, plan.batch, plan.interval_ns, plan.interval_rest),
            (64, 64, 0, 0)
        );
        // The batch is not longer than the kernel passes at once.
        assert_eq!(filled(Some(1e6), Some(1000)).batch, 64);
    }
}
