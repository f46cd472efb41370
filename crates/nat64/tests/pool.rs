// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pool as seen by its users: pairing, contiguity, exhaustion, leases, and the time of an
//! allocation in a nearly full pool.

use diolkos_nat64::config::{Endpoint4, Pool4, Protocol};
use diolkos_nat64::pool::{Applicant, Claim, Pool};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

const KEY: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

fn part(net: &str, ports: std::ops::RangeInclusive<u16>) -> Pool4 {
    Pool4 {
        interface: None,
        net: net.parse().unwrap(),
        ports,
        protocols: Protocol::ALL.to_vec(),
        sources: vec![],
    }
}

fn pool(parts: &[Pool4]) -> Pool {
    Pool::new(parts, false, KEY)
}

fn random() -> impl FnMut() -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn node(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(number))
}

fn by(protocol: Protocol, number: u32, port: u16) -> Applicant {
    Applicant {
        protocol,
        source: node(number),
        port,
        neighbour: None,
    }
}

#[test]
fn a_source_keeps_its_address_over_all_ports_and_protocols() {
    let mut pool = pool(&[part("192.0.2.0/28", 1024..=65535)]);
    let mut random = random();
    let mut seen = HashSet::new();
    for number in 0..200 {
        let of_node: HashSet<Ipv4Addr> = (0..9)
            .map(|n| by(Protocol::ALL[n % 3], number, 5000 + n as u16))
            .map(|applicant| pool.allocate(applicant, &mut random).unwrap().addr)
            .collect();
        assert_eq!(of_node.len(), 1, "node {number}");
        assert_eq!(
            of_node.iter().next().copied(),
            pool.address_of(node(number))
        );
        seen.extend(of_node);
    }
    assert_eq!(seen.len(), 16, "all addresses are used");
}

#[test]
fn a_full_address_gives_way_to_the_next() {
    let mut pool = pool(&[part("192.0.2.0/31", 2000..=2009)]);
    let mut random = random();
    let got: Vec<Endpoint4> = (0..20)
        .map(|n| {
            pool.allocate(by(Protocol::Udp, 1, 4000 + n), &mut random)
                .unwrap()
        })
        .collect();
    assert!(got[..10].iter().all(|v4| v4.addr == got[0].addr));
    assert!(got[10..].iter().all(|v4| v4.addr != got[0].addr));
    assert_eq!(got.iter().collect::<HashSet<_>>().len(), 20);
    assert_eq!(pool.allocate(by(Protocol::Udp, 1, 1), &mut random), None);
    assert!(
        pool.allocate(by(Protocol::Tcp, 1, 1), &mut random)
            .is_some(),
        "every protocol has ports of its own"
    );
    pool.release(Protocol::Udp, got[7]);
    assert_eq!(
        pool.allocate(by(Protocol::Udp, 9, 1), &mut random),
        Some(got[7])
    );
}

#[test]
fn rtcp_follows_rtp() {
    let mut pool = pool(&[part("192.0.2.0/28", 1024..=65535)]);
    let mut random = random();
    let rtp = pool
        .allocate(by(Protocol::Udp, 1, 5004), &mut random)
        .unwrap();
    assert_eq!(rtp.port % 2, 0);
    let applicant = Applicant {
        neighbour: Some(rtp),
        ..by(Protocol::Udp, 1, 5005)
    };
    let rtcp = pool.allocate(applicant, &mut random).unwrap();
    assert_eq!(
        rtcp,
        Endpoint4 {
            port: rtp.port + 1,
            ..rtp
        }
    );
    let again = pool.allocate(applicant, &mut random).unwrap();
    assert_ne!(again, rtcp, "taken: the parity stays");
    assert_eq!((again.addr, again.port % 2), (rtp.addr, 1));
}

#[test]
fn preservation() {
    let mut pool = Pool::new(&[part("192.0.2.1/32", 1024..=65535)], true, KEY);
    let mut random = random();
    let port = |pool: &mut Pool, number, own, random: &mut _| {
        pool.allocate(by(Protocol::Tcp, number, own), random)
            .unwrap()
            .port
    };
    assert_eq!(port(&mut pool, 1, 5000, &mut random), 5000);
    assert_ne!(port(&mut pool, 2, 5000, &mut random), 5000);
    assert!(
        port(&mut pool, 3, 80, &mut random) >= 1024,
        "80 is not in the pool"
    );
}

#[test]
fn port_zero_is_for_query_identifiers_only() {
    let mut pool = pool(&[part("192.0.2.1/32", 0..=0)]);
    let mut random = random();
    assert_eq!(pool.allocate(by(Protocol::Udp, 1, 7), &mut random), None);
    assert_eq!(pool.allocate(by(Protocol::Tcp, 1, 7), &mut random), None);
    let got = pool.allocate(by(Protocol::Icmp, 1, 7), &mut random);
    assert_eq!(got.map(|v4| v4.port), Some(0));
}

#[test]
fn protocols_and_ranges_of_one_address_add_up() {
    let only = |protocol, ports| Pool4 {
        protocols: vec![protocol],
        ..part("192.0.2.1/32", ports)
    };
    let pool = pool(&[
        only(Protocol::Udp, 10..=19),
        only(Protocol::Udp, 15..=24),
        only(Protocol::Tcp, 7..=7),
    ]);
    assert_eq!(pool.free_ports(Protocol::Udp), 15);
    assert_eq!(pool.free_ports(Protocol::Tcp), 1);
    assert_eq!(pool.free_ports(Protocol::Icmp), 0);
}

#[test]
fn claims() {
    let mut pool = pool(&[part("192.0.2.1/32", 1024..=65535)]);
    let at = |addr: &str, port| Endpoint4 {
        addr: addr.parse().unwrap(),
        port,
    };
    let udp = Protocol::Udp;
    assert_eq!(
        pool.claim(udp, at("192.0.2.1", 5000), node(1)),
        Claim::Taken
    );
    assert_eq!(
        pool.claim(udp, at("192.0.2.1", 5000), node(1)),
        Claim::Occupied
    );
    assert_eq!(
        pool.claim(udp, at("192.0.2.1", 80), node(1)),
        Claim::Elsewhere
    );
    assert_eq!(
        pool.claim(udp, at("192.0.2.2", 5000), node(1)),
        Claim::Elsewhere
    );
    pool.release(udp, at("192.0.2.1", 5000));
    assert_eq!(
        pool.claim(udp, at("192.0.2.1", 5000), node(1)),
        Claim::Taken
    );
}

#[test]
fn a_loan_is_exclusive_until_it_comes_back() {
    let mut pool = pool(&[part("192.0.2.1/32", 1000..=1151)]);
    let mut random = random();
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let tcp = Protocol::Tcp;
    let total = pool.free_ports(tcp);
    let lent: Vec<u16> = std::iter::repeat_with(|| pool.lend(tcp, address, 3, &mut random))
        .map_while(|port| port)
        .collect();
    assert!(lent.iter().all(|port| port % 2 == 1 && *port > 1023));
    assert_eq!(pool.leased_ports(), lent.len());
    // Each lent port leaves four free ones for others.
    assert_eq!((total as usize - lent.len()) / lent.len(), 4);
    assert!(!pool.is_short(tcp, address));
    while let Some(v4) = pool.allocate(by(tcp, 1, 1), &mut random) {
        assert!(!lent.contains(&v4.port));
    }
    assert!(pool.is_short(tcp, address));

    let [used, unused] = [lent[0], lent[1]];
    assert!(pool.take_leased(tcp, address, used));
    assert!(!pool.take_leased(tcp, address, used), "only once");
    assert!(!pool.take_leased(Protocol::Udp, address, unused));
    pool.give_back(tcp, address, unused);
    pool.give_back(tcp, address, unused);
    pool.give_back(tcp, address, used);
    assert_eq!(pool.free_ports(tcp), 1);
    let used = Endpoint4 {
        addr: address,
        port: used,
    };
    pool.release(tcp, used);
    lent.iter()
        .for_each(|&port| pool.give_back(tcp, address, port));
    assert_eq!(pool.free_ports(tcp) as usize, lent.len());
    assert_eq!(pool.leased_ports(), 0);
}

#[test]
fn every_free_port_is_equally_likely_to_be_lent() {
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let mut random = random();
    let mut pool = pool(&[part("192.0.2.1/32", 2000..=2031)]);
    let mut counts = HashMap::<u16, u32>::new();
    for _ in 0..16_000 {
        let port = pool.lend(Protocol::Udp, address, 2, &mut random).unwrap();
        *counts.entry(port).or_default() += 1;
        pool.give_back(Protocol::Udp, address, port);
    }
    assert_eq!(counts.len(), 16);
    assert!(
        counts.values().all(|n| (800..1200).contains(n)),
        "{counts:?}"
    );
}

#[test]
fn no_loan_of_well_known_ports_or_of_foreign_addresses() {
    let mut pool = pool(&[part("192.0.2.1/32", 1..=1023)]);
    let mut lend = |address| pool.lend(Protocol::Tcp, address, 0, || 0);
    assert_eq!(lend(Ipv4Addr::new(192, 0, 2, 1)), None);
    assert_eq!(lend(Ipv4Addr::new(192, 0, 2, 2)), None);
}

#[test]
fn an_empty_pool_gives_nothing() {
    let mut pool = pool(&[]);
    assert_eq!(pool.allocate(by(Protocol::Tcp, 1, 1), random()), None);
    assert_eq!(pool.address_of(node(1)), None);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u8, u32, u16),
    Release(prop::sample::Index),
    Lend(u8, u8, u16),
    GiveBack(prop::sample::Index),
    UseLeased(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..3u8, 0..20u32, any::<u16>()).prop_map(|(p, n, port)| Step::Allocate(p, n, port)),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        3 => (0..3u8, 0..4u8, any::<u16>()).prop_map(|(p, a, port)| Step::Lend(p, a, port)),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
        2 => any::<prop::sample::Index>().prop_map(Step::UseLeased),
    ]
}

proptest! {
    /// Compared with a set of taken ports: no port is allocated twice, and none is lost.
    #[test]
    fn nothing_twice_and_nothing_lost(steps in prop::collection::vec(step(), 0..300)) {
        let mut pool = pool(&[part("192.0.2.0/30", 1020..=1100), part("192.0.2.2/32", 3000..=3003)]);
        let full: Vec<u64> = Protocol::ALL.map(|p| pool.free_ports(p)).to_vec();
        let mut random = random();
        let mut bound: Vec<(Protocol, Endpoint4)> = vec![];
        let mut lent: HashMap<(Protocol, Endpoint4), ()> = HashMap::new();
        let mut ever = vec![];
        for step in steps {
            match step {
                Step::Allocate(p, number, port) => {
                    let protocol = Protocol::ALL[usize::from(p)];
                    if let Some(v4) = pool.allocate(by(protocol, number, port), &mut random) {
                        prop_assert!(!bound.contains(&(protocol, v4)));
                        prop_assert!(!lent.contains_key(&(protocol, v4)));
                        bound.push((protocol, v4));
                    } else {
                        prop_assert_eq!(pool.free_ports(protocol), 0);
                    }
                }
                Step::Release(index) if !bound.is_empty() => {
                    let (protocol, v4) = bound.swap_remove(index.index(bound.len()));
                    pool.release(protocol, v4);
                }
                Step::Lend(p, last, like) => {
                    let protocol = Protocol::ALL[usize::from(p)];
                    let addr = Ipv4Addr::new(192, 0, 2, last);
                    if let Some(port) = pool.lend(protocol, addr, like, &mut random) {
                        let v4 = Endpoint4 { addr, port };
                        prop_assert!(lent.insert((protocol, v4), ()).is_none());
                        prop_assert!(!bound.contains(&(protocol, v4)));
                        ever.push((protocol, v4));
                    }
                }
                // Ports of ended leases cannot be returned.
                Step::GiveBack(index) if !ever.is_empty() => {
                    let (protocol, v4) = ever[index.index(ever.len())];
                    pool.give_back(protocol, v4.addr, v4.port);
                    lent.remove(&(protocol, v4));
                }
                Step::UseLeased(index) if !ever.is_empty() => {
                    let (protocol, v4) = ever[index.index(ever.len())];
                    let taken = pool.take_leased(protocol, v4.addr, v4.port);
                    prop_assert_eq!(taken, lent.remove(&(protocol, v4)).is_some());
                    if taken {
                        bound.push((protocol, v4));
                    }
                }
                _ => {}
            }
            for (at, protocol) in Protocol::ALL.into_iter().enumerate() {
                let taken = bound.iter().filter(|(p, _)| *p == protocol).count()
                    + lent.keys().filter(|(p, _)| *p == protocol).count();
                prop_assert_eq!(pool.free_ports(protocol), full[at] - taken as u64);
            }
        }
    }
}
