// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gateways, the network between them, the engine, hosts, servers and routers, and real time, in nanoseconds.

mod connections;
mod events;
mod packets;
mod reload;
mod slow_path;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint6, Protocol};
use diolkos_node::config::{Bounds, Config};
use diolkos_node::record::{Answer, Request};
use diolkos_node::{Event, Node, NodeId, Via};

use crate::common::file;
use crate::engine::Engine;
use crate::formats::Version;
use crate::lies;
use crate::machine::{address, peer, v4, Machine, Process, PROTOCOLS};
use crate::net::{Connection, Item, Net};
use crate::random::Random;
use crate::tables::Eyes;
use crate::truth::{key_of, subscriber, Truth};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
const TICK: u64 = 100 * MS;
const STEP: u64 = 100 * MS;
/// Time after which a stalled link ends a connection.
const STUCK: u64 = 8 * SECOND;
pub const SUBSCRIBERS: usize = 6;

enum What {
    Tick(usize),
    Step,
    /// The first item of a connection's direction, to this end, arrives.
    Arrival(u64, usize),
    /// For a process only.
    ForProcess(usize, u64, Inner),
    Request(usize, u64, u64, Request),
    Packet(Packet),
}

/// A message to a process; it waits while the process is stopped.
enum Inner {
    Connected(usize, u64),
    Lost(usize, u64),
    Bytes(usize, u64, Vec<u8>),
    Answer(u64, Answer),
}

#[derive(Clone, Copy)]
pub struct Packet {
    at: usize,
    via: Via,
    /// Programs know only its host.
    is_fragment: bool,
    hops: u32,
    way: Side,
}

#[derive(Clone, Copy)]
enum Side {
    /// From a host; an error opens no binding.
    V6 {
        host: Endpoint6,
        protocol: Protocol,
        opens: bool,
    },
    /// To a port, with the subscriber that had the port when the packet was sent.
    V4 {
        key: crate::truth::Key,
        to: Option<u64>,
    },
}

/// A flow of a host.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub host: Endpoint6,
    pub protocol: Protocol,
    pub is_active: bool,
    /// The gateway to which routers send its packets.
    pub at: usize,
    /// The port by which it was last translated, and when.
    pub port: Option<crate::truth::Key>,
    pub passed: u64,
    /// Number of times that its port has changed.
    pub changed: u32,
}

pub struct World {
    pub random: Random,
    pub now: u64,
    pub machines: Vec<Machine>,
    inboxes: Vec<VecDeque<Inner>>,
    pub net: Net,
    pub engine: Engine,
    pub truth: Truth,
    pub flows: Vec<Flow>,
    /// The queue of events by time and order of creation, with their indices in `whats`.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    whats: Vec<Option<What>>,
    /// Free indices of `whats`.
    places: Vec<usize>,
    count: u64,
    processes: u64,
    /// Number of packets of hosts and servers in a step.
    pub load: usize,
    /// True if routers send packets to any gateway.
    pub is_restless: bool,
    pub requests_are_late: bool,
    /// Fraction of the packets that are fragments.
    pub fragments: f64,
    /// True if several gateways send by one link, so that the sender of a packet is unknown.
    pub links_are_shared: bool,
    /// True if tables have no room for everything that others give back.
    pub is_tight: bool,
    /// Usual maximum delay of a message between gateways, in milliseconds.
    pub slowness: u64,
    pub config: Config,
    buckets: diolkos_node::order::Order,
    error: Option<String>,
    /// A node that lies, or did.
    liar: Option<usize>,
    pub given_back: usize,
    /// Number of packets of hosts, other than errors, that processes dropped.
    pub dropped: usize,
    pub voids: usize,
    /// The version to which nodes are upgraded, one after the other.
    pub newer: Option<Version>,
    /// Number of files that were accepted while a node ran, and of those that were refused.
    pub reloads: [usize; 2],
    /// Number of hellos that were refused.
    pub refused: usize,
    /// Number of processes that changed to another file together with the others.
    pub rolled: usize,
}

pub fn config(nodes: usize) -> Config {
    Config {
        // A binding without packets ends after this time.
        lifetimes_s: vec![4],
        bounds: Bounds {
            changes: 40,
            resting: 3,
        },
        ..file(
            0,
            (0..nodes).map(|at| (format!("gw{at}"), format!("{}/32", address(at)))),
        )
    }
}

impl World {
    pub fn new(seed: u64, nodes: usize, has_liar: bool) -> World {
        let mut random = Random::new(seed);
        let liar = has_liar.then(|| random.below(nodes));
        let machines = (0..nodes).map(|at| {
            let (offset, rate) = (random.next() % (1 << 50), 0.955 + 0.09 * random.unit());
            Machine::new(at, nodes, SECOND + offset, rate, liar == Some(at))
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
            passed: 0,
            changed: 0,
        };
        let mut world = World {
            random,
            now: 0,
            inboxes: (0..nodes).map(|_| VecDeque::new()).collect(),
            machines,
            net: Net::default(),
            engine: Engine::new(),
            truth: Truth::default(),
            flows: (0..SUBSCRIBERS * 4).map(flow).collect(),
            heap: BinaryHeap::new(),
            whats: Vec::new(),
            places: Vec::new(),
            count: 0,
            processes: 0,
            load: 5,
            is_restless: true,
            requests_are_late: false,
            fragments: 0.1,
            links_are_shared: false,
            is_tight: false,
            slowness: 20,
            buckets: diolkos_node::order::Order::new(&config(nodes)),
            config: Config {
                // Acknowledgements at once, and programs that open nothing.
                defer: seed.is_multiple_of(3),
                ..config(nodes)
            },
            error: None,
            liar,
            given_back: 0,
            dropped: 0,
            voids: 0,
            newer: None,
            reloads: [0; 2],
            refused: 0,
            rolled: 0,
        };
        for at in 0..nodes {
            world.post(at as u64 * MS, What::Tick(at));
        }
        world.post(STEP, What::Step);
        world
    }

    fn post(&mut self, after: u64, what: What) {
        self.count += 1;
        let place = self.places.pop().unwrap_or(self.whats.len());
        self.whats
            .resize_with(self.whats.len().max(place + 1), || None);
        self.whats[place] = Some(what);
        self.heap
            .push(Reverse((self.now + after, self.count, place)));
    }

    fn delay(&mut self) -> u64 {
        let most = if self.random.chance(0.02) { 150 } else { 20 };
        (self.random.unit() * (most * MS) as f64) as u64 + MS / 10
    }

    /// Returns the bucket of a flow's host.
    pub fn bucket(&self, flow: &Flow) -> usize {
        let subscriber = self.config.subscriber(flow.host.addr);
        self.buckets.bucket(subscriber)
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: f64) -> Result<(), String> {
        let end = self.now + (seconds * SECOND as f64) as u64;
        while let Some(&Reverse((at, _, place))) = self.heap.peek() {
            if at > end {
                break;
            }
            self.heap.pop();
            self.now = at;
            self.places.push(place);
            if let Some(what) = self.whats[place].take() {
                self.happen(what)?;
            }
            if let Some(error) = self.error.take() {
                return Err(format!(
                    "at {:.3} s: {error}",
                    self.now as f64 / SECOND as f64
                ));
            }
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, what: What) -> Result<(), String> {
        match what {
            What::Tick(at) => self.tick(at),
            What::Step => {
                self.step();
                let all_stand = self
                    .machines
                    .iter()
                    .all(|m| m.frozen_until > self.now + 60 * SECOND);
                self.post(if all_stand { 30 * SECOND } else { STEP }, What::Step);
            }
            What::Arrival(connection, end) => self.arrive(connection, end),
            What::ForProcess(at, number, inner) => self.tell(at, number, inner),
            What::Request(at, number, token, request) => {
                let is_away = self.now < self.engine.away_until;
                if !is_away && self.now >= self.machines[at].cut_from_engine_until {
                    let id = self.machines[at].id;
                    let answer = self.engine.execute(id, &request);
                    let is_slow = self.now < self.machines[at].slow_until;
                    let slow = if is_slow {
                        self.random.unit() * 4.0
                    } else {
                        0.01
                    };
                    let after = self.delay() + (slow * SECOND as f64) as u64;
                    self.post(
                        after,
                        What::ForProcess(at, number, Inner::Answer(token, answer)),
                    );
                }
            }
            What::Packet(packet) => self.packet(packet),
        }
        Ok(())
    }

    // Processes.

    fn tick(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        if machine.frozen_until > self.now {
            let after = (machine.frozen_until - self.now).min(5 * SECOND);
            return self.post(after, What::Tick(at));
        }
        if machine.process.is_none() {
            if let Some((_, knows)) = machine.starts.take_if(|(when, _)| *when <= self.now) {
                self.start(at, knows);
            }
        }
        while let Some(inner) = self.inboxes[at].pop_front() {
            self.handle(at, inner);
        }
        self.expire(at);
        self.rooms(at);
        self.event(at, Event::Tick);
        let after = TICK * 2 / 5 + self.random.next() % (TICK * 4 / 5);
        self.post(after, What::Tick(at));
    }

    fn start(&mut self, at: usize, knows: bool) {
        self.processes += 1;
        let clock = self.machines[at].clock(self.now);
        let machine = &mut self.machines[at];
        let knows = knows && machine.runs == machine.next;
        machine.runs = machine.next;
        let goes_over = std::mem::take(&mut machine.goes_over);
        let config = self.file(at, self.machines[at].runs.has_other_file);
        let incarnation = self.random.next();
        let secret = std::array::from_fn(|_| self.random.next());
        let mut node =
            Node::new(config.clone(), incarnation, [3, 4], clock).expect("a configuration");
        if goes_over {
            self.rolled += 1;
            let all: Vec<NodeId> = self.machines.iter().map(|machine| machine.id).collect();
            node.expect(&all);
        }
        let machine = &mut self.machines[at];
        let all = machine.bindings.iter().copied();
        let bindings = all.filter(|its| machine.owner(its.v4.addr) == config.me);
        let bindings: Vec<Binding> = bindings.collect();
        let mut process = Process::new(self.processes, (&config, &bindings), node, secret);
        process.went_over = goes_over;
        machine.program.begin_anew(knows);
        let known: Vec<Binding> = machine.program.own.values().copied().collect();
        for binding in known {
            assert!(process.gateway.know(binding));
            let mut eyes = Eyes {
                program: &mut machine.program,
                gateway: None,
                clock,
                via: Via::Outside,
                changes: &mut Vec::new(),
                error: None,
            };
            let installed = process.state.inherit(binding, clock, &mut eyes);
            assert_eq!(installed, Ok(()), "what was there fits");
        }
        machine.process = Some(process);
        self.inboxes[at].clear();
    }

    /// Returns one of the two files for a node.
    pub fn file(&self, at: usize, is_other: bool) -> Config {
        let mut config = Config {
            me: NodeId(at as u8),
            ..self.config.clone()
        };
        if is_other {
            let first = std::mem::take(&mut config.members[0].pool4);
            config.members[0].pool4 = std::mem::replace(&mut config.members[1].pool4, first);
        }
        config
    }

    /// Ends the process; its programs continue, or do not.
    pub fn kill(&mut self, at: usize, programs_end: bool) {
        self.machines[at].goes_over = false;
        let Some(process) = self.machines[at].process.take() else {
            return;
        };
        if programs_end {
            self.machines[at].program.begin_anew(false);
        }
        self.inboxes[at].clear();
        let its = |c: &Connection, end: usize| c.ends[end] == (at, process.number) && c.open[end];
        let connections = self.net.connections.iter();
        let ends = connections.flat_map(|(id, c)| (0..2).filter(|&e| its(c, e)).map(|e| (*id, e)));
        for (id, end) in ends.collect::<Vec<_>>() {
            self.close(id, end);
        }
    }
}
