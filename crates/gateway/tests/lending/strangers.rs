// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Somebody invents addresses, each of which is a node: what it costs the nodes that are there.
//!
//! The following holds in every step: nodes that have opened fewer than four sessions hold no more than half of the places
//! and one part in 16 of the sessions, the bindings and the ports, and those of a prefix no more than its share of the
//! places; a node that is warm and opens sessions keeps its lease.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_nat64::config::{Limits, Nat64Config};

use crate::controller::config;
use crate::crowd::{scatter, By, Gateway, PLACES};
use crate::many::pool;

/// Sessions with which a node is warm.
const WARM: u32 = 4;
/// One part in so many is the most for all others.
const PARTS: usize = 16;

/// What the first packets of these nodes make of a gateway.
struct Run<'a> {
    config: &'a Nat64Config,
    gateway: Gateway,
    opened: HashMap<Ipv6Addr, u32>,
    next_port: HashMap<Ipv6Addr, u16>,
    now: Duration,
}

/// What nodes have that are not warm.
#[derive(Debug)]
struct Held {
    leases: usize,
    sessions: u32,
    ports: usize,
    /// Leases of the /64 that has most.
    of_a_link: usize,
}

impl<'a> Run<'a> {
    fn new(config: &'a Nat64Config) -> Run<'a> {
        Run {
            config,
            gateway: Gateway::new(config),
            opened: HashMap::new(),
            next_port: HashMap::new(),
            now: Duration::ZERO,
        }
    }

    fn first_packet(&mut self, node: Ipv6Addr) -> By {
        let port = self.next_port.entry(node).or_insert(1024);
        *port = port.checked_add(1).unwrap_or(1024);
        self.now += Duration::from_micros(50);
        let by = self.gateway.first_packet((node, *port), self.now, false);
        if by != By::Nobody {
            *self.opened.entry(node).or_default() += 1;
        }
        by
    }

    fn held_by_strangers(&self) -> Held {
        let all = self.gateway.crowd.leases();
        let is_stranger = |node| self.opened.get(&node).copied().unwrap_or_default() < WARM;
        let theirs: Vec<_> = all
            .iter()
            .filter(|place| place.node.is_some_and(is_stranger))
            .collect();
        let mut of_link: HashMap<u128, usize> = HashMap::new();
        for node in theirs.iter().filter_map(|place| place.node) {
            *of_link.entry(node.to_bits() >> 64).or_default() += 1;
        }
        Held {
            leases: theirs.len(),
            sessions: theirs.iter().map(|place| place.sessions()).sum(),
            ports: theirs.iter().map(|place| place.ports()).sum(),
            of_a_link: of_link.into_values().max().unwrap_or_default(),
        }
    }

    /// Checks the bounds. Returns what strangers have.
    fn check(&self) -> Held {
        let held = self.held_by_strangers();
        let limits = &self.config.limits;
        let ports = self
            .config
            .pool4
            .iter()
            .map(|part| (1usize << (32 - part.net.prefix_len())) * part.ports.clone().count());
        let ports: usize = ports.sum();
        let share = usize::from(limits.source_share);
        assert!(held.leases <= PLACES / 2, "{held:?}");
        assert!(held.of_a_link * 100 <= PLACES / 2 * share + 100, "{held:?}");
        assert!(
            held.sessions as usize <= limits.sessions as usize / PARTS,
            "{held:?}"
        );
        assert!(held.ports <= limits.bindings as usize / PARTS, "{held:?}");
        assert!(held.ports <= ports / PARTS, "{held:?} of {ports}");
        held
    }

    fn leased(&self) -> HashSet<Ipv6Addr> {
        let all = self.gateway.crowd.leases();
        all.iter().filter_map(|place| place.node).collect()
    }

    fn sweep(&mut self) {
        self.gateway.sweep(self.now);
    }
}

/// Nodes of links of their own, of which there are few.
fn resident(number: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1)
}

/// An address that nobody has had before: of one link, or each of another one.
fn stranger(number: u64, of_one_link: bool) -> Ipv6Addr {
    let part = u128::from(scatter(number)) | 1 << 60;
    let within = if of_one_link { part } else { part << 64 };
    Ipv6Addr::from_bits(0x2001_0db9 << 96 | within & !(0xffff_ffff << 96) | 2)
}

/// Residents that are warm, then a flood that takes everything it can get while they go on. Each stranger sends so many
/// first packets. Returns what share of the residents' sessions the programs opened meanwhile, and the most leases of strangers.
fn flooded(config: &Nat64Config, packets: u64, of_one_link: bool) -> (f64, usize) {
    let mut run = Run::new(config);
    const RESIDENTS: u64 = 500;
    for n in 0..RESIDENTS * 8 {
        run.first_packet(resident(n % RESIDENTS));
    }
    let warm = run.leased();
    assert_eq!(warm.len(), RESIDENTS as usize);
    let (mut by_program, mut all, mut most) = (0, 0, 0);
    for n in 0..48_000 {
        if n % 5000 == 0 {
            run.sweep();
        }
        let number = n / packets;
        run.first_packet(stranger(number, of_one_link));
        // Each resident comes again within a sweep.
        if n % 8 == 0 {
            let by = run.first_packet(resident(n / 8 % RESIDENTS));
            by_program += usize::from(by == By::Program);
            all += 1;
        }
        if n % 10_000 == 0 {
            most = most.max(run.check().leases);
            assert!(
                run.leased().is_superset(&warm),
                "a resident has lost its lease"
            );
        }
    }
    run.check();
    run.gateway.finish();
    (by_program as f64 / f64::from(all), most)
}

#[test]
fn a_flood_of_addresses_takes_no_lease_of_a_warm_node() {
    for packets in [1, 3] {
        for of_one_link in [false, true] {
            let (share, most) = flooded(&pool(), packets, of_one_link);
            assert!(share >= 0.95, "{share} by programs, {packets} packets each");
            assert!(most >= 1000, "{most}: it is tried");
        }
    }
}

/// A network in which nobody may have everything.
#[test]
fn a_link_has_its_share_of_the_leases_for_strangers() {
    let mut shared = pool();
    shared.limits = Limits::default();
    // Shares allow a third of the pool.
    shared.pool4[0].net = "192.0.2.0/24".parse().expect("a network");
    let mut run = Run::new(&shared);
    let mut number = 0;
    let mut of_one_link = 0;
    for n in 0..90_000 {
        if n % 5000 == 0 {
            run.sweep();
            of_one_link = of_one_link.max(run.check().of_a_link);
        }
        number += 1;
        run.first_packet(stranger(number, true));
    }
    assert!(of_one_link >= 1000, "{of_one_link}: it is tried");
    // The next link finds room all the same: with its first session.
    let newcomers = (0..100).map(resident);
    let newcomers: HashSet<_> = newcomers.collect();
    for node in &newcomers {
        run.first_packet(*node);
    }
    let leased = run.leased();
    let had = newcomers
        .iter()
        .filter(|node| leased.contains(node))
        .count();
    assert!(had >= 90, "{had} of 100");
    run.check();
    run.gateway.finish();
}

/// Strangers in all places of a set make room for each node that is warm.
#[test]
fn strangers_give_way_to_warm_nodes() {
    use diolkos_gateway::fastpath::FastPath;
    let config = pool();
    let mut run = Run::new(&config);
    let of_set = run.gateway.crowd.set_of(resident(0));
    let mut all = (0..).map(resident);
    let crowd = run.gateway.crowd.clone();
    let mut of_it = || all.find(|node| crowd.set_of(*node) == of_set);
    let strangers: Vec<_> = (0..4).filter_map(|_| of_it()).collect();
    for node in &strangers {
        run.first_packet(*node);
    }
    assert_eq!(run.leased(), strangers.iter().copied().collect());
    let busy: Vec<_> = (0..4).filter_map(|_| of_it()).collect();
    for (at, node) in busy.iter().enumerate() {
        for _ in 0..3 {
            assert_eq!(run.first_packet(*node), By::Controller);
        }
        assert!(!run.leased().contains(node), "before it is warm");
        run.first_packet(*node);
        assert!(run.leased().contains(node), "once it is");
        // The strangers come back, which changes nothing for those that are warm.
        if at == 1 {
            strangers.iter().for_each(|stranger| {
                run.first_packet(*stranger);
            });
        }
    }
    assert_eq!(run.leased(), busy.iter().copied().collect());
    run.gateway.finish();
}

/// As ports get scarce, the present rule is that of all: first nobody begins early, then all of these end.
#[test]
fn where_ports_are_scarce_only_warm_nodes_have_leases() {
    let small = config(2, 1024..=9215);
    let mut run = Run::new(&small);
    let mut number = 0;
    let mut early = Vec::new();
    while run
        .gateway
        .state
        .pool()
        .free_ports(diolkos_nat64::config::Protocol::Udp)
        > 4000
    {
        number += 1;
        let node = stranger(number, false);
        run.first_packet(node);
        early.push(run.gateway.crowd.has_lease(node));
        if number % 1000 == 0 {
            run.check();
            run.sweep();
        }
    }
    assert!(early[0], "the first one");
    let last = early.len() - 1000;
    assert!(
        early[last..].iter().all(|is_early| !is_early),
        "the last ones"
    );
    assert_eq!(run.held_by_strangers().leases, 0);
    run.gateway.finish();
}

/// A deployment of each kind, nodes of all kinds, in random order.
#[test]
fn the_bounds_hold_in_random_orders() {
    for seed in 0..12 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut config = match seed % 3 {
            0 => config(1, 1024..=65535),
            1 => config(3, 5000..=6999),
            _ => pool(),
        };
        if seed % 2 == 1 {
            config.limits = Limits::default();
        }
        if seed % 4 == 3 {
            config.limits.sessions = 20_000;
            config.limits.bindings = 5_000;
            config.limits.bindings_per_source = 500;
        }
        let mut run = Run::new(&config);
        for n in 0..8_000 {
            let node = match chance.u32(0..10) {
                0..4 => resident(chance.u64(0..200)),
                4..6 => stranger(n, true),
                6..8 => stranger(n, false),
                _ => resident(chance.u64(0..5000)),
            };
            run.first_packet(node);
            if chance.u32(0..1500) == 0 {
                run.sweep();
            }
            if n % 1000 == 0 {
                run.check();
            }
        }
        run.check();
        let lent = run.gateway.leases.lent();
        let left = run.gateway.crowd.leases();
        let sessions: u32 = left.iter().map(|place| place.sessions()).sum();
        let ports: usize = left.iter().map(|place| place.ports()).sum();
        assert_eq!(lent, [sessions, ports as u32], "seed {seed}");
        run.gateway.finish();
    }
}
