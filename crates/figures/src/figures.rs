// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a running program tells a monitoring system: numbers of one moment, without a word of how they are written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster_status::ClusterStatus;
use crate::counters::Counter;

/// Protocols in the order in which figures of each protocol stand: that of `Protocol::index` in `diolkos-core`.
pub const PROTOCOLS: [&str; 3] = ["tcp", "udp", "icmp"];

/// What prefixes stand for, in the order in which figures of each kind stand.
pub const KINDS: [&str; 3] = ["site", "source", "host"];

/// All figures of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// What the program is: names (`mode`, `device`, …) and values.
    pub about: Vec<(String, String)>,
    /// As `diolkos show counters --all` shows them.
    pub counters: Vec<Counter>,
    /// Of a NAT64.
    pub state: Option<StateFigures>,
    /// Of a node of a cluster.
    #[serde(default)]
    pub cluster: Option<ClusterStatus>,
}

/// Of the tables, the pool and the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateFigures {
    /// Of each protocol.
    pub sessions: [u32; 3],
    /// Of each protocol.
    pub bindings: [u32; 3],
    /// `nat64.max_sessions`.
    pub max_sessions: u32,
    /// `nat64.max_bindings`.
    pub max_bindings: u32,
    /// IPv6 prefixes of `nat64.source_prefix_len` that have a binding.
    pub sources: u32,
    /// SYNs of the IPv4 side that wait for one of the node's.
    pub held_syns: u64,
    /// How many may.
    #[serde(default)]
    pub max_held_syns: u32,
    /// Fragments that wait for the first fragment of their packet.
    pub held_fragments: u64,
    /// Addresses of the pool.
    pub pool_addresses: u64,
    /// Of each protocol.
    pub pool: [PoolFigures; 3],
    /// Blocks of ports that nobody has, and all; 0: ports are not given in blocks.
    #[serde(default)]
    pub port_blocks: [u64; 2],
    /// Sources have fixed ports, and these blocks besides.
    #[serde(default)]
    pub is_deterministic: bool,
    /// Sessions that the IPv4 side has opened, and how many it may have opened at this moment.
    #[serde(default)]
    pub outside_sessions: [u64; 2],
    /// Nodes to which the fast path may open sessions by itself.
    pub leases: u32,
    /// Sessions lent with them and not opened yet.
    pub lent_sessions: u32,
    /// How long packets waited for the tables: for the lock, and until what the fast path has told was taken over.
    pub lock_wait: Spread,
    /// How long one packet of the slow path took in the tables.
    pub lock_held: Spread,
    /// Everything that has a limit.
    #[serde(default)]
    pub resources: Vec<ResourceFigures>,
    /// Prefixes that are near their share: sites, sources, hosts.
    #[serde(default)]
    pub near_share: [u64; 3],
}

/// Something that has a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceFigures {
    /// Its name: from a fixed list, but for `log_queue.NAME`.
    pub name: String,
    /// How much is in use.
    pub used: u64,
    /// Of how much.
    pub limit: u64,
    /// Its alarm is raised.
    pub is_raised: bool,
}

/// An alarm that is raised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The name of what is nearly full, or `shares`.
    pub resource: String,
    /// How full it is, percent; of shares, the highest.
    pub percent: u64,
    /// How much of how much is in use, and what to do.
    pub text: String,
}

/// Ports of one protocol, on all addresses of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolFigures {
    /// All.
    pub ports: u64,
    /// Neither bound nor lent to the fast path.
    pub free: u64,
    /// Lent to the fast path, and not bound yet.
    pub lent: u64,
    /// Addresses without a free port.
    pub exhausted_addresses: u64,
}

/// How long something took, as a histogram whose bounds double.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How often it took at most [`Spread::bound`] of this place, and more than that of the place before; in the last
    /// one, longer than all bounds.
    pub buckets: [u64; Spread::BUCKETS],
    /// Altogether, nanoseconds.
    pub sum_ns: u64,
}

impl Spread {
    /// Bounds, and a place for what is beyond them.
    pub const BUCKETS: usize = 17;
    /// The first bound is 2 to the power of this, nanoseconds.
    const FIRST: u32 = 10;

    /// It took so long.
    pub fn note(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // The number of bits that ns - 1 has is the least power of two that is not below ns.
        let bits = u64::BITS - ns.saturating_sub(1).leading_zeros();
        let at = bits.saturating_sub(Spread::FIRST) as usize;
        self.buckets[at.min(Spread::BUCKETS - 1)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// The bound of a bucket, seconds; none of the last one.
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
