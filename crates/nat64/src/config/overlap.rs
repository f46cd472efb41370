// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds parts of a pool with a common address and port, which would be counted twice, and parts of two pools with a
//! common address, which has one pool.

use super::{Pool4, Pools};

/// Returns each part that overlaps an earlier or wider one, together with that one.
pub(super) fn parts(pool: &[Pool4], pools: &Pools) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..pool.len()).collect();
    order.sort_by_key(|&at| (pool[at].net.network(), pool[at].net.prefix_len(), at));
    let mut found = Vec::new();
    // The parts whose networks contain that of the next part.
    let mut around: Vec<usize> = Vec::new();
    for at in order {
        let part = &pool[at];
        while around
            .last()
            .is_some_and(|&other| !pool[other].net.contains(&part.net))
        {
            around.pop();
        }
        let other = around
            .iter()
            .copied()
            .find(|&other| pools.of_part(at) != pools.of_part(other) || share(part, &pool[other]));
        // The part that is later in the list comes first.
        found.extend(other.map(|other| (at.max(other), at.min(other))));
        around.push(at);
    }
    found.sort_unstable();
    found
}

/// Returns true if two parts with common addresses also have common ports.
fn share(one: &Pool4, other: &Pool4) -> bool {
    let (a, b) = (&one.ports, &other.ports);
    let ports = a.start() <= b.end() && b.start() <= a.end();
    ports
        && one
            .protocols
            .iter()
            .any(|protocol| other.protocols.contains(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;

    fn part(net: &str, ports: std::ops::RangeInclusive<u16>, protocols: &[Protocol]) -> Pool4 {
        Pool4 {
            interface: None,
            net: net.parse().unwrap(),
            ports,
            protocols: protocols.to_vec(),
            sources: vec![],
        }
    }

    fn overlaps(pool: &[Pool4]) -> Vec<(usize, usize)> {
        parts(pool, &Pools::of(pool))
    }

    #[test]
    fn an_address_has_one_pool_with_all_its_ports() {
        let all = &Protocol::ALL[..];
        let wide = part("192.0.2.0/24", 2000..=2999, all);
        let mut of_source = part("192.0.2.7/32", 1024..=1999, all);
        assert_eq!(overlaps(&[wide.clone(), of_source.clone()]), []);
        of_source.sources = vec!["2001:db8::/48".parse().unwrap()];
        assert_eq!(overlaps(&[of_source, wide]), [(1, 0)]);
    }

    #[test]
    fn parts_that_share_ports_overlap() {
        let all = &Protocol::ALL[..];
        let wide = part("192.0.2.32/29", 1024..=65535, all);
        let inside = part("192.0.2.36/32", 1024..=2047, all);
        assert_eq!(overlaps(&[wide.clone(), inside.clone()]), [(1, 0)]);
        assert_eq!(overlaps(&[inside.clone(), wide.clone()]), [(1, 0)]);
        let beside = part("192.0.2.40/29", 1024..=65535, all);
        assert_eq!(overlaps(&[wide.clone(), beside, inside]), [(2, 0)]);
        let low = part("192.0.2.36/32", 1..=1023, all);
        assert_eq!(overlaps(&[wide, low]), []);
        let tcp = part("192.0.2.36/32", 1..=9, &[Protocol::Tcp]);
        let udp = part("192.0.2.36/32", 1..=9, &[Protocol::Udp]);
        assert_eq!(overlaps(&[tcp, udp]), []);
    }
}
