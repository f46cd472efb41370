// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools by source: an address of a pool never goes to a node outside of it, whatever packets, operators, other
//! gateways, programs, reloads and restarts do. And only what the configuration forbids is refused or ended.

use crate::harness::*;
use diolkos_nat64::config::{
    Binding, Deterministic, Endpoint4, Endpoint6, Nat64Config, Owners, Pool4, Pools, PortBlocks,
    Protocol,
};
use diolkos_nat64::session::{BindError, Origin, Segment, SessionState, SessionView, State};
use diolkos_xlat::Reason;
use ipnet::Ipv6Net;
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
pub const PEER: &str = "192.0.2.1:53";
pub const FIRST: u16 = 2000;
const LAST: u16 = 2007;

/// Nodes of A, of a part of A, of B, and of nobody.
const NODES: [&str; 5] = [
    "2001:db8:a::1",
    "2001:db8:a::2",
    "2001:db8:a:100::1",
    "2001:db8:b::1",
    "2001:db8:c::1",
];

pub const A: &str = "2001:db8:a::/48";
const PART_OF_A: &str = "2001:db8:a:100::/56";
const B: &str = "2001:db8:b::/48";
const C: &str = "2001:db8:c::/48";

pub fn part(net: &str, sources: &[&str]) -> Pool4 {
    Pool4 {
        interface: None,
        net: net.parse().unwrap(),
        ports: FIRST..=LAST,
        protocols: Protocol::ALL.to_vec(),
        sources: sources.iter().map(|net| net.parse().unwrap()).collect(),
    }
}

/// Every address changes its pool from one to the next.
pub fn pools(number: usize) -> Vec<Pool4> {
    match number {
        0 => vec![
            part("203.0.113.1/32", &[A]),
            part("203.0.113.2/32", &[PART_OF_A]),
            part("203.0.113.4/31", &[]),
        ],
        1 => vec![
            part("203.0.113.4/32", &[A]),
            part("203.0.113.1/32", &[B]),
            part("203.0.113.2/32", &[]),
        ],
        2 => vec![
            part("203.0.113.1/32", &[PART_OF_A, B]),
            part("203.0.113.5/32", &[B, PART_OF_A]),
        ],
        _ => vec![part("203.0.113.0/29", &[])],
    }
}

/// How ports are given away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plain,
    Blocks,
    Shared,
    /// Sources have fixed ports, and perhaps blocks of an overflow.
    Fixed {
        overflow: bool,
    },
}

/// Fixed ports of each source.
const FIXED: u16 = 64;
/// The first fixed port.
const FIRST_FIXED: u16 = 1984;

pub fn config_of(number: usize, kind: Kind) -> Nat64Config {
    let mut config = config();
    config.pool4 = pools(number);
    match kind {
        Kind::Plain => {}
        Kind::Blocks => {
            for part in &mut config.pool4 {
                part.ports = 1984..=2111;
            }
            config.blocks = Some(PortBlocks {
                ports: 64,
                per_source: 2,
                source_prefix_len: 64,
            });
        }
        Kind::Fixed { overflow } => {
            config.limits.source_prefix_len = 56;
            for part in &mut config.pool4 {
                part.ports = FIRST_FIXED..=u16::MAX;
            }
            let sources = match number {
                0 | 1 => vec![C],
                2 => vec![],
                _ => vec![C, A, B],
            };
            config.deterministic = Some(Deterministic {
                sources: sources.iter().map(|net| net.parse().unwrap()).collect(),
                ports_per_source: Some(FIXED.into()),
                overflow_share: if overflow { 50 } else { 0 },
            });
            config.blocks = overflow.then_some(PortBlocks {
                ports: 64,
                per_source: 2,
                source_prefix_len: 56,
            });
        }
        Kind::Shared => {
            config.owners = Some(Owners {
                me: 0,
                addresses: vec![("203.0.113.0/29".parse().unwrap(), 0)],
                pools: Pools::of(&config.pool4),
            });
        }
    }
    if config.deterministic.is_some() {
        config = in_order(config);
    }
    config.check().unwrap();
    config
}

/// The parts whose ports a node may have: those with the longest prefix that contains it.
fn parts_for(config: &Nat64Config, node: Ipv6Addr) -> Vec<&Pool4> {
    let its = |part: &Pool4| {
        let around = part.sources.iter().filter(|net| net.contains(&node));
        around.map(|net| i16::from(net.prefix_len())).max()
    };
    let longest = config.pool4.iter().filter_map(its).max();
    let is_its = |part: &&Pool4| match longest {
        Some(_) => its(part) == longest,
        None => part.sources.is_empty(),
    };
    config.pool4.iter().filter(is_its).collect()
}

/// Returns true if a node may be bound to this address.
fn may_have(config: &Nat64Config, addr: Ipv4Addr, node: Ipv6Addr) -> bool {
    let has = |part: &Pool4| part.net.contains(&addr);
    !config.pool4.iter().any(has) || parts_for(config, node).into_iter().any(has)
}

/// Returns true if the pool can give this port to a node.
fn may_get(config: &Nat64Config, v4: Endpoint4, node: Ipv6Addr) -> bool {
    let mut parts = parts_for(config, node).into_iter();
    parts.any(|part| part.net.contains(&v4.addr) && part.ports.contains(&v4.port))
}

/// The fixed ports of a node, counted through by hand: /56 by /56 of its pool's sources. None if it has none.
fn fixed_ports(config: &Nat64Config, node: Ipv6Addr) -> Option<(Ipv4Addr, u16)> {
    let fixed = config.deterministic.as_ref()?;
    let parts = parts_for(config, node);
    let mut inside = parts.first()?.sources.clone();
    if inside.is_empty() {
        inside.clone_from(&fixed.sources);
    }
    let sources = inside.iter().flat_map(|net| net.subnets(56).unwrap());
    let number = sources.into_iter().position(|net| net.contains(&node))?;
    let ports = (65_536 - usize::from(FIRST_FIXED)) / 64 * 64;
    let overflow = (ports * usize::from(fixed.overflow_share)).div_ceil(100);
    let of_address = (ports - overflow) / usize::from(FIXED);
    let addresses = parts.iter().flat_map(|part| {
        let first = part.net.network().to_bits();
        (first..=part.net.broadcast().to_bits()).map(Ipv4Addr::from_bits)
    });
    let addr = addresses.into_iter().nth(number / of_address)?;
    let first = FIRST_FIXED + (number % of_address) as u16 * FIXED;
    Some((addr, first))
}

/// The same configuration with the sources in the same order in all entries of each pool, as fixed ports demand.
fn in_order(mut config: Nat64Config) -> Nat64Config {
    let all = config.pool4.clone();
    for part in &mut config.pool4 {
        let same = |other: &&Pool4| {
            let set = |part: &Pool4| part.sources.iter().copied().collect::<HashSet<_>>();
            set(other) == set(part)
        };
        part.sources = all.iter().find(same).unwrap().sources.clone();
    }
    config
}

#[derive(Clone, Debug)]
enum Step {
    Out(usize, usize, u16),
    Bind(u8, u16, usize, u16),
    Inherit(u8, u16, usize, u16),
    Lend(usize),
    /// A program reports what it has opened on a port that was lent, perhaps before a reload; or lies about the node.
    Adopt(usize, usize),
    Free(u8, u16),
    Wait(u32),
    Reload(usize, Option<Kind>),
    Restart(usize),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Plain),
        Just(Kind::Blocks),
        Just(Kind::Shared),
        any::<bool>().prop_map(|overflow| Kind::Fixed { overflow }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES.len();
    let addr = || 0..8u8;
    let port = || FIRST..=LAST + 1;
    let own = || 0..6u16;
    prop_oneof![
        8 => (0..3usize, node(), own()).prop_map(|(protocol, node, port)| Step::Out(protocol, node, port)),
        2 => (addr(), port(), node(), own()).prop_map(|(a, p, n, o)| Step::Bind(a, p, n, o)),
        2 => (addr(), port(), node(), own()).prop_map(|(a, p, n, o)| Step::Inherit(a, p, n, o)),
        2 => node().prop_map(Step::Lend),
        3 => (0..8usize, node()).prop_map(|(lent, node)| Step::Adopt(lent, node)),
        2 => (addr(), port()).prop_map(|(a, p)| Step::Free(a, p)),
        1 => (1..400u32).prop_map(Step::Wait),
        2 => (0..4usize, prop::option::of(kind())).prop_map(|(number, kind)| Step::Reload(number, kind)),
        1 => (0..4usize).prop_map(Step::Restart),
    ]
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, last)
}

pub fn node(number: usize, port: u16) -> Endpoint6 {
    e6(NODES[number], 5000 + port)
}

struct World {
    tables: Tables,
    config: Nat64Config,
    kind: Kind,
    /// What was lent: the node, and its port.
    lent: Vec<(usize, Endpoint4)>,
    /// True if nothing has been lent in this configuration.
    is_simple: bool,
}

impl World {
    fn new(number: usize, kind: Kind) -> World {
        let config = config_of(number, kind);
        let mut tables = Tables::new(&config);
        tables.state.serve(true, &mut ());
        tables.wait(0.0);
        World {
            tables,
            config,
            kind,
            lent: vec![],
            is_simple: kind == Kind::Plain,
        }
    }

    fn all(&self) -> HashSet<(Binding, bool)> {
        let all = self.tables.state.bindings();
        all.map(|view| (view.binding, view.origin == Origin::Operator))
            .collect()
    }

    fn check(&self) {
        for (binding, _) in self.all() {
            let Binding { v4, v6, .. } = binding;
            assert!(may_have(&self.config, v4.addr, v6.addr), "{binding:?}");
        }
        for view in self.tables.state.blocks_from(0, usize::MAX) {
            assert!(may_have(&self.config, view.addr, view.source), "{view:?}");
        }
        if self.kind != Kind::Shared {
            let pool = self.tables.state.pool();
            let lent = pool.leased_ports() as u64;
            let pooled = |(b, _): &&(Binding, bool)| may_get(&self.config, b.v4, b.v6.addr);
            let bound = self.all().iter().filter(pooled).count() as u64;
            let sum = |of: fn(&diolkos_nat64::pool::Pool, Protocol) -> u64| -> u64 {
                Protocol::ALL
                    .iter()
                    .map(|&protocol| of(pool, protocol))
                    .sum()
            };
            assert_eq!(
                sum(|pool, protocol| pool.free_ports(protocol)) + bound + lent,
                sum(|pool, protocol| pool.ports(protocol))
            );
        }
    }

    /// A packet gets a port of its node's pool if one is free there, and the right refusal otherwise.
    fn out(&mut self, protocol: Protocol, v6: Endpoint6) {
        let known = self.tables.state.v4_of(protocol, v6);
        let free = parts_for(&self.config, v6.addr).into_iter();
        let bound: HashSet<Endpoint4> = self
            .all()
            .into_iter()
            .filter(|(binding, _)| binding.protocol == protocol)
            .map(|(binding, _)| binding.v4)
            .collect();
        let is_free = free.clone().any(|part| {
            let mut all = part.net.hosts().flat_map(|addr| {
                let ports = part.ports.clone();
                ports.map(move |port| Endpoint4 { addr, port })
            });
            all.any(|v4| !bound.contains(&v4))
        });
        let has_pool = free.count() > 0;
        let peer = if protocol == Protocol::Icmp {
            "192.0.2.1:0"
        } else {
            PEER
        };
        let got = self.tables.out(protocol, v6, peer, Segment::Syn);
        match (known, got) {
            (Some(known), got) => assert_eq!(got, Ok(known)),
            (None, Ok(v4)) => {
                assert!(may_get(&self.config, v4, v6.addr), "{v6:?} has {v4:?}");
                self.check_fixed(v4, v6);
            }
            (None, Err(reason))
                if self.config.deterministic.is_some()
                    && fixed_ports(&self.config, v6.addr).is_none() =>
            {
                assert_eq!(reason, Reason::SourceUnmapped);
            }
            (None, Err(reason)) if self.is_simple => {
                let expected = match (has_pool, is_free) {
                    (false, _) => Reason::SourceUnmapped,
                    (true, false) => Reason::PoolExhausted,
                    (true, true) => panic!("{reason:?} though a port is free"),
                };
                assert_eq!(reason, expected);
            }
            (None, Err(_)) => {}
        }
    }

    /// A new binding has a fixed port of its source, or one of a block that the source was given.
    fn check_fixed(&self, v4: Endpoint4, v6: Endpoint6) {
        if self.config.deterministic.is_none() {
            return;
        }
        let (addr, first) = fixed_ports(&self.config, v6.addr).expect("others get no port");
        let is_fixed = v4.addr == addr && (first..first + FIXED).contains(&v4.port);
        let views = self.tables.state.blocks_from(0, usize::MAX);
        let given = views
            .iter()
            .find(|view| view.addr == v4.addr && (view.first..=view.last).contains(&v4.port));
        let source = v6.addr.to_bits() >> 72 << 72;
        let is_given = given.is_some_and(|view| view.source.to_bits() == source);
        assert!(is_fixed != is_given, "{v6:?} has {v4:?}");
        assert_eq!(
            self.tables.state.pool().mappings().unwrap().source_of(v4),
            is_fixed.then(|| Ipv6Net::new(Ipv6Addr::from_bits(source), 56).unwrap())
        );
    }

    fn view(&self, number: usize, v4: Endpoint4) -> SessionView {
        SessionView {
            binding: Binding {
                protocol: UDP,
                v4,
                v6: node(number, 100),
            },
            peer: e4(PEER),
            prefix: 0,
            state: SessionState::Udp,
            remaining: Duration::from_secs(300),
        }
    }

    /// What another configuration keeps.
    fn allowed(&self, new: &Nat64Config) -> HashSet<(Binding, bool)> {
        let stays = |(binding, is_operators): &(Binding, bool)| match is_operators {
            true => may_have(new, binding.v4.addr, binding.v6.addr),
            false => may_get(new, binding.v4, binding.v6.addr),
        };
        self.all().into_iter().filter(stays).collect()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Out(protocol, number, port) => {
                self.out(Protocol::ALL[protocol], node(number, port));
            }
            Step::Bind(addr, port, number, own) => {
                let (v4, v6) = (
                    Endpoint4 {
                        addr: address(addr),
                        port,
                    },
                    node(number, own),
                );
                let bound = self.tables.state.bind(
                    Binding {
                        protocol: TCP,
                        v4,
                        v6,
                    },
                    &mut self.tables.watch,
                );
                let is_refused = matches!(bound, Err(BindError::Contradiction(_)));
                assert_eq!(is_refused, !may_have(&self.config, v4.addr, v6.addr));
            }
            Step::Inherit(addr, port, number, own) => {
                let (v4, v6) = (
                    Endpoint4 {
                        addr: address(addr),
                        port,
                    },
                    node(number, own),
                );
                let binding = Binding {
                    protocol: UDP,
                    v4,
                    v6,
                };
                let watch = &mut self.tables.watch;
                let _ = self.tables.state.inherit(binding, self.tables.now, watch);
            }
            Step::Lend(number) => {
                let node = node(number, 0).addr;
                let Some(address) = self.tables.state.address_of(node) else {
                    let has_none = parts_for(&self.config, node).is_empty();
                    let is_nobodys = self.config.deterministic.is_some()
                        && fixed_ports(&self.config, node).is_none();
                    return assert!(has_none || is_nobodys);
                };
                let whose = (node, address);
                let watch = &mut self.tables.watch;
                let port = self.tables.state.lend(UDP, whose, 0, random(), watch);
                let v4 = port.map(|port| Endpoint4 {
                    addr: address,
                    port,
                });
                if let Some(v4) = v4 {
                    assert!(may_get(&self.config, v4, node), "{node} is lent {v4:?}");
                    self.check_fixed(
                        v4,
                        Endpoint6 {
                            addr: node,
                            port: 0,
                        },
                    );
                    self.lent.push((number, v4));
                    self.is_simple = false;
                }
            }
            Step::Adopt(at, other) => {
                let Some(&(number, v4)) = self.lent.get(at) else {
                    return;
                };
                self.lent.swap_remove(at);
                let number = if other % 2 == 0 { number } else { other };
                let view = self.view(number, v4);
                let watch = &mut self.tables.watch;
                let _ = self.tables.state.adopt(&view, self.tables.now, watch);
            }
            Step::Free(addr, port) => {
                let v4 = Endpoint4 {
                    addr: address(addr),
                    port,
                };
                self.tables.state.free(UDP, v4, &mut self.tables.watch);
            }
            Step::Wait(seconds) => {
                self.tables.wait(seconds.into());
            }
            Step::Reload(number, kind) => {
                // Whether ports rest is not for a reload to change.
                let both = (self.kind, kind.unwrap_or(self.kind));
                if let (Kind::Plain | Kind::Blocks | Kind::Fixed { .. }, new) = both {
                    self.kind = if new == Kind::Shared { self.kind } else { new };
                }
                // The controller takes back what it has lent; reports of what was opened may come later.
                for (_, v4) in &self.lent {
                    self.tables
                        .state
                        .pool_mut()
                        .give_back(UDP, v4.addr, v4.port);
                }
                let new = config_of(number, self.kind);
                let expected = self.allowed(&new);
                self.tables.state.reconfigure(&new, &mut self.tables.watch);
                self.config = new;
                self.is_simple = self.kind == Kind::Plain;
                assert_eq!(self.all(), expected);
            }
            Step::Restart(number) => {
                let new = config_of(number, self.kind);
                let kept = self.allowed(&new);
                let state = &self.tables.state;
                let (bindings, sessions): (Vec<_>, Vec<_>) =
                    (state.bindings().collect(), state.sessions().collect());
                let with_sessions: HashSet<Binding> =
                    sessions.iter().map(|view| view.binding).collect();
                self.tables.state = State::new(&new, SECRET);
                self.tables.state.serve(true, &mut ());
                let (now, watch) = (self.tables.now, &mut self.tables.watch);
                for view in &bindings {
                    let _ = self.tables.state.restore_binding(view, watch);
                }
                for view in &sessions {
                    let _ = self.tables.state.restore_session(view, now, watch);
                }
                self.config = new;
                self.lent.clear();
                self.is_simple = self.kind == Kind::Plain;
                let stays = |(binding, operators): &(Binding, bool)| {
                    *operators || with_sessions.contains(binding)
                };
                assert_eq!(self.all(), kept.into_iter().filter(stays).collect());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_node_has_an_address_of_another_pool(
        steps in prop::collection::vec(step(), 0..100),
        first in 0..4usize,
        kind in kind(),
    ) {
        let mut world = World::new(first, kind);
        for step in steps {
            world.step(step);
            world.check();
        }
    }
}
