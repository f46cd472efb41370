// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of a scarce resource: queries that wait for upstream, and connections.
//!
//! Places are counted for each client and for each network around it. A newcomer always gets a place. If that exceeds a
//! limit, the largest holder loses one: within the full network, the narrower network with the most places, and so on
//! down to a host, which loses its oldest place. Among equals, the one whose last place was taken longest ago loses. So
//! a client can use much while there is no competition, and no share shrinks because an attacker has many addresses in
//! one network.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Prefix lengths at which places are counted, the widest first.
const LENGTHS6: [u8; 5] = [32, 48, 56, 64, 128];
/// Prefix lengths for IPv4 addresses, which are counted as ::ffff:0:0/96: /16, /24 and the host.
const LENGTHS4: [u8; 3] = [112, 120, 128];

/// A network: its prefix length, and its prefix.
type Network = (u8, u128);
const EVERYBODY: Network = (0, 0);

/// A taken place. Tickets sort by host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    host: u128,
    number: u64,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The limit of a client: an IPv4 address, an IPv6 /64 or a host in it.
    Client,
    /// The limit of a wider network.
    Network,
    /// The total limit.
    Everything,
}

/// A place that was taken from its holder.
#[derive(Debug)]
pub struct Evicted<T> {
    /// The place.
    pub ticket: Ticket,
    /// The value that the holder stored.
    pub held: T,
    /// The limit that was reached.
    pub full: Full,
}

#[derive(Debug, Default)]
struct Node {
    count: u32,
    /// Time at which a place was last taken here.
    stamp: u64,
    /// The narrower networks with places; the last one holds the most.
    children: BTreeSet<(u32, Reverse<u64>, Network)>,
}

/// The places and their holders. Each holder stores a value that identifies it when it is evicted.
#[derive(Debug)]
pub struct Shares<T> {
    most: u32,
    of_client: u32,
    nodes: BTreeMap<Network, Node>,
    held: BTreeMap<Ticket, T>,
    next: u64,
}

impl<T> Shares<T> {
    /// Creates `most` places, of which one client (an IPv4 address, an IPv6 /64) has at most `of_client`. An IPv6 /56
    /// has at most twice, and an IPv6 /48 or an IPv4 /24 four times that number.
    pub fn new(most: u32, of_client: u32) -> Shares<T> {
        Shares {
            most: most.max(1),
            of_client: of_client.max(1),
            nodes: BTreeMap::new(),
            held: BTreeMap::new(),
            next: 0,
        }
    }

    /// Takes a place. If that exceeds a limit, another place is evicted, never the new one.
    pub fn take(&mut self, client: IpAddr, held: T) -> (Ticket, Option<Evicted<T>>) {
        let host = bits(client);
        self.next += 1;
        let ticket = Ticket {
            host,
            number: self.next,
        };
        self.held.insert(ticket, held);
        self.change(host, |node, now| {
            node.count += 1;
            node.stamp = now;
        });
        let full = path(host).rev().find(|&network| {
            let node = self.nodes.get(&network);
            node.is_some_and(|node| node.count > self.limit(network))
        });
        let evicted = full.and_then(|network| self.evict(network));
        (ticket, evicted)
    }

    /// Returns a place; a place that was already lost stays lost.
    pub fn give(&mut self, ticket: Ticket) -> Option<T> {
        let held = self.held.remove(&ticket)?;
        self.change(ticket.host, |node, _| node.count -= 1);
        Some(held)
    }

    /// Number of taken places.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns true if no place is taken.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn limit(&self, (length, prefix): Network) -> u32 {
        let times = |factor: u32| self.of_client.saturating_mul(factor).min(self.most);
        match (length, is_v4(prefix)) {
            (64 | 128, _) => times(1),
            (56, _) => times(2),
            (48, _) | (120, true) => times(4),
            _ => self.most,
        }
    }

    /// Evicts a place of the largest holder in a network.
    fn evict(&mut self, network: Network) -> Option<Evicted<T>> {
        let mut at = network;
        while let Some(&(_, _, largest)) = self.nodes.get(&at)?.children.last() {
            at = largest;
        }
        let host = at.1;
        let all = Ticket { host, number: 0 }..;
        let ticket = *self.held.range(all).next()?.0;
        let held = self.give(ticket)?;
        let full = match network.0 {
            _ if self.limit(network) == self.most => Full::Everything,
            64 | 128 => Full::Client,
            _ => Full::Network,
        };
        Some(Evicted { ticket, held, full })
    }

    /// Changes all nodes of a host, and their order among their siblings.
    fn change(&mut self, host: u128, change: impl Fn(&mut Node, u64)) {
        let mut outer: Option<Network> = None;
        for network in path(host) {
            let node = self.nodes.entry(network).or_default();
            let before = (node.count, Reverse(node.stamp), network);
            change(node, self.next);
            let after = (node.count, Reverse(node.stamp), network);
            if node.count == 0 {
                self.nodes.remove(&network);
            }
            if let Some(outer) = outer.and_then(|outer| self.nodes.get_mut(&outer)) {
                outer.children.remove(&before);
                if after.0 > 0 {
                    outer.children.insert(after);
                }
            }
            outer = Some(network);
        }
    }
}

impl Ticket {
    /// The tickets of a client's host.
    pub fn of_host(client: IpAddr) -> std::ops::RangeInclusive<Ticket> {
        let host = bits(client);
        let with = |number| Ticket { host, number };
        with(0)..=with(u64::MAX)
    }
}

fn bits(client: IpAddr) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn is_v4(bits: u128) -> bool {
    bits >> 32 == 0xffff
}

/// The networks around a host, the widest first, and the host.
fn path(host: u128) -> impl DoubleEndedIterator<Item = Network> {
    let lengths: &[u8] = if is_v4(host) { &LENGTHS4 } else { &LENGTHS6 };
    let network = move |&length: &u8| (length, host >> (128 - length) << (128 - length));
    std::iter::once(EVERYBODY).chain(lengths.iter().map(network))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Takes places that store the client's address. Returns the addresses that lost a place.
    fn take(shares: &mut Shares<IpAddr>, client: &str, times: u32) -> Vec<(IpAddr, Full)> {
        let taken = (0..times).map(|_| shares.take(ip(client), ip(client)).1);
        let lost = taken.flatten().map(|evicted| (evicted.held, evicted.full));
        lost.collect()
    }

    #[test]
    fn a_client_pays_for_itself() {
        let mut shares = Shares::new(100, 10);
        assert_eq!(take(&mut shares, "192.0.2.1", 10), []);
        let own = (ip("192.0.2.1"), Full::Client);
        assert_eq!(take(&mut shares, "192.0.2.1", 5), [own; 5]);
        assert_eq!(take(&mut shares, "2001:db8::1", 10), []);
        let greedy = (ip("2001:db8::1"), Full::Client);
        assert_eq!(take(&mut shares, "2001:db8::2", 2), [greedy; 2]);
    }

    #[test]
    fn many_networks_of_a_48_are_one() {
        let mut shares = Shares::new(100, 10);
        for network in 0..100 {
            take(&mut shares, &format!("2001:db8:1:{network:x}00::1"), 10);
        }
        assert_eq!(shares.len(), 40, "an IPv6 /48");
        let mut shares = Shares::new(100, 10);
        for host in 0..100 {
            take(&mut shares, &format!("192.0.2.{host}"), 10);
        }
        assert_eq!(shares.len(), 40, "an IPv4 /24");
        let mut shares = Shares::new(100, 10);
        for network in 0..16 {
            take(&mut shares, &format!("2001:db8:1:{network:x}::1"), 10);
        }
        assert_eq!(shares.len(), 20, "an IPv6 /56");
    }

    #[test]
    fn the_largest_network_makes_room() {
        let mut shares = Shares::new(8, 8);
        take(&mut shares, "2001:db8:1::1", 3);
        take(&mut shares, "2001:db8:2::1", 3);
        take(&mut shares, "198.51.100.1", 2);
        let large = (ip("2001:db8:1::1"), Full::Everything);
        let next = (ip("2001:db8:2::1"), Full::Everything);
        assert_eq!(take(&mut shares, "203.0.113.1", 2), [large, next]);
        assert_eq!(take(&mut shares, "203.0.113.1", 1), [large]);
    }

    /// An attacker with a new source for each query evicts the entry that waits longest, not the newcomer.
    #[test]
    fn of_equals_the_one_that_waits_longest_goes() {
        let mut shares = Shares::new(3, 3);
        for network in 1..=3 {
            take(&mut shares, &format!("2001:{network:x}::1"), 1);
        }
        for network in 4..=9 {
            let lost = take(&mut shares, &format!("2001:{network:x}::1"), 1);
            let oldest = ip(&format!("2001:{:x}::1", network - 3));
            assert_eq!(lost, [(oldest, Full::Everything)]);
        }
    }

    #[test]
    fn what_is_given_back_is_free() {
        let mut shares = Shares::new(2, 2);
        let (one, _) = shares.take(ip("192.0.2.1"), 1);
        let (two, _) = shares.take(ip("192.0.2.1"), 2);
        assert_eq!(shares.give(one), Some(1));
        assert_eq!(shares.give(one), None);
        assert!(shares.take(ip("192.0.2.2"), 3).1.is_none());
        assert_eq!(shares.give(two), Some(2));
        assert_eq!((shares.len(), shares.is_empty()), (1, false));
    }

    fn clients() -> impl Strategy<Value = IpAddr> {
        let octet = 0..4u16;
        prop_oneof![
            (octet.clone(), octet.clone(), octet.clone(), octet.clone())
                .prop_map(|(a, b, c, d)| IpAddr::from([0x2001, a, b, c << 7, 0, 0, 0, d])),
            (octet.clone(), octet.clone(), octet)
                .prop_map(|(a, b, c)| IpAddr::from([192, a as u8, b as u8, c as u8])),
        ]
    }

    proptest! {
        /// Compared with a model that counts anew each time.
        #[test]
        fn limits_hold_and_the_largest_pays(
            most in 1..40u32,
            of_client in 1..12u32,
            steps in vec((clients(), 0..4u8, any::<prop::sample::Index>()), 1..120),
        ) {
            let mut shares = Shares::new(most, of_client);
            let mut model: Vec<(Ticket, IpAddr)> = Vec::new();
            for (client, kind, index) in steps {
                if kind == 0 && !model.is_empty() {
                    let (ticket, client) = model.swap_remove(index.index(model.len()));
                    prop_assert_eq!(shares.give(ticket), Some(client));
                    continue;
                }
                let (ticket, evicted) = shares.take(client, client);
                model.push((ticket, client));
                let count = |network: Network| {
                    let inside = |(_, client): &&(Ticket, IpAddr)| path(bits(*client)).any(|n| n == network);
                    model.iter().filter(inside).count() as u32
                };
                let over = path(bits(client)).rev().find(|&n| count(n) > shares.limit(n));
                prop_assert_eq!(over.is_some(), evicted.is_some());
                let Some(evicted) = evicted else { continue };
                prop_assert_ne!(evicted.ticket, ticket, "the newcomer stays");
                // On the way down from the full network, no sibling of the victim's network has more.
                let over = over.expect("it is");
                let mut outer = over;
                for network in path(bits(evicted.held)).filter(|n| n.0 > over.0) {
                    let rivals = model.iter().map(|(_, client)| path(bits(*client)).collect::<Vec<_>>());
                    let rivals = rivals.filter(|path| path.contains(&outer));
                    let rivals = rivals.filter_map(|path| path.into_iter().find(|n| n.0 > outer.0));
                    prop_assert!(rivals.map(count).all(|rival| rival <= count(network)));
                    outer = network;
                }
                let oldest = model.iter().filter(|(_, client)| *client == evicted.held);
                prop_assert_eq!(oldest.map(|(ticket, _)| *ticket).min(), Some(evicted.ticket));
                model.retain(|(ticket, _)| *ticket != evicted.ticket);
                prop_assert_eq!(shares.len(), model.len());
                prop_assert!(model.len() <= most as usize);
            }
            for (ticket, _) in model {
                shares.give(ticket);
            }
            prop_assert!(shares.nodes.is_empty() && shares.held.is_empty());
        }
    }
}
