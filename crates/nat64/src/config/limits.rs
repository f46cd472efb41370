// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much state there may be: in all, and for each part of the network.
//!
//! Absolute limits are what the operator grants (RFC 6888 REQ-4). Shares isolate: a host gets at most 50 %
//! of what its neighbours leave. So whoever comes next finds something, whatever the size of the pool and the
//! tables, and the only user of a small pool is not held down to the size of one of thousands. Fixed blocks
//! for each subscriber (RFC 7422) would need the number of subscribers, which only the operator knows. Levels
//! are nested: a host has its share of what its source has left, a source of what its site has left.
//!
//! A share never takes anything away: it only decides whether something new may begin.

/// Levels of [`Limits`].
pub const LEVELS: usize = 2 + MAX_SITES;

/// Lengths of [`Limits::site_prefix_lens`].
pub const MAX_SITES: usize = 2;

/// How much state there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Sessions.
    pub sessions: u32,
    /// Bindings, those of the operator included.
    pub bindings: u32,
    /// Sessions of one source. Of these, half can be opened from the IPv4 side. `u32::MAX`: shares alone
    /// decide.
    pub sessions_per_source: u32,
    /// Bindings of one source. `u32::MAX`: shares alone decide.
    pub bindings_per_source: u32,
    /// Bits of the prefix that is one source: a link, or a subscriber.
    pub source_prefix_len: u8,
    /// Bits of prefixes that are one site: the subscriber, or his provider. 0 stands for none, and only
    /// those are looked at that are wider than a source.
    pub site_prefix_lens: [u8; MAX_SITES],
    /// Percent of what the others leave that one address may have, of sessions, bindings, and ports of the
    /// pool.
    pub host_share: u8,
    /// The same of a source.
    pub source_share: u8,
    /// The same of a site.
    pub site_share: u8,
    /// Percent of what is left of the sessions that the IPv4 side may open. The rest is for sessions that
    /// nodes open.
    pub outside_share: u8,
    /// SYNs from the IPv4 side that are kept at a time. 0: none; they are dropped.
    pub held_syns: u32,
    /// Fragments that wait for the first of their packet, or where they have to be put together for all others, at a time:
    /// half of them of either family.
    pub held_fragments: u32,
    /// The same, with one source.
    pub held_fragments_per_source: u32,
    /// Packets whose fragments are being followed, at a time: half of them of either family.
    pub fragmented_packets: u32,
    /// The same, with one source.
    pub fragmented_packets_per_source: u32,
}

impl Default for Limits {
    /// Providers assign a /56 or a /48 to a site (RFC 6177), so both are levels. Three quarters for a site: a
    /// translator that has one site alone should not lose half of its pool. Half for a source and a host. With
    /// one address, of which 64 512 ports are in the pool, a /48 has 48 384 at most, a /56 36 288, a /64
    /// 18 144 and a host 9072, enough for a resolver with 30 questions a second.
    fn default() -> Self {
        Limits {
            sessions: 4_000_000,
            bindings: 4_000_000,
            sessions_per_source: u32::MAX,
            bindings_per_source: u32::MAX,
            source_prefix_len: 64,
            site_prefix_lens: [56, 48],
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

/// What a [`Level`] stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelKind {
    /// A prefix that is wider than a source.
    Site,
    /// A prefix of [`Limits::source_prefix_len`].
    Source,
    /// One address.
    Host,
}

/// A size of prefix whose state is limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// What it stands for.
    pub kind: LevelKind,
    /// Bits of the prefix.
    pub prefix_len: u8,
    /// Percent of what the others leave.
    pub share: u8,
}

impl Level {
    /// The prefix of this level that a node is in.
    pub fn prefix_of(&self, node: std::net::Ipv6Addr) -> u128 {
        node.to_bits() & u128::MAX << (128 - u32::from(self.prefix_len.clamp(1, 128)))
    }

    /// How much of something may be a prefix's that has `used` of it, if nobody has `free`. Where anything
    /// is left, somebody who has nothing gets something.
    pub fn limit(&self, used: u64, free: u64) -> u64 {
        share(self.share, used + free)
    }
}

/// Percent of something, rounded up.
pub fn share(percent: u8, of: u64) -> u64 {
    (of * u64::from(percent)).div_ceil(100)
}

/// Up to how much somebody who does not know the shares may take without going beyond them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lendable {
    /// Everybody together.
    pub all: u32,
    /// A prefix of each level, in the order of [`Limits::levels`].
    pub of_level: [u32; LEVELS],
}

impl Limits {
    /// Every level, the widest first.
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

    /// What holds whatever others do, of something of which there is `total`. A share is worth most while
    /// much is left. So of what is shared again below, a third may be taken before lending ends, and the next
    /// level surely has its share of the two thirds that are left.
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
        /// A prefix that keeps to what is lendable, among others that do, is within its share of each level.
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
            // Each has any part of what it may have, and no more than the one that it is in.
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
