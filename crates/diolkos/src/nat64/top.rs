// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who has most: prefixes of each size, and what they have of what they may have.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use diolkos_nat64::config::LevelKind;
use diolkos_nat64::session::{Held, Holding};
use serde::{Deserialize, Serialize};

use super::controller::BUDGET;
use super::show::{Entries, Row};
use super::Controller;

/// Lines of each size that one answer holds.
const LINES: usize = 1000;

/// By what prefixes are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// How many sessions there are
    #[default]
    Sessions,
    /// How many bindings there are
    Bindings,
    /// Percent of what it may have of anything
    Share,
}

impl Order {
    fn of(self, holding: &Holding) -> u64 {
        match self {
            Order::Sessions => holding.sessions.has,
            Order::Bindings => holding.bindings.has,
            Order::Share => holding.percent(),
        }
    }
}

/// A prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopRow {
    prefix: String,
    /// `site`, `source` or `host`.
    kind: String,
    /// Of that of which it has most for what it may have.
    percent: u64,
    sessions: u64,
    sessions_may: u64,
    /// Opened from the IPv4 side.
    sessions_from_outside: u32,
    bindings: u64,
    bindings_may: u64,
    tcp_ports: u64,
    tcp_ports_may: u64,
    udp_ports: u64,
    udp_ports_may: u64,
    icmp_ids: u64,
    icmp_ids_may: u64,
}

/// Those that have most so far; the least of them comes out first.
type Largest = BinaryHeap<Reverse<(u64, Rank)>>;

/// The first `lines` prefixes of each size, the widest size first. Packets pass in between.
pub fn top(controller: &Controller, order: Order, lines: usize) -> Entries<TopRow> {
    let lines = lines.min(LINES);
    let mut sizes: Vec<(u8, Largest)> = Vec::new();
    let mut total = 0;
    let mut next = Some(0);
    while let Some(first) = next {
        let (holdings, after) = controller.holdings_from(first, BUDGET);
        next = after;
        total += holdings.len() as u32;
        for holding in holdings {
            let len = holding.prefix_len;
            let at = match sizes.iter().position(|(its, _)| *its == len) {
                Some(at) => at,
                None => {
                    sizes.push((len, BinaryHeap::new()));
                    sizes.len() - 1
                }
            };
            let heap = &mut sizes[at].1;
            heap.push(Reverse((order.of(&holding), Rank(holding))));
            if heap.len() > lines {
                heap.pop();
            }
        }
    }
    sizes.sort_by_key(|(len, _)| *len);
    let ranked = sizes
        .into_iter()
        .flat_map(|(_, heap)| heap.into_sorted_vec());
    let rows = ranked.map(|Reverse((_, Rank(holding)))| TopRow::from(&holding));
    Entries {
        entries: rows.collect(),
        total,
    }
}

/// Among equals, the lower prefix comes first.
#[derive(PartialEq, Eq)]
struct Rank(Holding);

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> std::cmp::Ordering {
        other.0.prefix.cmp(&self.0.prefix)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&Holding> for TopRow {
    fn from(holding: &Holding) -> TopRow {
        let [tcp, udp, icmp] = holding.ports;
        let kind = match holding.kind {
            LevelKind::Site => "site",
            LevelKind::Source => "source",
            LevelKind::Host => "host",
        };
        TopRow {
            prefix: format!("{}/{}", holding.prefix, holding.prefix_len),
            kind: kind.to_owned(),
            percent: holding.percent(),
            sessions: holding.sessions.has,
            sessions_may: holding.sessions.may,
            sessions_from_outside: holding.outside,
            bindings: holding.bindings.has,
            bindings_may: holding.bindings.may,
            tcp_ports: tcp.has,
            tcp_ports_may: tcp.may,
            udp_ports: udp.has,
            udp_ports_may: udp.may,
            icmp_ids: icmp.has,
            icmp_ids_may: icmp.may,
        }
    }
}

impl Row for TopRow {
    const HEADS: &'static [&'static str] = &[
        "prefix",
        "kind",
        "most",
        "sessions",
        "from IPv4",
        "bindings",
        "TCP ports",
        "UDP ports",
        "ICMP",
    ];

    fn cells(&self) -> Vec<String> {
        let of = |has: u64, may: u64| match has {
            0 => "-".to_owned(),
            _ => format!("{has} ({} %)", Held { has, may }.percent()),
        };
        vec![
            self.prefix.clone(),
            self.kind.clone(),
            format!("{} %", self.percent),
            of(self.sessions, self.sessions_may),
            self.sessions_from_outside.to_string(),
            of(self.bindings, self.bindings_may),
            of(self.tcp_ports, self.tcp_ports_may),
            of(self.udp_ports, self.udp_ports_may),
            of(self.icmp_ids, self.icmp_ids_may),
        ]
    }
}
