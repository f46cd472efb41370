// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every fate of a packet by its name, for both paths, in one list.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diolkos_fastpath::{FastPath, FATE_NAMES};
use diolkos_nat64::session::Counts;
use diolkos_xlat::Reason;
use serde::{Deserialize, Serialize};

/// One line of `diolkos show counters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// `fast.` or `slow.` and the fate.
    pub name: String,
    /// Packets; a super-packet counts as one.
    pub packets: u64,
    /// Bytes of their network layer, if they are counted.
    pub bytes: Option<u64>,
}

/// The counters of one reader of the TUN device; each reader has its own, so that no two write to the same cache line.
#[derive(Debug)]
pub struct QueueCounters {
    translated: [(AtomicU64, AtomicU64); 2],
    /// Translated ICMPv6 errors. The fast path translates none.
    errors6: AtomicU64,
    /// Errors of routers that answer probes of a CLAT.
    questions_answered: AtomicU64,
    emitted: AtomicU64,
    held: AtomicU64,
    mss_clamped: AtomicU64,
    unwritten: AtomicU64,
    led: (AtomicU64, AtomicU64),
    strayed: AtomicU64,
    deferred: AtomicU64,
    unacknowledged: AtomicU64,
    undeferred: AtomicU64,
    dropped: Vec<AtomicU64>,
    expired: Mutex<Option<Expired>>,
}

/// The source and destination of a packet whose hop limit was reached, as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its source.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
}

impl Expired {
    /// Reads them from a packet; `None` if it is shorter than its header.
    pub fn of(packet: &[u8]) -> Option<Expired> {
        let four = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        };
        let six = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        };
        let (src, dst) = match packet.first()? >> 4 {
            4 => (four(12)?, four(16)?),
            _ => (six(8)?, six(24)?),
        };
        Some(Expired { src, dst })
    }
}

/// The direction of translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// IPv4 in, IPv6 out.
    FourToSix = 0,
    /// IPv6 in, IPv4 out.
    SixToFour = 1,
}

impl Default for QueueCounters {
    fn default() -> QueueCounters {
        QueueCounters {
            translated: Default::default(),
            errors6: AtomicU64::default(),
            questions_answered: AtomicU64::default(),
            emitted: AtomicU64::default(),
            held: AtomicU64::default(),
            mss_clamped: AtomicU64::default(),
            unwritten: AtomicU64::default(),
            led: Default::default(),
            strayed: AtomicU64::default(),
            deferred: AtomicU64::default(),
            unacknowledged: AtomicU64::default(),
            undeferred: AtomicU64::default(),
            dropped: Reason::ALL.iter().map(|_| AtomicU64::default()).collect(),
            expired: Mutex::new(None),
        }
    }
}

impl QueueCounters {
    /// Counts a translated packet.
    pub fn translated(&self, direction: Direction, bytes: usize) {
        let (packets, total) = &self.translated[direction as usize];
        packets.fetch_add(1, Ordering::Relaxed);
        total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a translated packet that is an ICMPv6 error.
    pub fn error6(&self) {
        self.errors6.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts such an error that answers a probe of a CLAT.
    pub fn question_answered(&self) {
        self.questions_answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a packet of the translator itself: a fragment or an ICMP error.
    pub fn emitted(&self) {
        self.emitted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a packet that waits for another one: a fragment for the first fragment of its packet, a SYN for the SYN of the
    /// other side.
    pub fn held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a translated SYN whose maximum segment size was lowered.
    pub fn mss_clamped(&self) {
        self.mss_clamped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a packet that the kernel did not accept.
    pub fn unwritten(&self) {
        self.unwritten.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a packet, or a fragment of one, that was sent to another gateway.
    pub fn led(&self, bytes: usize) {
        let (packets, total) = &self.led;
        packets.fetch_add(1, Ordering::Relaxed);
        total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a packet for another gateway that did not meet the BPF program that sends it, so the kernel has dropped it.
    pub fn strayed(&self) {
        self.strayed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts packets of new bindings that have left after they waited for another gateway: all of them, and those whose
    /// binding no gateway has acknowledged.
    pub fn deferred(&self, [all, unacknowledged]: [u64; 2]) {
        self.deferred.fetch_add(all, Ordering::Relaxed);
        let count = &self.unacknowledged;
        count.fetch_add(unacknowledged, Ordering::Relaxed);
    }

    /// Counts packets that did not wait, for lack of room.
    pub fn undeferred(&self, packets: u64) {
        self.undeferred.fetch_add(packets, Ordering::Relaxed);
    }

    /// Records the ends of a packet whose hop limit was reached.
    pub fn expired(&self, packet: &[u8]) {
        *self.expired.lock().unwrap_or_else(PoisonError::into_inner) = Expired::of(packet);
    }

    /// Counts a dropped packet.
    pub fn dropped(&self, reason: Reason) {
        if let Some(count) = self.dropped.get(usize::from(reason.index())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The number of packets whose hop limit was reached in the slow path, and the ends of a recent one.
pub fn expired(tallies: &[Arc<QueueCounters>]) -> (u64, Option<Expired>) {
    let count = |tally: &Arc<QueueCounters>| {
        tally.dropped[usize::from(Reason::HopLimit.index())].load(Ordering::Relaxed)
    };
    let last =
        |tally: &Arc<QueueCounters>| *tally.expired.lock().unwrap_or_else(PoisonError::into_inner);
    (
        tallies.iter().map(count).sum(),
        tallies.iter().find_map(last),
    )
}

/// The number of errors of routers that answered probes of a CLAT.
pub fn questions_answered(tallies: &[Arc<QueueCounters>]) -> u64 {
    let count = |tally: &Arc<QueueCounters>| tally.questions_answered.load(Ordering::Relaxed);
    tallies.iter().map(count).sum()
}

/// The number of packets that the slow path has dropped for lack of a route.
pub fn unroutable(tallies: &[Arc<QueueCounters>]) -> u64 {
    let count = |tally: &Arc<QueueCounters>| {
        tally.dropped[usize::from(Reason::NoRoute.index())].load(Ordering::Relaxed)
    };
    tallies.iter().map(count).sum()
}

/// Reads all counters; those of the fast path come first.
pub fn read(fast: Option<&FastPath>, tallies: &[Arc<QueueCounters>]) -> io::Result<Vec<Counter>> {
    let mut counters = Vec::new();

    if let Some(fast) = fast {
        for (name, count) in FATE_NAMES.iter().zip(fast.counts()?) {
            // The same form as the slow path's names.
            let name = match name.strip_prefix("drop_") {
                Some(reason) => format!("fast.drop.{reason}"),
                None => format!("fast.{name}"),
            };
            counters.push(Counter {
                name,
                packets: count.packets,
                bytes: Some(count.bytes),
            });
        }
    }
    let sum = |pick: &dyn Fn(&QueueCounters) -> &AtomicU64| {
        tallies
            .iter()
            .map(|tally| pick(tally).load(Ordering::Relaxed))
            .sum::<u64>()
    };
    let mut slow = |name: &str, packets: u64, bytes: Option<u64>| {
        counters.push(Counter {
            name: format!("slow.{name}"),
            packets,
            bytes,
        });
    };
    for (name, direction) in [("translated_4to6", 0), ("translated_6to4", 1)] {
        slow(
            name,
            sum(&|t| &t.translated[direction].0),
            Some(sum(&|t| &t.translated[direction].1)),
        );
    }
    slow("originated", sum(&|t| &t.emitted), None);
    slow("held", sum(&|t| &t.held), None);
    slow("mss_clamped", sum(&|t| &t.mss_clamped), None);
    slow("write_failed", sum(&|t| &t.unwritten), None);
    slow("forwarded", sum(&|t| &t.led.0), Some(sum(&|t| &t.led.1)));
    slow("deferred", sum(&|t| &t.deferred), None);
    slow("deferred_unacknowledged", sum(&|t| &t.unacknowledged), None);
    slow("deferred_no_room", sum(&|t| &t.undeferred), None);
    slow("drop.strayed", sum(&|t| &t.strayed), None);
    for reason in Reason::ALL {
        // Only the fast path declines packets: it leaves them to the slow path, which cannot pass them on.
        if !reason.name().starts_with("decline_") {
            let packets = sum(&|t| &t.dropped[usize::from(reason.index())]);
            slow(&format!("drop.{}", reason.name()), packets, None);
        }
    }
    Ok(counters)
}

/// Packets that both paths have translated so far: from IPv4, from IPv6. Zero if the counters cannot be read.
pub fn translated(fast: Option<&FastPath>, tallies: &[Arc<QueueCounters>]) -> [u64; 2] {
    let counters = read(fast, tallies).unwrap_or_default();
    ["translated_4to6", "translated_6to4"].map(|name| {
        let both = counters.iter().filter(|its| its.name.ends_with(name));
        both.map(|its| its.packets).sum()
    })
}

/// Packets that came to a CLAT from IPv6 and were translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Packets.
    pub packets: u64,
    /// The packets among them that are no ICMP errors.
    pub answers: u64,
}

/// The packets that both paths have translated from IPv6 so far.
pub fn came(fast: Option<&FastPath>, tallies: &[Arc<QueueCounters>]) -> Came {
    let [_, packets] = translated(fast, tallies);
    let errors = tallies.iter();
    let errors: u64 = errors.map(|t| t.errors6.load(Ordering::Relaxed)).sum();
    Came {
        packets,
        answers: packets.saturating_sub(errors),
    }
}

/// The numbers of entries in the tables of a NAT64, of sessions that did not fit into the fast path, and of failed writes of
/// the state file.
pub fn of_state(counts: &Counts, refused: u64, unheard: u64, unwritten: u64) -> Vec<Counter> {
    let gauges = [
        ("state.bindings", u64::from(counts.bindings)),
        ("state.sessions", u64::from(counts.sessions)),
        ("state.sources", u64::from(counts.sources)),
        ("state.held_syns", counts.held_syns as u64),
        ("state.refused_by_fast_path", refused),
        ("state.unheard_openings", unheard),
        ("state.write_failed", unwritten),
    ];
    let counter = |(name, packets): (&str, u64)| Counter {
        name: name.to_owned(),
        packets,
        bytes: None,
    };
    gauges.map(counter).into()
}

/// A table for people: all counters, or those that are not zero.
pub fn table(counters: &[Counter], all: bool) -> String {
    let shown: Vec<&Counter> = counters.iter().filter(|c| all || c.packets > 0).collect();
    let width = shown.iter().map(|c| c.name.len()).max().unwrap_or(0).max(7);
    let mut text = format!("{:width$}  {:>15}  {:>18}\n", "counter", "packets", "bytes");
    for counter in shown {
        let bytes = counter
            .bytes
            .map_or(String::new(), |bytes| bytes.to_string());
        text += format!(
            "{:width$}  {:>15}  {bytes:>18}",
            counter.name, counter.packets
        )
        .trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decline_of_the_fast_path_is_a_reason() {
        for name in FATE_NAMES
            .iter()
            .filter(|name| name.starts_with("decline_"))
        {
            assert!(
                Reason::ALL.iter().any(|reason| reason.name() == *name),
                "{name} is in bpf/abi.h only"
            );
        }
    }

    #[test]
    fn the_table_leaves_out_zeros_unless_asked() {
        let tally = Arc::new(QueueCounters::default());
        tally.translated(Direction::FourToSix, 100);
        tally.dropped(Reason::HopLimit);
        let counters = read(None, &[tally.clone(), tally]).expect("no kernel is asked");
        let text = table(&counters, false);
        assert!(
            text.contains("slow.translated_4to6") && text.contains("200"),
            "{text}"
        );
        assert!(
            text.contains("slow.drop.hop_limit") && !text.contains("slow.drop.truncated"),
            "{text}"
        );
        assert!(table(&counters, true).contains("slow.drop.truncated"));
    }
}
