// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on the amount of state: in total, and for each part of the network.
//!
//! Absolute limits are set by the operator (RFC 6888 REQ-4). Shares isolate users from each other: a host gets at most
//! 50 % of the amount that its neighbours leave. So a newcomer always finds room, for any size of pool and tables, and
//! the single user of a small pool may use most of it. Fixed blocks for each subscriber (RFC 7422) would need the
//! number of subscribers, which only the operator knows. Levels are nested: a host has its share of the remainder of
//! its source, a source of the remainder of its site.
//!
//! Shares never end existing state; they only decide whether new state may begin.

/// Number of levels of [`Limits`].
pub const LEVELS: usize = 2 + MAX_SITES;

/// Maximum number of [`Limits::site_prefix_lens`].
pub const MAX_SITES: usize = 2;

/// Longest [`Limits::new_sessions_burst`]: no session has a shorter timeout.
pub const MOST_BURST: u8 = 60;

/// Most sessions a second for which a rate can be given.
pub const MOST_RATE: u32 = 10_000_000;

/// Limits on the amount of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of sessions.
    pub sessions: u32,
    /// Maximum number of bindings, including those of the operator.
    pub bindings: u32,
    /// Maximum number of sessions of one source. The IPv4 side may open half of these. `u32::MAX`: only shares limit
    /// them.
    pub sessions_per_source: u32,
    /// Maximum number of bindings of one source. `u32::MAX`: only shares limit them.
    pub bindings_per_source: u32,
    /// Prefix length of one source: a link or a subscriber.
    pub source_prefix_len: u8,
    /// Prefix lengths of one site: the subscriber, or its provider. 0 means unused; only prefixes wider than a source
    /// count.
    pub site_prefix_lens: [u8; MAX_SITES],
    /// Sessions that one address may open a second (RFC 6888 REQ-5 B); none: as many as it can. The same for a source, and
    /// for a site of the longest length.
    pub new_sessions_per_host: Option<u32>,
    /// Like `new_sessions_per_host`.
    pub new_sessions_per_source: Option<u32>,
    /// Like `new_sessions_per_host`.
    pub new_sessions_per_site: Option<u32>,
    /// Seconds of these rates that may be used at once.
    pub new_sessions_burst: u8,
    /// Share of one address, in percent of the remainder that others leave: of sessions, bindings and ports of the
    /// pool.
    pub host_share: u8,
    /// Share of a source, like `host_share`.
    pub source_share: u8,
    /// Share of a site, like `host_share`.
    pub site_share: u8,
    /// Share of the IPv4 side, in percent of the remaining sessions. The rest is reserved for sessions that nodes open.
    pub outside_share: u8,
    /// Maximum number of SYNs from the IPv4 side that are held at a time. With 0 they are dropped.
    pub held_syns: u32,
    /// Maximum number of held fragments at a time: those that wait for the first fragment of their packet, or for all
    /// others if the packet has to be reassembled. Each family may use half of them.
    pub held_fragments: u32,
    /// Maximum number of held fragments of one source.
    pub held_fragments_per_source: u32,
    /// Maximum number of fragmented packets that are tracked at a time. Each family may use half of them.
    pub fragmented_packets: u32,
    /// Maximum number of tracked packets of one source.
    pub fragmented_packets_per_source: u32,
}

impl Default for Limits {
    /// Providers assign a /56 or a /48 to a site (RFC 6177), so both are levels. A site gets three quarters, because a
    /// translator with a single site should not lose half of its pool. A source and a host get half. With one address
    /// and 64 512 ports in the pool, a /48 has at most 48 384 ports, a /56 36 288, a /64 18 144 and a host 9072, which
    /// is enough for a resolver with 30 queries a second.
    fn default() -> Self {
        Limits {
            sessions: 4_000_000,
            bindings: 4_000_000,
            sessions_per_source: u32::MAX,
            bindings_per_source: u32::MAX,
            source_prefix_len: 64,
            site_prefix_lens: [56, 48],
            new_sessions_per_host: None,
            new_sessions_per_source: None,
            new_sessions_per_site: None,
            new_sessions_burst: 10,
            host_share: 50,
            source_share: 50,
            site_share: 75,
            outside_share: 25,
            held_syns: 4096,
            held_fragments: 1024,
            held_fragments_per_source: 64,
            fragmented_packets: 16_384,
            fragmented_packets_per_source: 1024,
        }
    }
}

/// The kind of a [`Level`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelKind {
    /// A prefix that is wider than a source.
    Site,
    /// A prefix of [`Limits::source_prefix_len`].
    Source,
    /// One address.
    Host,
}

/// A prefix length at which state is limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// The kind of prefix.
    pub kind: LevelKind,
    /// Bits of the prefix.
    pub prefix_len: u8,
    /// Share in percent of the remainder that others leave.
    pub share: u8,
}

impl Level {
    /// The prefix of this level that contains a node.
    pub fn prefix_of(&self, node: std::net::Ipv6Addr) -> u128 {
        node.to_bits() & u128::MAX << (128 - u32::from(self.prefix_len.clamp(1, 128)))
    }

    /// The limit of a prefix that has `used` entries while `free` entries are unused. If any entry is unused, a prefix
    /// without entries gets at least one.
    pub fn limit(&self, used: u64, free: u64) -> u64 {
        share(self.share, used + free)
    }
}

/// Returns a percentage of a number, rounded up.
pub fn share(percent: u8, of: u64) -> u64 {
    (of * u64::from(percent)).div_ceil(100)
}

/// The number of entries that a holder without knowledge of the shares may take without exceeding them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lendable {
    /// For all prefixes together.
    pub all: u32,
    /// For a prefix of each level, in the order of [`Limits::levels`].
    pub of_level: [u32; LEVELS],
}

impl Limits {
    /// All levels, the widest first.
    pub fn levels(&self) -> impl Iterator<Item = Level> {
        let mut sites = self.site_prefix_lens;
        sites.sort_unstable();
        let (source, site_share) = (self.source_prefix_len, self.site_share);
        let sites = sites
            .into_iter()
            .filter(move |&len| 0 < len && len < source);
        let level = |kind, share| {
            move |prefix_len| Level {
                kind,
                prefix_len,
                share,
            }
        };
        sites
            .map(level(LevelKind::Site, site_share))
            .chain(Some(source).map(level(LevelKind::Source, self.source_share)))
            .chain(
                Some(128)
                    .filter(|&len| len > source)
                    .map(level(LevelKind::Host, self.host_share)),
            )
    }

    /// Amounts that are within all shares, whatever others do, of a total of `total`. A share is largest while much is
    /// unused. So of an amount that is shared again at a narrower level, a third may be taken before lending ends; the
    /// next level then has its share of the remaining two thirds.
    pub fn lendable(&self, total: u32, per_source: u32) -> Lendable {
        let is_shared_below = |at: usize| self.levels().skip(at).any(|level| level.share < 100);
        let third_if = |shared: bool, whole: u64| if shared { whole / 3 } else { whole };
        let mut whole = u64::from(total);
        let all = third_if(is_shared_below(0), whole);
        let mut bound = all;
        let mut of_level = [u32::MAX; LEVELS];
        for (at, level) in self.levels().enumerate() {
            if is_shared_below(at) {
                whole = (whole - bound) * u64::from(level.share) / 100;
            }
            bound = third_if(is_shared_below(at + 1), whole);
            of_level[at] = bound as u32;
            if level.kind == LevelKind::Source {
                of_level[at] = of_level[at].min(per_source);
            }
        }
        Lendable {
            all: all as u32,
            of_level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lens(limits: &Limits) -> Vec<u8> {
        limits.levels().map(|level| level.prefix_len).collect()
    }

    #[test]
    fn levels_are_nested() {
        let mut limits = Limits::default();
        assert_eq!(lens(&limits), [48, 56, 64, 128]);
        limits.source_prefix_len = 56;
        assert_eq!(lens(&limits), [48, 56, 128]);
        limits.source_prefix_len = 128;
        limits.site_prefix_lens = [0, 60];
        assert_eq!(lens(&limits), [60, 128]);
    }

    #[test]
    fn without_shares_everything_can_be_lent() {
        let limits = Limits {
            host_share: 100,
            source_share: 100,
            site_share: 100,
            ..Limits::default()
        };
        let lendable = limits.lendable(1000, 300);
        assert_eq!(lendable.all, 1000);
        assert_eq!(lendable.of_level, [1000, 1000, 300, 1000]);
    }

    proptest! {
        /// A prefix within its lendable amount, among others within theirs, is within its share of each level.
        #[test]
        fn what_is_lendable_is_within_every_share(
            total in 0u32..100_000,
            shares in prop::array::uniform3(prop_oneof![Just(100u8), 1u8..=100]),
            parts in prop::array::uniform5(0u64..=1000),
        ) {
            let limits = Limits {
                host_share: shares[0],
                source_share: shares[1],
                site_share: shares[2],
                ..Limits::default()
            };
            let lendable = limits.lendable(total, u32::MAX);
            // Each takes any part of its amount, and no more than the prefix that contains it.
            let mut used = u64::from(lendable.all) * parts[4] / 1000;
            let mut free = u64::from(total) - used;
            for (at, level) in limits.levels().enumerate() {
                used = (u64::from(lendable.of_level[at]) * parts[at] / 1000).min(used);
                let limit = level.limit(used, free);
                prop_assert!(used <= limit, "{level:?}: {used} of {limit}");
                free = free.min(limit - used);
            }
        }
    }
}
