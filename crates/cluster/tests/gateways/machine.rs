// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: a process that may be stopped or killed, and programs that continue.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diolkos_fastpath::Gateway as Hop;
use diolkos_nat64::config::{
    Binding, Endpoint4, Limits, Nat64Config, Owners, Pool4, Pools, Protocol, Timeouts,
};
use diolkos_nat64::session::{Event as Told, State};
use diolkos_node::gateway::{Gateway, Order};
use diolkos_node::{Config, Event, Node, NodeId};
use ipnet::Ipv6Net;

use crate::clock;
use crate::maps::Model;
use crate::routes::Routes;
use diolkos_cluster::steps::{self, Steps};
use diolkos_datapath::slowpath::Ways;
use diolkos_gateway::away::Away;
use diolkos_gateway::deferral::Departing;
use diolkos_gateway::hands;
use diolkos_gateway::leases::Leases;
use diolkos_gateway::mirror::Mirror;
use diolkos_gateway::peers::Peers;
use diolkos_gateway::records::Records;

/// The protocols that hosts use.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::Udp, Protocol::Icmp];
/// Of each address.
pub const PORTS: u16 = 4;
pub const FIRST_PORT: u16 = 5000;
/// Maximum number of ports of other gateways that programs know.
pub const AWAY: usize = 3;

/// A gateway's addresses: for customers, and for all other hosts.
pub fn addresses(node: usize) -> [Ipv4Addr; 2] {
    [3, 2].map(|net| Ipv4Addr::new(192, 0, net, node as u8))
}

/// The prefixes of customers: of half of the subscribers.
pub fn customers() -> Vec<Ipv6Net> {
    let prefixes = ["2001:db8::/63", "2001:db8:0:2::/64"];
    prefixes.map(|net| net.parse().expect("a prefix")).into()
}

/// Returns true if a host leaves from an address of its own pool.
pub fn is_own_pool(binding: &Binding) -> bool {
    // The first three of the six subscribers, each a /64.
    let is_customer = binding.v6.addr.segments()[3] < 3;
    let owner = owner(binding.v4.addr).index();
    binding.v4.addr == addresses(owner)[usize::from(!is_customer)]
}

/// Returns the owner of an address.
pub fn owner(addr: Ipv4Addr) -> NodeId {
    NodeId(addr.octets()[3])
}

/// Returns the peer of all hosts.
pub fn peer(protocol: Protocol) -> Endpoint4 {
    Endpoint4 {
        addr: Ipv4Addr::new(198, 51, 100, 1),
        port: if protocol == Protocol::Icmp { 0 } else { 53 },
    }
}

/// Returns how a gateway is reached.
pub fn hop(node: usize) -> Hop {
    Hop {
        ifindex: 7,
        next_hop: Ipv6Addr::from_bits(0xfe80 << 112 | (node as u128 + 1)),
        mtu: 1500,
    }
}

/// Bindings that were opened since the last check.
#[derive(Clone, Debug, Default)]
pub struct Opened(Arc<Mutex<Vec<Binding>>>);

impl Opened {
    pub fn take(&self) -> Vec<Binding> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl Records for Opened {
    fn event(&mut self, event: &Told) {
        if let Told::BindingOpened(binding) = event {
            self.0.lock().expect("no panic").push(*binding);
        }
    }

    fn follow(&mut self, _: &Nat64Config, _: &State) {}
}

/// The controller without its lock.
pub struct Inner {
    pub state: State,
    pub mirror: Mirror,
    leases: Leases,
}

pub struct Tables(pub RefCell<Inner>);

impl steps::Tables for Tables {
    fn hear(&mut self, event: Event<'_>, orders: &mut Vec<Order>) {
        let inner = self.0.get_mut();
        let (state, mirror, leases) = (&mut inner.state, &mut inner.mirror, &mut inner.leases);
        let departing = &mut Departing::default();
        hands::hear(event, state, mirror, leases, orders, departing);
    }

    fn lacks_ports(&self) -> bool {
        self.0.borrow().state.lacks_ports()
    }
}

impl Tables {
    /// Calls `see` with the node.
    pub fn look<T>(&self, see: impl FnOnce(&Node) -> T) -> T {
        let inner = self.0.borrow();
        see(inner.mirror.peers.as_ref().expect("it has others").node())
    }

    pub fn reach(&self, node: NodeId, hop: Option<Hop>) {
        let mut inner = self.0.borrow_mut();
        let peers = inner.mirror.peers.as_mut().expect("it has others");
        peers.reach(node, hop);
    }

    /// Ends what has expired.
    pub fn expire(&self) {
        let inner = &mut *self.0.borrow_mut();
        inner.mirror.gather();
        inner
            .state
            .expire(clock::now(), usize::MAX, &mut inner.mirror, |_| ());
        inner.mirror.take_out();
    }
}

/// A process.
pub struct Process {
    pub number: u64,
    pub steps: Steps,
    pub tables: Tables,
    pub ways: Arc<Ways>,
    pub opened: Opened,
    pub routes: Routes,
}

impl Process {
    /// Starts a process at the real time `now`; its clock must be set.
    pub fn new(
        (number, now): (u64, u64),
        config: &Config,
        incarnation: u64,
        secret: [u64; 4],
        model: &Model,
    ) -> Process {
        let node = Node::new(config.clone(), incarnation, [3, 4], clock::now());
        let gateway = Gateway::new(node.expect("a configuration"));
        let nat64 = configured(config);
        let state = State::new(&nat64, secret);
        let mut mirror = Mirror::new(&nat64, Some(Arc::new(model.clone())));
        mirror.clocks = clock::clocks();
        let opened = Opened::default();
        mirror.records = Some(Box::new(opened.clone()));
        mirror.begin(&state);
        let ways = Arc::new(Ways::default());
        let mut peers = Peers::new(gateway, Box::new(model.clone()), ways.clone(), None);
        peers.away = Away::at_most(AWAY);
        mirror.join(peers, state.bindings().map(|view| view.binding));
        let leases = Leases::new(&nat64, state.pool().pools(), None);
        Process {
            number,
            steps: Steps::default(),
            tables: Tables(RefCell::new(Inner {
                state,
                mirror,
                leases,
            })),
            ways,
            opened,
            routes: Routes::new(now),
        }
    }
}

pub struct Machine {
    pub id: NodeId,
    pub process: Option<Process>,
    pub model: Model,
    pub frozen_until: u64,
    /// The end of the time in which it cannot reach etcd.
    pub cut_from_engine_until: u64,
    /// The end of the time in which it knows no way to the others.
    pub without_ways_until: u64,
    offset: u64,
    rate: f64,
    /// The time at which a process is to be started.
    pub starts: Option<u64>,
}

impl Machine {
    pub fn new(at: usize, nodes: usize, offset: u64, rate: f64) -> Machine {
        Machine {
            id: NodeId(at as u8),
            process: None,
            model: Model::new(nodes),
            frozen_until: 0,
            cut_from_engine_until: 0,
            without_ways_until: 0,
            offset,
            rate,
            starts: Some(0),
        }
    }

    pub fn clock(&self, now: u64) -> Duration {
        Duration::from_nanos(self.offset + (now as f64 * self.rate) as u64)
    }
}

/// The parts of a gateway's pools.
fn parts(node: usize) -> [Pool4; 2] {
    let [of_customers, of_others] = addresses(node);
    let part = |address: Ipv4Addr, sources| Pool4 {
        interface: None,
        net: address.into(),
        ports: FIRST_PORT..=FIRST_PORT + PORTS - 1,
        protocols: PROTOCOLS.to_vec(),
        sources,
    };
    [part(of_customers, customers()), part(of_others, Vec::new())]
}

/// Returns the configuration of a gateway's tables.
fn configured(config: &Config) -> Nat64Config {
    let members = (0..).zip(&config.members);
    let owned =
        members.flat_map(|(at, member): (u8, _)| member.pool4.iter().map(move |net| (*net, at)));
    let all = (0..config.members.len()).flat_map(parts);
    let idle = Duration::from_secs(config.lifetimes_s[0].into());
    Nat64Config {
        translator: diolkos_xlat::Config {
            pref64: config.pref64.clone(),
            ..Default::default()
        },
        pool4: parts(config.me.index()).into(),
        owners: Some(Owners {
            me: config.me.0,
            addresses: owned.collect(),
            pools: Pools::of(&all.collect::<Vec<_>>()),
        }),
        limits: Limits {
            source_prefix_len: config.source_prefix_len,
            host_share: 100,
            source_share: 100,
            site_share: 100,
            outside_share: 100,
            ..Limits::default()
        },
        timeouts: Timeouts {
            udp: idle,
            icmp: idle,
            ..Timeouts::default()
        },
        ..Nat64Config::default()
    }
}
