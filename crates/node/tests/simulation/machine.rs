// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway: a process that may stand still or be killed, with the node, and programs that go on.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use diolkos_core::config::nat64::{
    Binding, Endpoint4, Endpoint6, Limits, Nat64Config, Owners, Pool4, Protocol, Timeouts,
};
use diolkos_core::session::{self, Missing, SessionView, State, Watcher};
use diolkos_core::Reason;
use diolkos_node::gateway::{Changed, Gateway, Tables};
use diolkos_node::order::BUCKETS;
use diolkos_node::{Asked, Config, Node, NodeId, Way};

use crate::truth::{key_of, Key};

/// Which protocols hosts speak.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::Udp, Protocol::Icmp];
pub const PORTS: u16 = 8;
pub const FIRST_PORT: u16 = 5000;

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, node as u8)
}

/// What the kernel translates by itself.
pub struct Program {
    pub own: BTreeMap<Key, Binding>,
    /// Sessions from copies, with their owners.
    pub copies: BTreeMap<Key, (usize, Binding)>,
    pub until: Vec<Duration>,
    /// Whether an owner takes its packets.
    pub takes: Vec<bool>,
    /// Where packets of unknown hosts go.
    pub homes: Vec<Option<NodeId>>,
    /// When a host last used a binding of this node by the program.
    pub seen: BTreeMap<Key, Duration>,
    /// How often it was asked to end sessions; it does so every now and then.
    asked: u32,
    /// Where those of some bindings go; the oldest makes room.
    pub away: VecDeque<(Endpoint6, Protocol, NodeId)>,
}

/// Bindings elsewhere that a program remembers.
const AWAY: usize = 3;
/// It ends a session when it is asked for so many times.
const SLOWNESS: u32 = 6;

impl Program {
    fn new(nodes: usize) -> Program {
        Program {
            own: BTreeMap::new(),
            copies: BTreeMap::new(),
            until: vec![Duration::ZERO; nodes],
            takes: vec![false; nodes],
            homes: vec![None; BUCKETS],
            away: VecDeque::new(),
            asked: 0,
            seen: BTreeMap::new(),
        }
    }

    /// What a program of a new process knows: sessions of this node's bindings may go on.
    pub fn begin_anew(&mut self, knows: bool) {
        let own = std::mem::take(&mut self.own);
        *self = Program::new(self.until.len());
        if knows {
            self.own = own;
        }
    }

    /// Packets of this host go there for some time.
    pub fn lead_away(&mut self, host: Endpoint6, protocol: Protocol, to: NodeId) {
        self.away.retain(|(h, p, _)| (h, p) != (&host, &protocol));
        self.away.push_back((host, protocol, to));
        if self.away.len() > AWAY {
            self.away.pop_front();
        }
    }

    /// Where a packet of a host goes that has no session here; None: to the slow path.
    pub fn way_of_host(
        &self,
        me: NodeId,
        host: Endpoint6,
        protocol: Protocol,
        bucket: usize,
    ) -> Option<NodeId> {
        let mut away = self.away.iter();
        let known = away.find(|(h, p, _)| (*h, *p) == (host, protocol));
        let known = known.map(|(.., node)| *node);
        let known = known.filter(|node| self.takes[node.index()]);
        known.or(self.homes[bucket]).filter(|node| *node != me)
    }

    /// By what it translates a packet of a host.
    pub fn of_host(&self, clock: Duration, is_it: impl Fn(&Binding) -> bool) -> Option<Binding> {
        let own = self.own.values().find(|b| is_it(b));
        let is_allowed = |owner: usize| clock < self.until[owner];
        let mut copies = self.copies.values();
        let copy = copies.find(|(owner, b)| is_it(b) && is_allowed(*owner));
        own.copied().or(copy.map(|(_, b)| *b))
    }

    /// Whom it translates a port for.
    pub fn of_port(&self, clock: Duration, key: &Key) -> Option<Binding> {
        let copy = self.copies.get(key);
        let copy = copy.filter(|(owner, _)| clock < self.until[*owner]);
        self.own.get(key).copied().or(copy.map(|(_, b)| *b))
    }
}

/// A process.
pub struct Process {
    pub number: u64,
    pub gateway: Gateway,
    pub state: State,
    pub has_left: bool,
}

impl Process {
    pub fn new(number: u64, config: &Config, node: Node, secret: [u64; 4]) -> Process {
        Process {
            number,
            gateway: Gateway::new(node),
            state: State::new(&tables(config), secret),
            has_left: false,
        }
    }
}

/// How the tables of a node are configured.
fn tables(config: &Config) -> Nat64Config {
    let members = (0..).zip(&config.members);
    let addresses =
        members.flat_map(|(at, member): (u8, _)| member.pool4.iter().map(move |net| (*net, at)));
    let idle = Duration::from_secs(config.lifetimes_s[0].into());
    Nat64Config {
        translator: diolkos_core::Config {
            pref64: config.pref64.clone(),
            ..Default::default()
        },
        pool4: vec![Pool4 {
            net: config.members[config.me.index()].pool4[0],
            ports: FIRST_PORT..=FIRST_PORT + PORTS - 1,
            protocols: PROTOCOLS.to_vec(),
        }],
        owners: Some(Owners {
            me: config.me.0,
            addresses: addresses.collect(),
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

/// The peer of all hosts.
pub fn peer(protocol: Protocol) -> Endpoint4 {
    Endpoint4 {
        addr: Ipv4Addr::new(198, 51, 100, 1),
        port: if protocol == Protocol::Icmp { 0 } else { 53 },
    }
}

/// Hears of what the tables do: the program follows, and the node.
pub struct Eyes<'a> {
    pub program: &'a mut Program,
    /// None while the gateway itself changes the tables.
    pub gateway: Option<&'a mut Gateway>,
    pub clock: Duration,
    /// Which node has forwarded the packet that is being translated.
    pub from: Option<NodeId>,
    /// Bindings of this node that have come and gone.
    pub changes: &'a mut Vec<Changed>,
    /// A binding was opened that the node does not allow.
    pub error: Option<String>,
}

impl Watcher for Eyes<'_> {
    fn event(&mut self, event: session::Event) {
        match event {
            session::Event::BindingOpened(binding) => {
                self.program.own.insert(key_of(&binding), binding);
                self.changes.push(Changed::Opened(binding));
                if let Some(gateway) = &mut self.gateway {
                    if !gateway.node().may_open(self.clock, &binding) {
                        self.error = Some(format!("{binding:?} may not be opened"));
                    }
                    gateway.opened(self.clock, binding);
                }
            }
            session::Event::BindingClosed(binding) => {
                let (protocol, v4) = (binding.protocol, binding.v4);
                self.program.own.remove(&key_of(&binding));
                self.changes.push(Changed::Closed(protocol, v4));
                if let Some(gateway) = &mut self.gateway {
                    gateway.closed(self.clock, protocol, v4);
                }
            }
            session::Event::CopyMade(binding, owner) => {
                let copies = &mut self.program.copies;
                copies.insert(key_of(&binding), (owner.into(), binding));
            }
            session::Event::CopyEnded(binding, _) => {
                self.program.copies.remove(&key_of(&binding));
            }
            _ => {}
        }
    }

    fn last_seen(&mut self, session: &SessionView) -> Option<Duration> {
        self.program.seen.get(&key_of(&session.binding)).copied()
    }

    fn missing(&mut self, missing: Missing, opens: bool) -> session::Way {
        let Some(gateway) = &mut self.gateway else {
            return session::Way::Drop(Reason::NoBinding);
        };
        let way = match missing {
            Missing::V6(protocol, host) => {
                let asked = Asked {
                    host,
                    protocol,
                    from: self.from,
                    opens,
                };
                gateway.who(self.clock, asked)
            }
            Missing::V4(protocol, v4) => gateway.who4(self.clock, v4, protocol, self.from),
        };
        match way {
            Way::Copy(binding) => session::Way::Copy(binding),
            Way::Forward(node) => session::Way::Forward(node.0),
            Way::Open => session::Way::Open,
            Way::Here => {
                self.error = Some(format!("the tables have lost {missing:?}"));
                session::Way::Drop(Reason::NoBinding)
            }
            Way::Drop(_) => session::Way::Drop(Reason::NoBinding),
        }
    }

    fn boottime(&mut self) -> Duration {
        self.clock
    }

    fn dropped(&mut self, _: Reason) {}
}

/// The tables and programs of a machine, as its gateway changes them.
pub struct Hands<'a> {
    pub state: &'a mut State,
    pub program: &'a mut Program,
    pub clock: Duration,
    pub changes: Vec<Changed>,
    pub error: Option<String>,
}

impl Hands<'_> {
    /// Does something with the tables. What it changes, the node knows.
    fn quietly<T>(&mut self, act: impl FnOnce(&mut State, &mut Eyes<'_>) -> T) -> T {
        let mut changes = Vec::new();
        let mut eyes = Eyes {
            program: self.program,
            gateway: None,
            clock: self.clock,
            from: None,
            changes: &mut changes,
            error: None,
        };
        act(self.state, &mut eyes)
    }
}

impl Tables for Hands<'_> {
    fn use_copies(&mut self, owner: NodeId, until: Duration) {
        self.state.set_deadline(owner.0, until);
        self.program.until[owner.index()] = until;
    }

    fn forget(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.quietly(|state, eyes| state.forget(protocol, v4, usize::MAX, eyes));
    }

    fn forget_some(&mut self, owner: NodeId) -> bool {
        self.program.asked += 1;
        let budget = usize::from(self.program.asked.is_multiple_of(SLOWNESS));
        self.quietly(|state, eyes| state.forget_all(owner.0, budget, eyes))
    }

    fn install(&mut self, binding: Binding) {
        let clock = self.clock;
        let installed = self.quietly(|state, eyes| state.inherit(binding, clock, eyes));
        if installed.is_err() {
            let gone = Changed::Closed(binding.protocol, binding.v4);
            self.changes.push(gone);
        }
    }

    fn hold(&mut self, protocol: Protocol, v4: Endpoint4) {
        if !self.state.hold(protocol, v4) {
            self.error = Some(format!("{v4:?} cannot be held"));
        }
    }

    fn free(&mut self, protocol: Protocol, v4: Endpoint4) {
        self.quietly(|state, eyes| state.free(protocol, v4, eyes));
    }

    fn lead(&mut self, bucket: usize, home: Option<NodeId>) {
        self.program.homes[bucket] = home;
    }

    fn reach(&mut self, owner: NodeId, takes: bool) {
        self.program.takes[owner.index()] = takes;
    }

    fn serve(&mut self, serves: bool) {
        self.state.serve(serves);
    }

    fn changed(&mut self) -> Option<Changed> {
        self.changes.pop()
    }
}

pub struct Machine {
    pub id: NodeId,
    pub process: Option<Process>,
    pub program: Program,
    pub frozen_until: u64,
    /// It does not reach the engine until then.
    pub cut_from_engine_until: u64,
    /// Answers to it take long until then.
    pub slow_until: u64,
    offset: u64,
    rate: f64,
    pub lies: bool,
    /// When a process is to be started, and whether it knows the bindings of the one before.
    pub starts: Option<(u64, bool)>,
}

impl Machine {
    pub fn new(at: usize, nodes: usize, offset: u64, rate: f64, lies: bool) -> Machine {
        Machine {
            id: NodeId(at as u8),
            process: None,
            program: Program::new(nodes),
            frozen_until: 0,
            cut_from_engine_until: 0,
            slow_until: 0,
            offset,
            rate,
            lies,
            starts: Some((0, false)),
        }
    }

    pub fn clock(&self, now: u64) -> Duration {
        Duration::from_nanos(self.offset + (now as f64 * self.rate) as u64)
    }
}

pub fn v4(key: &Key) -> (Protocol, Endpoint4) {
    let addr = Ipv4Addr::from_bits(key.0);
    (
        Protocol::ALL[usize::from(key.2)],
        Endpoint4 { addr, port: key.1 },
    )
}
