// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools by source: parts of the pool with the same sources form one pool, and parts without sources form the default
//! one. A node gets ports of one pool only: that of the longest prefix that contains it, or the default one.

use super::{Nat64Config, Pool4};
use diolkos_xlat::config::check::{is_unicast6, not_unicast};
use ipnet::{Ipv4Net, Ipv6Net};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The number of a pool.
pub type PoolId = u32;

/// The pool of all nodes that no prefix contains. It may be without addresses.
pub const DEFAULT_POOL: PoolId = 0;

/// Which nodes and which addresses belong to each pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pools {
    /// The sources of each pool, sorted.
    sources: Vec<Vec<Ipv6Net>>,
    /// The pool of each part, in their order.
    of_parts: Vec<PoolId>,
    /// Prefix lengths of all sources, the longest first.
    lens: Vec<u8>,
    /// All sources by length and bits, sorted.
    by_prefix: Vec<(u8, u128, PoolId)>,
    /// The first and the last address of networks, sorted.
    by_address: Vec<(Ipv4Addr, Ipv4Addr, PoolId)>,
}

impl Default for Pools {
    /// The default pool alone.
    fn default() -> Pools {
        Pools::of(&[])
    }
}

impl Pools {
    /// Numbers the pools in the order of their first parts, after the default pool.
    pub fn of(parts: &[Pool4]) -> Pools {
        let mut sources = vec![Vec::new()];
        let mut numbers = HashMap::from([(Vec::new(), DEFAULT_POOL)]);
        let number = |part: &Pool4| {
            let mut its = part.sources.clone();
            its.sort_unstable();
            its.dedup();
            *numbers.entry(its).or_insert_with_key(|its| {
                sources.push(its.clone());
                sources.len() as PoolId - 1
            })
        };
        let of_parts: Vec<PoolId> = parts.iter().map(number).collect();
        let mut nets: Vec<Vec<Ipv4Net>> = vec![Vec::new(); sources.len()];
        for (part, &pool) in parts.iter().zip(&of_parts) {
            nets[pool as usize].push(part.net);
        }
        let mut by_address = Vec::new();
        for (pool, nets) in (0..).zip(&nets) {
            let nets = Ipv4Net::aggregate(nets);
            by_address.extend(
                nets.iter()
                    .map(|net| (net.network(), net.broadcast(), pool)),
            );
        }
        by_address.sort_unstable();
        let mut by_prefix = Vec::new();
        for (pool, nets) in (0..).zip(&sources) {
            by_prefix.extend(nets.iter().map(|net| {
                let bits = net.network().to_bits();
                (net.prefix_len(), bits, pool)
            }));
        }
        by_prefix.sort_unstable();
        let mut lens: Vec<u8> = by_prefix.iter().rev().map(|(len, ..)| *len).collect();
        lens.dedup();
        Pools {
            sources,
            of_parts,
            lens,
            by_prefix,
            by_address,
        }
    }

    /// Number of pools, the default one included.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// The sources of a pool; none for the default one.
    pub fn sources(&self, pool: PoolId) -> &[Ipv6Net] {
        self.sources.get(pool as usize).map_or(&[], Vec::as_slice)
    }

    /// The addresses of a pool: the first and the last of each range, in ascending order.
    pub fn addresses(&self, pool: PoolId) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> + '_ {
        let its = self.by_address.iter().filter(move |its| its.2 == pool);
        its.map(|&(first, last, _)| (first, last))
    }

    /// The pool of a part, by the position of the part.
    pub fn of_part(&self, at: usize) -> PoolId {
        self.of_parts[at]
    }

    /// The pool of a node.
    pub fn of_node(&self, node: Ipv6Addr) -> PoolId {
        self.find(node).map_or(DEFAULT_POOL, |(_, pool)| pool)
    }

    /// The longest source that contains a node, if there is one.
    pub fn source_of(&self, node: Ipv6Addr) -> Option<Ipv6Net> {
        let (len, _) = self.find(node)?;
        Ipv6Net::new(node, len).ok().map(|net| net.trunc())
    }

    /// The length of the longest source that contains a node, and its pool, with one binary search for each length.
    fn find(&self, node: Ipv6Addr) -> Option<(u8, PoolId)> {
        self.find_within(node, 128)
    }

    /// The same of the sources that are not longer than this.
    fn find_within(&self, node: Ipv6Addr, most: u8) -> Option<(u8, PoolId)> {
        let its = |&len: &u8| {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            let prefix = (len, node.to_bits() & mask);
            let found = self
                .by_prefix
                .binary_search_by_key(&prefix, |&(len, bits, _)| (len, bits));
            found.ok().map(|at| (len, self.by_prefix[at].2))
        };
        let lens = self.lens.iter().filter(|len| **len <= most);
        lens.into_iter().find_map(its)
    }

    /// The pool of all nodes of a prefix, if a prefix that is not longer contains it. Nodes in longer ones may have others.
    pub(super) fn around(&self, net: Ipv6Net) -> Option<PoolId> {
        let found = self.find_within(net.network(), net.prefix_len());
        found.map(|(_, pool)| pool)
    }

    /// The pool of an address, with all its ports. None if no pool has it.
    pub fn of_address(&self, addr: Ipv4Addr) -> Option<PoolId> {
        let after = self
            .by_address
            .partition_point(|(first, ..)| *first <= addr);
        let (_, last, pool) = self.by_address.get(after.checked_sub(1)?)?;
        (addr <= *last).then_some(*pool)
    }

    /// Returns true if a node may have this address: it is of the node's pool, or of none.
    pub fn allows(&self, addr: Ipv4Addr, node: Ipv6Addr) -> bool {
        let is_its = |pool| pool == self.of_node(node);
        self.count() == 1 || self.of_address(addr).is_none_or(is_its)
    }

    /// Returns the reason for which a node must not have this address, as the rest of a sentence, or None.
    pub fn refuses(&self, addr: Ipv4Addr, node: Ipv6Addr) -> Option<String> {
        let pool = self.of_address(addr).filter(|_| !self.allows(addr, node))?;
        Some(format!(
            "{addr} is of the pool for {}, and {node} is of the pool for {}",
            self.name(pool),
            self.name(self.of_node(node))
        ))
    }

    /// The name of a pool in output: its sources.
    pub fn name(&self, pool: PoolId) -> String {
        match self.sources(pool) {
            [] => "all other nodes".into(),
            [one] => one.to_string(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        }
    }
}

impl Nat64Config {
    pub(super) fn check_sources(&self, pools: &Pools, add: &mut impl FnMut(String, String)) {
        let len = self.limits.source_prefix_len;
        let mut seen = HashMap::new();
        for (at, part) in self.pool4.iter().enumerate() {
            let mut object = |message| add(format!("nat64.pool4[{at}].sources"), message);
            for net in &part.sources {
                if net.addr() != net.network() {
                    object(format!("{net} has host bits set; write {}", net.trunc()));
                } else if !is_unicast6(*net) {
                    object(not_unicast(*net));
                } else if net.prefix_len() > len {
                    object(format!(
                        "{net} is a part of one source: nat64.source_prefix_len is {len}"
                    ));
                }
                let other = *seen.entry(net).or_insert(at);
                if pools.of_part(other) != pools.of_part(at) {
                    object(format!(
                        "{net} is in nat64.pool4[{other}].sources too, beside others: entries of one pool have the same sources"
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;

    fn part(net: &str, sources: &[&str]) -> Pool4 {
        Pool4 {
            interface: None,
            net: net.parse().expect("a network"),
            ports: 1024..=65535,
            protocols: Protocol::ALL.to_vec(),
            sources: sources
                .iter()
                .map(|net| net.parse().expect("a prefix"))
                .collect(),
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let pools = Pools::of(&[
            part("192.0.2.1/32", &["2001:db8::/32"]),
            part("192.0.2.2/32", &["2001:db8:a:b::/64", "2001:db8:a::/48"]),
            part("192.0.2.3/32", &[]),
            part("192.0.2.4/32", &["2001:db8:a::/48", "2001:db8:a:b::/64"]),
            part("192.0.2.5/32", &["2001:db8:a:b::5/128"]),
        ]);
        assert_eq!(pools.count(), 4);
        let parts: Vec<PoolId> = (0..5).map(|at| pools.of_part(at)).collect();
        assert_eq!(parts, [1, 2, 0, 2, 3]);
        for (node, pool) in [
            ("2001:db8:a:b::5", 3),
            ("2001:db8:a:b::6", 2),
            ("2001:db8:a:c::5", 2),
            ("2001:db8:b::1", 1),
            ("2001:db7:ffff::1", 0),
            ("2001:db9::", 0),
        ] {
            assert_eq!(pools.of_node(node.parse().unwrap()), pool, "{node}");
        }
        for (addr, pool) in [
            ("192.0.2.0", None),
            ("192.0.2.3", Some(0)),
            ("192.0.2.4", Some(2)),
            ("192.0.2.6", None),
        ] {
            assert_eq!(pools.of_address(addr.parse().unwrap()), pool, "{addr}");
        }
    }

    #[test]
    fn without_sources_all_nodes_are_in_the_default_pool() {
        for parts in [vec![], vec![part("192.0.2.0/24", &[])]] {
            let pools = Pools::of(&parts);
            assert_eq!(pools.count(), 1);
            assert_eq!(pools.of_node("2001:db8::1".parse().unwrap()), DEFAULT_POOL);
        }
        let all = Pools::of(&[part("192.0.2.0/24", &["::/0"])]);
        assert_eq!(all.of_node("2001:db8::1".parse().unwrap()), 1);
    }
}
