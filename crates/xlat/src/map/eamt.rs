// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The explicit address mapping table (RFC 7757 section 3), looked up by longest match.
//!
//! Each direction has one hash table. It holds networks of every prefix length, keyed by network
//! and length. A lookup tries the lengths that occur, longest first. Real tables have one or two
//! lengths, so a lookup takes one or two probes, regardless of the number of entries.

use crate::config::Eam;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The mapping table, in both directions.
#[derive(Debug)]
pub struct Eamt {
    by_ipv4: Side<u32>,
    by_ipv6: Side<u128>,
}

impl Eamt {
    /// Creates the table from entries that [`crate::Config`] has checked: no host bits set, and the
    /// IPv6 suffix at least as long as the IPv4 suffix.
    pub fn new(entries: &[Eam]) -> Eamt {
        let rows = || {
            entries.iter().map(|eam| Row {
                ipv4: eam.v4.network().to_bits(),
                ipv4_len: eam.v4.prefix_len(),
                ipv6: [
                    (eam.v6.network().to_bits() >> 64) as u64,
                    eam.v6.network().to_bits() as u64,
                ],
                ipv6_len: eam.v6.prefix_len(),
            })
        };
        Eamt {
            by_ipv4: Side::new(rows()),
            by_ipv6: Side::new(rows()),
        }
    }

    /// Maps an IPv4 address: IPv6 prefix, suffix of the IPv4 address, zeros in the remaining bits
    /// (RFC 7757 section 3.3.1).
    #[inline]
    pub fn to_ipv6(&self, addr: Ipv4Addr) -> Option<Ipv6Addr> {
        let addr = addr.to_bits();
        let row = self.by_ipv4.longest_match(addr)?;
        let suffix = u128::from(addr ^ row.ipv4);
        // Both suffixes begin right after their prefixes. A shift by 128 occurs only if the IPv4
        // suffix has no bits.
        Some(Ipv6Addr::from_bits(
            row.ipv6() | suffix.checked_shl(row.longer()).unwrap_or(0),
        ))
    }

    /// Maps an IPv6 address: IPv4 prefix, then as many bits of the IPv6 suffix as fit. The
    /// remaining bits are ignored (RFC 7757 section 3.3.2).
    #[inline]
    pub fn to_ipv4(&self, addr: Ipv6Addr) -> Option<Ipv4Addr> {
        let addr = addr.to_bits();
        let row = self.by_ipv6.longest_match(addr)?;
        let suffix = (addr ^ row.ipv6()).checked_shr(row.longer()).unwrap_or(0) as u32;
        Some(Ipv4Addr::from_bits(row.ipv4 | suffix))
    }

    /// Returns true if an entry covers this IPv4 address.
    #[inline]
    pub fn covers_ipv4(&self, addr: Ipv4Addr) -> bool {
        self.by_ipv4.longest_match(addr.to_bits()).is_some()
    }
}

/// One mapping, in 24 bytes: the upper and the lower half of the IPv6 network, the IPv4 network,
/// both lengths.
#[derive(Clone, Copy, Debug)]
struct Row {
    ipv6: [u64; 2],
    ipv4: u32,
    ipv4_len: u8,
    ipv6_len: u8,
}

impl Row {
    /// An empty slot. No network has this length.
    const EMPTY: Row = Row {
        ipv6: [0; 2],
        ipv4: 0,
        ipv4_len: u8::MAX,
        ipv6_len: u8::MAX,
    };

    #[inline]
    fn is_empty(&self) -> bool {
        self.ipv4_len == u8::MAX
    }

    #[inline]
    fn ipv6(&self) -> u128 {
        u128::from(self.ipv6[0]) << 64 | u128::from(self.ipv6[1])
    }

    /// The number of bits by which the IPv6 suffix is longer than the IPv4 suffix.
    #[inline]
    fn longer(&self) -> u32 {
        96 + u32::from(self.ipv4_len) - u32::from(self.ipv6_len)
    }
}

/// An address as a number, and access to the prefix on its side of a row.
trait Address: Copy + Eq + std::fmt::Debug {
    const BITS: u8;
    fn network(row: &Row) -> (Self, u8);
    fn masked(self, len: u8) -> Self;
    fn hash(self, len: u8) -> u64;
}

impl Address for u32 {
    const BITS: u8 = 32;
    fn network(row: &Row) -> (u32, u8) {
        (row.ipv4, row.ipv4_len)
    }
    #[inline]
    fn masked(self, len: u8) -> u32 {
        self & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
    }
    #[inline]
    fn hash(self, len: u8) -> u64 {
        spread(u64::from(self) ^ u64::from(len) << 32)
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    fn network(row: &Row) -> (u128, u8) {
        (row.ipv6(), row.ipv6_len)
    }
    #[inline]
    fn masked(self, len: u8) -> u128 {
        self & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
    }
    #[inline]
    fn hash(self, len: u8) -> u64 {
        spread(self as u64 ^ spread((self >> 64) as u64 ^ u64::from(len)))
    }
}

/// Fibonacci hashing (Knuth, volume 3, section 6.4): the neighbouring keys of a typical table
/// spread evenly over the slots. The upper bits have the best quality. Keys come from the
/// operator's configuration, not from the network, so no secret seed is needed.
#[inline]
fn spread(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One direction: open addressing with linear probing, at most three fifths full. Rows are stored
/// in the slots, so a hit costs one cache miss. Takes 40 bytes a mapping.
#[derive(Debug)]
struct Side<A> {
    /// The prefix lengths that occur, longest first.
    lens: Vec<u8>,
    slots: Vec<Row>,
    key: std::marker::PhantomData<A>,
}

impl<A: Address> Side<A> {
    fn new(rows: impl ExactSizeIterator<Item = Row>) -> Side<A> {
        // At least one slot is empty, even in a table without rows.
        let slots = rows.len() * 5 / 3 + 1;
        let mut side = Side {
            lens: Vec::new(),
            slots: vec![Row::EMPTY; slots],
            key: std::marker::PhantomData,
        };
        for row in rows {
            let (network, len) = A::network(&row);
            debug_assert!(len <= A::BITS);
            side.lens.push(len);
            let mut at = side.first(network.hash(len));
            while !side.slots[at].is_empty() {
                at = side.next(at);
            }
            side.slots[at] = row;
        }
        side.lens.sort_unstable_by(|a, b| b.cmp(a));
        side.lens.dedup();
        side
    }

    #[inline]
    fn longest_match(&self, addr: A) -> Option<&Row> {
        self.lens
            .iter()
            .find_map(|&len| self.exact(addr.masked(len), len))
    }

    #[inline]
    fn exact(&self, network: A, len: u8) -> Option<&Row> {
        let mut at = self.first(network.hash(len));
        // The loop ends because two fifths of the slots are empty.
        loop {
            let row = &self.slots[at];
            if A::network(row) == (network, len) {
                return Some(row);
            }
            if row.is_empty() {
                return None;
            }
            at = self.next(at);
        }
    }

    /// The first slot for a hash: the hash as a fraction of 2^64, scaled to the number of slots.
    #[inline]
    fn first(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(entries: &[(&str, &str)]) -> Eamt {
        let entries: Vec<_> = entries
            .iter()
            .map(|(v4, v6)| Eam {
                v4: v4.parse().unwrap(),
                v6: v6.parse().unwrap(),
            })
            .collect();
        Eamt::new(&entries)
    }

    /// The example table of RFC 7757 section 3.2 and its translations.
    #[test]
    fn rfc_7757_example() {
        let eamt = table(&[
            ("192.0.2.1/32", "2001:db8:aaaa::/128"),
            ("192.0.2.2/32", "2001:db8:bbbb::b/128"),
            ("192.0.2.16/28", "2001:db8:cccc::/124"),
            ("192.0.2.128/26", "2001:db8:dddd::/64"),
            ("192.0.2.192/29", "2001:db8:eeee:8::/62"),
            ("192.0.2.224/31", "64:ff9b::/127"),
        ]);
        for (v4, v6) in [
            ("192.0.2.1", "2001:db8:aaaa::"),
            ("192.0.2.2", "2001:db8:bbbb::b"),
            ("192.0.2.16", "2001:db8:cccc::"),
            ("192.0.2.24", "2001:db8:cccc::8"),
            ("192.0.2.31", "2001:db8:cccc::f"),
            ("192.0.2.128", "2001:db8:dddd::"),
            ("192.0.2.152", "2001:db8:dddd:0:6000::"),
            ("192.0.2.183", "2001:db8:dddd:0:dc00::"),
            ("192.0.2.191", "2001:db8:dddd:0:fc00::"),
            ("192.0.2.193", "2001:db8:eeee:8:8000::"),
            ("192.0.2.225", "64:ff9b::1"),
        ] {
            let (v4, v6) = (v4.parse().unwrap(), v6.parse().unwrap());
            assert_eq!(eamt.to_ipv6(v4), Some(v6), "{v4}");
            assert_eq!(eamt.to_ipv4(v6), Some(v4), "{v6}");
        }
        // The remaining bits of a longer IPv6 suffix are ignored.
        assert_eq!(
            eamt.to_ipv4("2001:db8:dddd:0:6000::abcd".parse().unwrap()),
            Some("192.0.2.152".parse().unwrap())
        );
        assert_eq!(eamt.to_ipv6("192.0.2.3".parse().unwrap()), None);
        assert_eq!(eamt.to_ipv4("2001:db8:ffff::".parse().unwrap()), None);
    }

    #[test]
    fn the_longest_match_wins() {
        let eamt = table(&[
            ("198.51.100.0/24", "2001:db8::/120"),
            ("198.51.100.8/32", "2001:db8::8/128"),
        ]);
        assert_eq!(
            eamt.by_ipv4.longest_match(0xc633_6408).unwrap().ipv4_len,
            32
        );
        assert_eq!(
            eamt.by_ipv4.longest_match(0xc633_6409).unwrap().ipv4_len,
            24
        );
    }

    #[test]
    fn the_whole_of_ipv4_in_one_entry() {
        let eamt = table(&[("0.0.0.0/0", "2001:db8::/96")]);
        assert_eq!(
            eamt.to_ipv6("255.255.255.255".parse().unwrap()),
            Some("2001:db8::ffff:ffff".parse().unwrap())
        );
        assert_eq!(
            eamt.to_ipv4("2001:db8::102:304".parse().unwrap()),
            Some("1.2.3.4".parse().unwrap())
        );
    }

    #[test]
    fn an_empty_table_maps_nothing() {
        assert_eq!(table(&[]).to_ipv6("192.0.2.1".parse().unwrap()), None);
    }

    /// Networks from a small range, so that they nest and collide.
    fn crowded() -> impl Strategy<Value = Vec<Eam>> {
        let one =
            (any::<u16>(), any::<u16>(), 16u8..=32, 0u8..=16).prop_map(|(a, b, len4, less)| {
                let v4 = Ipv4Addr::from_bits(0x0a00_0000 | u32::from(a));
                let v6 = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(b) << 40);
                let v4 = ipnet::Ipv4Net::new(v4, len4).unwrap().trunc();
                let v6 = ipnet::Ipv6Net::new(v6, 96 + len4 - less).unwrap().trunc();
                Eam { v4, v6 }
            });
        prop::collection::vec(one, 0..60).prop_map(|mut entries| {
            entries.sort_by_key(|eam| eam.v4);
            entries.dedup_by_key(|eam| eam.v4);
            entries.sort_by_key(|eam| eam.v6);
            entries.dedup_by_key(|eam| eam.v6);
            entries
        })
    }

    proptest! {
        #[test]
        fn a_lookup_finds_what_looking_at_every_entry_finds(entries in crowded(), near in any::<(u16, u16)>()) {
            let eamt = Eamt::new(&entries);
            let v4 = Ipv4Addr::from_bits(0x0a00_0000 | u32::from(near.0));
            let best = entries.iter().filter(|eam| eam.v4.contains(&v4)).max_by_key(|eam| eam.v4.prefix_len());
            let expected = best.map(|eam| {
                let suffix = u128::from(v4.to_bits()) << (96 + eam.v4.prefix_len() - eam.v6.prefix_len());
                Ipv6Addr::from_bits(eam.v6.addr().to_bits() | suffix & eam.v6.hostmask().to_bits())
            });
            prop_assert_eq!(eamt.to_ipv6(v4), expected);

            let v6 = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(near.1) << 40 | 0xff_ffff);
            let best = entries.iter().filter(|eam| eam.v6.contains(&v6)).max_by_key(|eam| eam.v6.prefix_len());
            let expected = best.map(|eam| {
                let suffix = v6.to_bits() >> (96 + eam.v4.prefix_len() - eam.v6.prefix_len());
                Ipv4Addr::from_bits(eam.v4.addr().to_bits() | suffix as u32 & eam.v4.hostmask().to_bits())
            });
            prop_assert_eq!(eamt.to_ipv4(v6), expected);
        }
    }
}
