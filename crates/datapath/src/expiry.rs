// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects routing loops by their end: each packet in a loop runs out of hops somewhere.
//!
//! slow path's drops, the kernel's drops ─► packets a second ─► rule ─► log, status
//!
//! The kernel and the translator each decrement the hop limit, so the initial hop limit decides which of the two drops
//! a packet. Both are counted. Traceroute causes three such packets for each router.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diolkos_figures::counters::{self, Expired, QueueCounters};
use diolkos_figures::finding::{Finding, Reason};
use diolkos_figures::rule::{Level, Line, Rule};

/// Interval between two checks.
pub const LOOK: Duration = Duration::from_secs(1);

/// Packets a second that ran out of hops: a loop begins at this rate, and ends below the second one.
const LOOP: u64 = 50;
const NO_LOOP: u64 = 10;
const NAME: &str = "loop";

/// What is known of packets that ran out of hops.
pub struct Expiry {
    before: u64,
    at: Instant,
    rule: Rule,
    text: Option<String>,
}

impl Expiry {
    /// Creates the state. `tallies` are those of the slow path.
    pub fn new(tallies: &[Arc<QueueCounters>]) -> Expiry {
        Expiry {
            before: counters::expired(tallies).0 + kernel(),
            at: Instant::now(),
            rule: Rule::default(),
            text: None,
        }
    }

    /// Returns the finding, if packets loop.
    pub fn trouble(&self) -> Option<Finding> {
        let text = self.text.as_ref()?;
        Some(Finding::trouble(Reason::Loop, text))
    }

    /// Compares with the last check, and logs what is new.
    pub fn look(&mut self, tallies: &[Arc<QueueCounters>]) {
        let (expired, last) = counters::expired(tallies);
        self.compare(expired, last);
    }

    /// Compares the counters. `last` has the addresses of the last packet that the slow path dropped.
    fn compare(&mut self, expired: u64, last: Option<Expired>) {
        let (all, now) = (expired + kernel(), Instant::now());
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let new = all.saturating_sub(self.before);
        (self.before, self.at) = (all, now);
        let rate = (new as f64 / passed.max(0.001)) as u64;
        let level = match rate {
            LOOP.. => Level::High,
            NO_LOOP.. => Level::Between,
            _ => Level::Low,
        };
        let line = self.rule.look(NAME, level, now);
        if !self.rule.is_raised(NAME) {
            self.text = None;
        } else if self.text.is_none() {
            self.text = Some(text(rate, last));
        }
        match (line, &self.text) {
            (Some(Line::Raised), Some(text)) => tracing::warn!("{text}"),
            (Some(Line::Over), _) => {
                tracing::info!("the routing loop is over: packets no longer run out of hops");
            }
            _ => {}
        }
    }
}

fn text(rate: u64, last: Option<Expired>) -> String {
    let (of, to) = match last {
        Some(Expired { src, dst }) => (
            format!(", one of them from {src} to {dst}"),
            dst.to_string(),
        ),
        None => (String::new(), "DESTINATION".to_owned()),
    };
    format!(
        "a routing loop: {rate} packets a second run out of hops here{of}: find the routes that send them back \
         (`ip route get {to}` here and on the next router)"
    )
}

/// Returns the number of packets of both families that the kernel has dropped since boot because of their headers. If
/// the headers were valid, these packets ran out of hops.
fn kernel() -> u64 {
    let v4 = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    header_errors4(&v4).unwrap_or(0) + header_errors6(&v6).unwrap_or(0)
}

/// Parses a line of names and a line of values.
fn header_errors4(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "InHdrErrors")?;
    values.split(' ').nth(at)?.parse().ok()
}

fn header_errors6(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Ip6InHdrErrors"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_counts() {
        let v4 = "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors\nIp: 1 64 100 7 0\nIcmp: InMsgs\nIcmp: 3\n";
        assert_eq!(header_errors4(v4), Some(7));
        let v6 = "Ip6InReceives                   \t87\nIp6InHdrErrors                  \t9\n";
        assert_eq!(header_errors6(v6), Some(9));
        assert_eq!((header_errors4(""), header_errors6("")), (None, None));
        assert_eq!(header_errors4("Ip: A InHdrErrors\nIp: 1\n"), None);
    }

    #[test]
    fn many_packets_are_a_loop_and_few_are_none() {
        let mut expiry = Expiry::new(&[]);
        let mut look = |expired, ago_s: f64| {
            expiry.at -= std::time::Duration::from_secs_f64(ago_s);
            expiry.compare(expired, Expired::of(&[0x60; 40]));
            expiry.trouble().map(|its| its.text)
        };
        assert_eq!(look(9, 1.0), None);
        let said = look(2009, 1.0).expect("a loop");
        assert!(said.starts_with("a routing loop: "), "{said}");
        assert!(
            said.contains("to 6060:6060:6060:6060:6060:6060:6060:6060"),
            "{said}"
        );
        for _ in 1..5 {
            assert_eq!(look(2009, 10.0).as_ref(), Some(&said));
        }
        assert_eq!(look(2009, 10.0), None);
    }
}
