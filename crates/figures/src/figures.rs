// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a running program for a monitoring system: numbers of one moment, independent of their format.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster_status::ClusterStatus;
use crate::counters::Counter;

/// The protocols in the order of figures by protocol: that of `Protocol::index` in `diolkos-xlat`.
pub const PROTOCOLS: [&str; 3] = ["tcp", "udp", "icmp"];

/// The kinds of prefixes, in the order of figures by kind.
pub const KINDS: [&str; 3] = ["site", "source", "host"];

/// All figures of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// A description of the program: names (`mode`, `device`, …) and values.
    pub about: Vec<(String, String)>,
    /// The counters of `diolkos show counters --all`.
    pub counters: Vec<Counter>,
    /// Figures of a NAT64.
    pub state: Option<StateFigures>,
    /// Figures of a cluster node.
    #[serde(default)]
    pub cluster: Option<ClusterStatus>,
}

/// Figures of the tables, the pool and the controller of the fast path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateFigures {
    /// Sessions by protocol.
    pub sessions: [u32; 3],
    /// Bindings by protocol.
    pub bindings: [u32; 3],
    /// `nat64.max_sessions`.
    pub max_sessions: u32,
    /// `nat64.max_bindings`.
    pub max_bindings: u32,
    /// IPv6 prefixes of `nat64.source_prefix_len` that have a binding.
    pub sources: u32,
    /// SYNs from the IPv4 side that wait for a SYN of the node.
    pub held_syns: u64,
    /// The most SYNs that may wait.
    #[serde(default)]
    pub max_held_syns: u32,
    /// Fragments that wait for the first fragment of their packet.
    pub held_fragments: u64,
    /// Addresses of the pool.
    pub pool_addresses: u64,
    /// Ports of the pool by protocol.
    pub pool: [PoolFigures; 3],
    /// The same of each pool, if there are pools by source: the first ones, and the fullest ones.
    #[serde(default)]
    pub source_pools: Vec<SourcePoolFigures>,
    /// Free blocks of ports, and all blocks; 0: ports are not allocated in blocks.
    #[serde(default)]
    pub port_blocks: [u64; 2],
    /// Sources have fixed ports, and these blocks in addition.
    #[serde(default)]
    pub is_deterministic: bool,
    /// Sessions opened from the IPv4 side, and the most that are allowed at this moment.
    #[serde(default)]
    pub outside_sessions: [u64; 2],
    /// Leases: nodes for which the fast path may open sessions by itself.
    pub leases: u32,
    /// Sessions lent with these leases and not opened yet.
    pub lent_sessions: u32,
    /// How long packets waited for the tables: for the lock, and until the reports of the fast path had been processed.
    pub lock_wait: Spread,
    /// How long one packet of the slow path held the lock of the tables.
    pub lock_held: Spread,
    /// All resources with a limit.
    #[serde(default)]
    pub resources: Vec<ResourceFigures>,
    /// Prefixes that have nearly used up their share: sites, sources, hosts.
    #[serde(default)]
    pub near_share: [u64; 3],
}

/// A resource with a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceFigures {
    /// Its name, from a fixed list, except for `log_queue.NAME`.
    pub name: String,
    /// The amount in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
    /// Its alarm is raised.
    pub is_raised: bool,
}

/// An alarm that is raised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The name of the resource that is nearly used up, or `shares`.
    pub resource: String,
    /// Its usage, percent; of shares, the highest.
    pub percent: u64,
    /// A text: the usage, the limit, and what to do.
    pub text: String,
}

/// Ports of one protocol, on all addresses of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolFigures {
    /// All ports.
    pub ports: u64,
    /// Ports that are neither bound nor lent to the fast path.
    pub free: u64,
    /// Ports that are lent to the fast path and not bound yet.
    pub lent: u64,
    /// Addresses without a free port.
    pub exhausted_addresses: u64,
}

/// The ports of a pool by source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourcePoolFigures {
    /// The first of its IPv6 prefixes, or `default`.
    pub pool: String,
    /// Free ports, and all ports, of each protocol.
    pub ports: [[u64; 2]; 3],
    /// Free blocks of ports, and all blocks.
    #[serde(default)]
    pub blocks: [u64; 2],
}

/// A histogram of durations, whose bounds double.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The number of durations up to [`Spread::bound`] of this index and above the bound of the index before; the last bucket
    /// counts those above all bounds.
    pub buckets: [u64; Spread::BUCKETS],
    /// The sum of all durations, nanoseconds.
    pub sum_ns: u64,
}

impl Spread {
    /// The bounds, and one bucket for longer durations.
    pub const BUCKETS: usize = 17;
    /// The first bound is 2 to the power of this, nanoseconds.
    const FIRST: u32 = 10;

    /// Adds a duration.
    pub fn note(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // The bit length of ns - 1 is the exponent of the least power of two that is not less than ns.
        let bits = u64::BITS - ns.saturating_sub(1).leading_zeros();
        let at = bits.saturating_sub(Spread::FIRST) as usize;
        self.buckets[at.min(Spread::BUCKETS - 1)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// The bound of a bucket, seconds; `None` for the last one.
    pub fn bound(at: usize) -> Option<f64> {
        let ns = 1u64.checked_shl(Spread::FIRST + at as u32)?;
        (at + 1 < Spread::BUCKETS).then_some(ns as f64 * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_first_bucket_whose_bound_it_does_not_pass() {
        for (ns, bucket) in [
            (0, 0),
            (1, 0),
            (1024, 0),
            (1025, 1),
            (2048, 1),
            (2049, 2),
            (1 << 25, 15),
            ((1 << 25) + 1, 16),
            (u64::MAX, 16),
        ] {
            let mut spread = Spread::default();
            spread.note(Duration::from_nanos(ns));
            assert_eq!(spread.buckets[bucket], 1, "{ns} ns");
            assert_eq!(spread.sum_ns, ns);
            let is_within = |at| Spread::bound(at).is_none_or(|s| ns as f64 * 1e-9 <= s);
            assert!(
                is_within(bucket) && (bucket == 0 || !is_within(bucket - 1)),
                "{ns} ns"
            );
        }
        assert_eq!(Spread::bound(Spread::BUCKETS - 1), None);
    }
}
