// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every fate of a packet by its name, of both paths, in one list.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diolkos_core::session::Counts;
use diolkos_core::Reason;
use diolkos_sys::fastpath::{FastPath, FATE_NAMES};
use serde::{Deserialize, Serialize};

/// One line of `diolkos show counters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// `fast.` or `slow.` and the fate.
    pub name: String,
    /// Packets; a super-packet is one.
    pub packets: u64,
    /// Bytes of their network layer, where they are counted.
    pub bytes: Option<u64>,
}

/// What one reader of the TUN device did; each has its own, so that no two write to the same cache line.
#[derive(Debug)]
pub struct Tally {
    translated: [(AtomicU64, AtomicU64); 2],
    /// ICMPv6 errors among them. The fast path translates none.
    errors6: AtomicU64,
    /// Of routers, about questions of a CLAT.
    questions_answered: AtomicU64,
    emitted: AtomicU64,
    held: AtomicU64,
    unwritten: AtomicU64,
    led: (AtomicU64, AtomicU64),
    strayed: AtomicU64,
    deferred: AtomicU64,
    unacknowledged: AtomicU64,
    undeferred: AtomicU64,
    dropped: Vec<AtomicU64>,
    expired: Mutex<Option<Expired>>,
}

/// The ends of a packet that ran out of hops, as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its source.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
}

impl Expired {
    /// Those of a packet; None if it is shorter than its header.
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

/// From which family to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// IPv4 in, IPv6 out.
    FourToSix = 0,
    /// IPv6 in, IPv4 out.
    SixToFour = 1,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            translated: Default::default(),
            errors6: AtomicU64::default(),
            questions_answered: AtomicU64::default(),
            emitted: AtomicU64::default(),
            held: AtomicU64::default(),
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

impl Tally {
    /// A packet was translated.
    pub fn translated(&self, direction: Direction, bytes: usize) {
        let (packets, total) = &self.translated[direction as usize];
        packets.fetch_add(1, Ordering::Relaxed);
        total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A packet that was translated is an ICMPv6 error.
    pub fn error6(&self) {
        self.errors6.fetch_add(1, Ordering::Relaxed);
    }

    /// Such an error answers a question of a CLAT.
    pub fn question_answered(&self) {
        self.questions_answered.fetch_add(1, Ordering::Relaxed);
    }

    /// A packet of our own was sent: a fragment or an ICMP error.
    pub fn emitted(&self) {
        self.emitted.fetch_add(1, Ordering::Relaxed);
    }

    /// A packet waits for another one: a fragment for the first of its packet, a SYN for that of the other side.
    pub fn held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// The kernel did not take a packet.
    pub fn unwritten(&self) {
        self.unwritten.fetch_add(1, Ordering::Relaxed);
    }

    /// A packet, or a fragment of one, was sent to another gateway.
    pub fn led(&self, bytes: usize) {
        let (packets, total) = &self.led;
        packets.fetch_add(1, Ordering::Relaxed);
        total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A packet for another gateway did not meet the program that sends it, and the kernel has dropped it.
    pub fn strayed(&self) {
        self.strayed.fetch_add(1, Ordering::Relaxed);
    }

    /// So many packets of new bindings have left after they had waited for another gateway, so many of them although none has
    /// acknowledged the binding.
    pub fn deferred(&self, [all, unacknowledged]: [u64; 2]) {
        self.deferred.fetch_add(all, Ordering::Relaxed);
        let count = &self.unacknowledged;
        count.fetch_add(unacknowledged, Ordering::Relaxed);
    }

    /// So many packets did not wait, for want of room.
    pub fn undeferred(&self, packets: u64) {
        self.undeferred.fetch_add(packets, Ordering::Relaxed);
    }

    /// A packet ran out of hops.
    pub fn expired(&self, packet: &[u8]) {
        *self.expired.lock().unwrap_or_else(PoisonError::into_inner) = Expired::of(packet);
    }

    /// A packet was dropped.
    pub fn dropped(&self, reason: Reason) {
        if let Some(count) = self.dropped.get(usize::from(reason.index())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How many packets ran out of hops in the slow path, and the ends of one of the last.
pub fn expired(tallies: &[Arc<Tally>]) -> (u64, Option<Expired>) {
    let count = |tally: &Arc<Tally>| {
        tally.dropped[usize::from(Reason::HopLimit.index())].load(Ordering::Relaxed)
    };
    let last = |tally: &Arc<Tally>| *tally.expired.lock().unwrap_or_else(PoisonError::into_inner);
    (
        tallies.iter().map(count).sum(),
        tallies.iter().find_map(last),
    )
}

/// How many errors of routers about questions of a CLAT have come.
pub fn questions_answered(tallies: &[Arc<Tally>]) -> u64 {
    let count = |tally: &Arc<Tally>| tally.questions_answered.load(Ordering::Relaxed);
    tallies.iter().map(count).sum()
}

/// How many packets the slow path has dropped because no way leads on.
pub fn unroutable(tallies: &[Arc<Tally>]) -> u64 {
    let count = |tally: &Arc<Tally>| {
        tally.dropped[usize::from(Reason::NoRoute.index())].load(Ordering::Relaxed)
    };
    tallies.iter().map(count).sum()
}

/// Reads all counters, the fast path's first.
pub fn read(fast: Option<&FastPath>, tallies: &[Arc<Tally>]) -> io::Result<Vec<Counter>> {
    let mut counters = Vec::new();

    if let Some(fast) = fast {
        for (name, count) in FATE_NAMES.iter().zip(fast.counts()?) {
            // As the slow path's.
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
    let sum = |pick: &dyn Fn(&Tally) -> &AtomicU64| {
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
    slow("write_failed", sum(&|t| &t.unwritten), None);
    slow("forwarded", sum(&|t| &t.led.0), Some(sum(&|t| &t.led.1)));
    slow("deferred", sum(&|t| &t.deferred), None);
    slow("deferred_unacknowledged", sum(&|t| &t.unacknowledged), None);
    slow("deferred_no_room", sum(&|t| &t.undeferred), None);
    slow("drop.strayed", sum(&|t| &t.strayed), None);
    for reason in Reason::ALL {
        // Declines are the fast path's; the slow path has no one to decline to.
        if !reason.name().starts_with("decline_") {
            let packets = sum(&|t| &t.dropped[usize::from(reason.index())]);
            slow(&format!("drop.{}", reason.name()), packets, None);
        }
    }
    Ok(counters)
}

/// Packets that were translated so far, by both paths: from IPv4, from IPv6. Zero where they cannot be read.
pub fn translated(fast: Option<&FastPath>, tallies: &[Arc<Tally>]) -> [u64; 2] {
    let counters = read(fast, tallies).unwrap_or_default();
    ["translated_4to6", "translated_6to4"].map(|name| {
        let both = counters.iter().filter(|its| its.name.ends_with(name));
        both.map(|its| its.packets).sum()
    })
}

/// What has come to a CLAT from IPv6 and was translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Packets.
    pub packets: u64,
    /// Those of them that are no ICMP errors.
    pub answers: u64,
}

/// The same, so far, by both paths.
pub fn came(fast: Option<&FastPath>, tallies: &[Arc<Tally>]) -> Came {
    let [_, packets] = translated(fast, tallies);
    let errors = tallies.iter();
    let errors: u64 = errors.map(|t| t.errors6.load(Ordering::Relaxed)).sum();
    Came {
        packets,
        answers: packets.saturating_sub(errors),
    }
}

/// What a NAT64 holds, as numbers of entries, the sessions that did not fit into the fast path, and the times that the state
/// file could not be written.
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

/// A table for people: what is not zero, or everything.
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
        let tally = Arc::new(Tally::default());
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
