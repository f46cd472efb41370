// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gateways, the network between them, etcd, hosts, servers and routers, and real time, in nanoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::Ipv6Addr;

use diolkos_nat64::config::{Endpoint6, Protocol};
use diolkos_node::config::{Bounds, Config};
use diolkos_node::gateway::Order;
use diolkos_node::order;
use diolkos_node::record::{Answer, Request};
use diolkos_node::{Event, NodeId, Report};

use crate::clock;
use crate::common::file;
use crate::connections::Connection;
use crate::engine::Engine;
use crate::machine::{addresses, hop, Machine, Process, PROTOCOLS};
use crate::maps::Model;
use crate::packets::Packet;
use crate::random::Random;
use crate::truth::{Key, Truth};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
const STEP: u64 = 100 * MS;
pub const SUBSCRIBERS: usize = 6;

pub enum What {
    /// A worker's thread wakes.
    Tick(usize),
    Step,
    /// The first item of a connection's direction, to this end, arrives.
    Arrival(u64, usize),
    Connected(u64, usize),
    /// An end finds its connection dead.
    Dead(u64, usize),
    /// Of this process.
    Request(usize, u64, u64, Request),
    Answer(usize, u64, u64, Answer),
    Packet(Packet),
}

/// A message to a process; it waits while the process is stopped.
pub enum Inner {
    Connected(usize, u64, usize),
    Lost(usize, u64),
    Bytes(usize, u64, Vec<u8>),
    Answer(u64, Answer),
}

/// A flow of a host.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub host: Endpoint6,
    pub protocol: Protocol,
    pub is_active: bool,
    /// The gateway to which routers send its packets.
    pub at: usize,
    /// The port by which it was last translated.
    pub port: Option<Key>,
}

/// What schedules have covered.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub translations: u64,
    pub by_copy: u64,
    /// By programs.
    pub by_copy_in_programs: u64,
    pub forwarded_by_programs: u64,
    pub forwarded_by_ports_away: u64,
    pub reused: u64,
    pub voids: u64,
    pub changes_of_routes: u64,
    pub failures_of_routes: u64,
}

impl Seen {
    pub fn all(&self) -> [u64; 7] {
        [
            self.translations,
            self.by_copy,
            self.by_copy_in_programs,
            self.forwarded_by_programs,
            self.forwarded_by_ports_away,
            self.reused,
            self.changes_of_routes,
        ]
    }

    pub fn add(&mut self, other: &Seen) {
        self.translations += other.translations;
        self.by_copy += other.by_copy;
        self.by_copy_in_programs += other.by_copy_in_programs;
        self.forwarded_by_programs += other.forwarded_by_programs;
        self.forwarded_by_ports_away += other.forwarded_by_ports_away;
        self.reused += other.reused;
        self.voids += other.voids;
        self.changes_of_routes += other.changes_of_routes;
        self.failures_of_routes += other.failures_of_routes;
    }
}

pub struct World {
    pub random: Random,
    pub now: u64,
    pub machines: Vec<Machine>,
    inboxes: Vec<VecDeque<Inner>>,
    pub connections: BTreeMap<u64, Connection>,
    /// Numbers connections, processes and events.
    pub count: u64,
    /// By sender and recipient: nothing passes until then.
    pub cut: BTreeMap<(usize, usize), u64>,
    pub engine: Engine,
    pub requests_are_late: bool,
    pub truth: Truth,
    pub flows: Vec<Flow>,
    /// Number of packets of hosts and servers in a step.
    pub load: usize,
    /// True if routers send packets to any gateway.
    pub is_restless: bool,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    whats: BTreeMap<u64, What>,
    pub config: Config,
    pub buckets: order::Order,
    pub seen: Seen,
    pub error: Option<String>,
}

fn config(nodes: usize, resting: usize) -> Config {
    Config {
        // A binding without packets ends after this time.
        lifetimes_s: vec![4],
        bounds: Bounds {
            changes: 40,
            resting,
        },
        ..file(
            0,
            (0..nodes).map(|at| {
                let nets = addresses(at).map(|address| format!("{address}/32"));
                (format!("gw{at}"), nets.join(" "))
            }),
        )
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let nodes = 2 + random.below(2);
        let machines = (0..nodes).map(|at| {
            let (offset, rate) = (random.next() % (1 << 50), 0.955 + 0.09 * random.unit());
            Machine::new(at, nodes, SECOND + offset, rate)
        });
        let machines: Vec<Machine> = machines.collect();
        let flow = |n: usize| Flow {
            host: Endpoint6 {
                addr: Ipv6Addr::from_bits(
                    0x2001_0db8 << 96 | ((n % SUBSCRIBERS) as u128) << 64 | (n % 2 + 1) as u128,
                ),
                port: 1000 + (n / SUBSCRIBERS) as u16,
            },
            protocol: PROTOCOLS[n / 3 % 2],
            is_active: n.is_multiple_of(2),
            at: n % nodes,
            port: None,
        };
        let config = config(nodes, 1 + random.below(10));
        let mut world = World {
            now: 0,
            inboxes: (0..nodes).map(|_| VecDeque::new()).collect(),
            machines,
            connections: BTreeMap::new(),
            count: 0,
            cut: BTreeMap::new(),
            engine: Engine::new(),
            requests_are_late: false,
            truth: Truth::default(),
            flows: (0..SUBSCRIBERS * 4).map(flow).collect(),
            load: 5,
            is_restless: true,
            heap: BinaryHeap::new(),
            whats: BTreeMap::new(),
            buckets: order::Order::new(&config),
            config,
            seen: Seen::default(),
            error: None,
            random,
        };
        for at in 0..nodes {
            world.post(at as u64 * MS, What::Tick(at));
        }
        world.post(STEP, What::Step);
        world
    }

    pub fn post(&mut self, after: u64, what: What) {
        self.count += 1;
        self.heap.push(Reverse((self.now + after, self.count)));
        self.whats.insert(self.count, what);
    }

    pub fn delay(&mut self) -> u64 {
        let most = if self.random.chance(0.02) { 150 } else { 20 };
        (self.random.unit() * (most * MS) as f64) as u64 + MS / 10
    }

    pub fn passes(&self, from: usize, to: usize) -> bool {
        let until = self.cut.get(&(from, to));
        until.is_none_or(|until| self.now >= *until)
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: f64) -> Result<(), String> {
        let end = self.now + (seconds * SECOND as f64) as u64;
        while let Some(&Reverse((at, number))) = self.heap.peek() {
            if at > end {
                break;
            }
            self.heap.pop();
            self.now = at;
            if let Some(what) = self.whats.remove(&number) {
                self.happen(what);
            }
            if let Some(error) = self.error.take() {
                let seconds = self.now as f64 / SECOND as f64;
                return Err(format!("at {seconds:.3} s: {error}"));
            }
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Tick(at) => self.tick(at),
            What::Step => {
                self.dial();
                self.offer();
                self.post(STEP, What::Step);
            }
            What::Arrival(connection, end) => self.arrive(connection, end),
            What::Connected(connection, end) => self.connected(connection, end),
            What::Dead(connection, end) => self.find_dead(connection, end),
            What::Request(at, process, token, request) => {
                let is_away = self.now < self.engine.away_until;
                if is_away || self.now < self.machines[at].cut_from_engine_until {
                    return;
                }
                let answer = self.engine.execute(self.machines[at].id, &request);
                let mut after = self.delay();
                if self.requests_are_late {
                    after += (self.random.unit() * 2.0 * SECOND as f64) as u64;
                }
                // Some answers are lost.
                if !self.random.chance(0.02) {
                    self.post(after, What::Answer(at, process, token, answer));
                }
            }
            What::Answer(at, process, token, answer) => {
                self.tell(at, process, Inner::Answer(token, answer));
            }
            What::Packet(packet) => self.packet(packet),
        }
    }

    fn tick(&mut self, at: usize) {
        let now = self.now;
        let machine = &mut self.machines[at];
        if machine.frozen_until > now {
            let after = (machine.frozen_until - now).min(5 * SECOND);
            return self.post(after, What::Tick(at));
        }
        let starts = machine.starts.filter(|when| *when <= now);
        if machine.process.is_none() && starts.is_some() {
            machine.starts = None;
            self.start(at);
        }
        while let Some(inner) = self.inboxes[at].pop_front() {
            self.handle(at, inner);
        }
        self.look_at_ways(at);
        if self.random.chance(0.3) {
            self.rooms(at);
        }
        let machine = &self.machines[at];
        clock::set(machine.clock(now));
        if let Some(process) = &machine.process {
            process.tables.expire();
        }
        self.event(at, None);
        let mut wait = 20 * MS;
        let machine = &mut self.machines[at];
        let clock = machine.clock(now);
        if let Some(process) = &mut machine.process {
            process.routes.follow(now);
            wait = process.steps.due().saturating_sub(clock).as_nanos() as u64;
        }
        let after = wait + self.random.next() % (100 * MS);
        self.post(after, What::Tick(at));
    }

    fn start(&mut self, at: usize) {
        self.count += 1;
        let incarnation = self.random.next();
        let secret = std::array::from_fn(|_| self.random.next());
        let config = Config {
            me: NodeId(at as u8),
            ..self.config.clone()
        };
        let machine = &mut self.machines[at];
        clock::set(machine.clock(self.now));
        let begin = (self.count, self.now);
        let process = Process::new(begin, &config, incarnation, secret, &machine.model);
        machine.process = Some(process);
        self.inboxes[at].clear();
    }

    /// Ends the process, its programs and its routes.
    pub fn kill(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        if let Some(process) = machine.process.take() {
            let routes = &process.routes;
            self.seen.changes_of_routes += routes.changed;
            self.seen.failures_of_routes += routes.failed;
            machine.model = Model::new(self.config.members.len());
            self.inboxes[at].clear();
            self.close_all(at, process.number);
        }
    }

    /// Looks up the ways to the other gateways.
    fn look_at_ways(&mut self, at: usize) {
        let machine = &self.machines[at];
        clock::set(machine.clock(self.now));
        let knows = self.now >= machine.without_ways_until;
        let Some(process) = &machine.process else {
            return;
        };
        for other in (0..self.machines.len()).filter(|other| *other != at) {
            let hop = knows.then(|| hop(other));
            process.tables.reach(NodeId(other as u8), hop);
        }
    }

    pub fn tell(&mut self, at: usize, process: u64, inner: Inner) {
        let machine = &self.machines[at];
        if machine
            .process
            .as_ref()
            .is_none_or(|its| its.number != process)
        {
            return;
        }
        if machine.frozen_until > self.now || !self.inboxes[at].is_empty() {
            self.inboxes[at].push_back(inner);
        } else {
            self.handle(at, inner);
        }
    }

    fn handle(&mut self, at: usize, inner: Inner) {
        let node = |at: usize| NodeId(at as u8);
        let event = match &inner {
            Inner::Connected(peer, connection, room) => Event::Connected {
                peer: node(*peer),
                connection: *connection,
                room: *room,
            },
            Inner::Lost(peer, connection) => Event::Lost {
                peer: node(*peer),
                connection: *connection,
            },
            Inner::Bytes(peer, connection, bytes) => Event::Message {
                peer: node(*peer),
                connection: *connection,
                bytes,
            },
            Inner::Answer(token, answer) => Event::Answer {
                token: *token,
                answer: answer.clone(),
            },
        };
        self.event(at, Some(event));
    }

    /// Has the worker take a step, and carries out the resulting orders.
    pub fn event(&mut self, at: usize, event: Option<Event<'_>>) {
        let now = self.now;
        let machine = &mut self.machines[at];
        let clock = machine.clock(now);
        clock::set(clock);
        let Some(process) = &mut machine.process else {
            return;
        };
        let is_told = event.is_some() || clock >= process.steps.due();
        let mut orders = Vec::new();
        process
            .steps
            .step(clock, event, &mut process.tables, &mut orders);
        let (number, end) = (process.number, process.steps.end());
        // Others give back what was opened before.
        process.opened.take();
        for order in orders {
            self.carry_out(at, number, order);
        }
        if end.is_some() {
            return self.kill(at);
        }
        if !is_told {
            // The node has not yet seen what follows from time alone.
            return;
        }
        if let Err(error) = self.check(at) {
            self.error.get_or_insert(format!("node {at}: {error}"));
        }
    }

    fn carry_out(&mut self, at: usize, process: u64, order: Order) {
        match order {
            Order::Send {
                connection, bytes, ..
            } => self.send(at, process, connection, bytes),
            Order::Close { connection, .. } => self.close(at, process, connection),
            Order::Ask { token, request } => {
                let mut after = self.delay();
                if self.requests_are_late && self.random.chance(0.1) {
                    after += (self.random.unit() * 9.0 * SECOND as f64) as u64;
                }
                self.post(after, What::Request(at, process, token, request));
            }
            Order::Attract(attracts) => {
                if let Some(process) = &mut self.machines[at].process {
                    process.routes.attract(attracts);
                }
            }
            Order::Report(Report::Void(_)) => self.seen.voids += 1,
            Order::Report(Report::Strange(peer)) => {
                self.error = Some(format!("node {at} calls {peer:?} strange"));
            }
            // No operator arms a gateway, and the steps have seen that there is more to do.
            Order::Again | Order::GoOver(_) | Order::Left | Order::Report(_) => {}
        }
    }
}
