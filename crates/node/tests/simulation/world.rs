// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gateways, the network between them, the engine, hosts, servers and routers, and real time, in nanoseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint6, Protocol};
use diolkos_node::config::{Bounds, Config, Member, Timing};
use diolkos_node::message::Message;
use diolkos_node::record::{Answer, Request};
use diolkos_node::{Action, Event, Node, NodeId, Way};

use crate::engine::Engine;
use crate::lies;
use crate::machine::{address, v4, Machine, Process};
use crate::net::{Connection, Item, Net};
use crate::random::Random;
use crate::truth::{key_of, subscriber, Truth};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
const TICK: u64 = 100 * MS;
const STEP: u64 = 100 * MS;
/// A binding without packets ends after so long.
const IDLE: u64 = 4 * SECOND;
/// A way that is stuck for so long ends a connection.
const STUCK: u64 = 8 * SECOND;
pub const SUBSCRIBERS: usize = 6;

enum What {
    Tick(usize),
    Step,
    /// The first item of a connection's direction, to this end, arrives.
    Arrival(u64, usize),
    /// For a process, and nothing else.
    ForProcess(usize, u64, Inner),
    Request(usize, u64, u64, Request),
    Packet(Packet),
}

/// What a process is told; it waits while the process stands still.
enum Inner {
    Connected(usize, u64),
    Lost(usize, u64),
    Bytes(usize, u64, Vec<u8>),
    Answer(u64, Answer),
}

#[derive(Clone, Copy)]
pub struct Packet {
    at: usize,
    from: Option<NodeId>,
    hops: u32,
    way: Side,
}

#[derive(Clone, Copy)]
enum Side {
    /// Of a host; an error does not open.
    V6 {
        host: Endpoint6,
        protocol: Protocol,
        opens: bool,
    },
    /// To a port, and whom it was given to when it was sent.
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
    /// Where routers send its packets.
    pub at: usize,
    /// By which port it was translated last, and when.
    pub port: Option<crate::truth::Key>,
    pub passed: u64,
    /// How often its port has changed.
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
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    whats: std::collections::HashMap<u64, What>,
    count: u64,
    processes: u64,
    /// Packets of hosts and servers in a step.
    pub load: usize,
    /// Routers send packets anywhere.
    pub is_restless: bool,
    pub requests_are_late: bool,
    /// Most that a message between gateways usually takes, milliseconds.
    pub slowness: u64,
    pub config: Config,
    error: Option<String>,
    /// A node that lies, or did.
    liar: Option<usize>,
    pub given_back: usize,
    pub voids: usize,
}

pub fn config(nodes: usize) -> Config {
    let member = |at| Member {
        name: format!("gw{at}"),
        pool4: vec![format!("{}/32", address(at)).parse().expect("a network")],
    };
    Config {
        me: NodeId(0),
        members: (0..nodes).map(member).collect(),
        source_prefix_len: 64,
        key: [1, 2],
        pref64: vec!["64:ff9b::/96".parse().expect("a network")],
        lifetimes_s: vec![300],
        timing: Timing::default(),
        bounds: Bounds {
            changes: 40,
            resting: 3,
        },
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
            protocol: Protocol::ALL[n / 3 % 2],
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
            whats: std::collections::HashMap::new(),
            count: 0,
            processes: 0,
            load: 5,
            is_restless: true,
            requests_are_late: false,
            slowness: 20,
            config: config(nodes),
            error: None,
            liar,
            given_back: 0,
            voids: 0,
        };
        for at in 0..nodes {
            world.post(at as u64 * MS, What::Tick(at));
        }
        world.post(STEP, What::Step);
        world
    }

    fn post(&mut self, after: u64, what: What) {
        self.count += 1;
        self.heap.push(Reverse((self.now + after, self.count)));
        self.whats.insert(self.count, what);
    }

    fn delay(&mut self) -> u64 {
        let most = if self.random.chance(0.02) { 150 } else { 20 };
        (self.random.unit() * (most * MS) as f64) as u64 + MS / 10
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
        let config = Config {
            me: NodeId(at as u8),
            ..self.config.clone()
        };
        let incarnation = self.random.next();
        let node = Node::new(config, incarnation, [3, 4], clock).expect("a configuration");
        let machine = &mut self.machines[at];
        let mut process = Process::new(self.processes, at, node);
        machine.program.copies.clear();
        machine.program.until.fill(Duration::ZERO);
        if !knows {
            machine.program.own.clear();
        }
        for binding in machine.program.own.values() {
            assert!(process.node.know(*binding));
            process.take(binding, self.now);
        }
        machine.process = Some(process);
        self.inboxes[at].clear();
    }

    /// The process is no more; its programs go on, or do not.
    pub fn kill(&mut self, at: usize, programs_end: bool) {
        let Some(process) = self.machines[at].process.take() else {
            return;
        };
        if programs_end {
            self.machines[at].program.own.clear();
            self.machines[at].program.copies.clear();
        }
        self.inboxes[at].clear();
        let its = |c: &Connection, end: usize| c.ends[end] == (at, process.number) && c.open[end];
        let connections = self.net.connections.iter();
        let ends = connections.flat_map(|(id, c)| (0..2).filter(|&e| its(c, e)).map(|e| (*id, e)));
        for (id, end) in ends.collect::<Vec<_>>() {
            self.close(id, end);
        }
    }

    fn tell(&mut self, at: usize, number: u64, inner: Inner) {
        let machine = &self.machines[at];
        if machine.process.as_ref().is_none_or(|p| p.number != number) {
            return;
        }
        if machine.frozen_until > self.now || !self.inboxes[at].is_empty() {
            self.inboxes[at].push_back(inner);
        } else {
            self.handle(at, inner);
        }
    }

    fn handle(&mut self, at: usize, inner: Inner) {
        match inner {
            Inner::Connected(peer, connection) => self.event(
                at,
                Event::Connected {
                    peer: NodeId(peer as u8),
                    connection,
                    room: 70,
                },
            ),
            Inner::Lost(peer, connection) => self.event(
                at,
                Event::Lost {
                    peer: NodeId(peer as u8),
                    connection,
                },
            ),
            Inner::Bytes(peer, connection, bytes) => {
                let message = Message::decode(&bytes);
                self.given_back += usize::from(matches!(message, Some(Message::Given(_))));
                let event = Event::Message {
                    peer: NodeId(peer as u8),
                    connection,
                    bytes: &bytes,
                };
                self.event(at, event);
            }
            Inner::Answer(token, answer) => self.event(at, Event::Answer { token, answer }),
        }
    }

    pub fn event(&mut self, at: usize, event: Event<'_>) {
        let clock = self.machines[at].clock(self.now);
        let Some(process) = &mut self.machines[at].process else {
            return;
        };
        let mut actions = Vec::new();
        process.node.handle(clock, event, &mut actions);
        for action in actions {
            self.act(at, action);
        }
    }

    fn act(&mut self, at: usize, action: Action) {
        let (now, lies) = (self.now, self.machines[at].lies);
        let machine = &mut self.machines[at];
        let Some(process) = &mut machine.process else {
            return;
        };
        let number = process.number;
        match action {
            Action::Send {
                connection, bytes, ..
            } => self.send(at, connection, bytes),
            Action::Close { connection, .. } => {
                let of = self.net.connections.get(&connection);
                let end = of.and_then(|c| (0..2).find(|&end| c.ends[end] == (at, number)));
                end.into_iter().for_each(|end| self.close(connection, end));
            }
            Action::Ask { token, request } => {
                let mut after = self.delay();
                if self.requests_are_late && self.random.chance(0.1) {
                    after += (self.random.unit() * 9.0 * SECOND as f64) as u64;
                }
                self.post(after, What::Request(at, number, token, request));
            }
            Action::SetDeadline { owner, until } => machine.program.until[owner.index()] = until,
            Action::Forget(protocol, v4) => {
                machine
                    .program
                    .copies
                    .remove(&crate::truth::key(protocol, v4));
            }
            Action::ForgetAll(owner) => {
                machine
                    .program
                    .copies
                    .retain(|_, (of, _)| *of != owner.index());
            }
            Action::Install(binding) => {
                machine.program.own.insert(key_of(&binding), binding);
                process.take(&binding, now);
            }
            Action::Hold(protocol, v4) => {
                process.free.remove(&crate::truth::key(protocol, v4));
            }
            Action::Free(protocol, v4) => {
                let key = crate::truth::key(protocol, v4);
                process.resting.remove(&key);
                if !process.free.insert(key) && !lies {
                    self.error = Some(format!("node {at} frees {key:?}, which is free"));
                }
            }
            Action::Left => process.has_left = true,
            Action::Report(diolkos_node::Report::Void(_)) => self.voids += 1,
            Action::Report(diolkos_node::Report::Strange(peer)) => {
                if self.liar.is_none() {
                    self.error = Some(format!("node {at} calls {peer:?} strange"));
                }
            }
            Action::Homes | Action::Attract(_) | Action::Report(_) => {}
        }
    }

    fn expire(&mut self, at: usize) {
        let now = self.now;
        let machine = &mut self.machines[at];
        let Some(process) = &mut machine.process else {
            return;
        };
        let idle = process.used.iter().filter(|(_, used)| **used + IDLE < now);
        let idle: Vec<_> = idle.map(|(key, _)| *key).collect();
        for key in idle {
            let machine = &mut self.machines[at];
            if let (Some(binding), Some(process)) =
                (machine.program.own.remove(&key), &mut machine.process)
            {
                process.close(&binding);
                self.event(at, Event::Closed(binding.protocol, binding.v4));
            }
        }
    }

    // Connections.

    fn send(&mut self, at: usize, id: u64, bytes: Vec<u8>) {
        let bytes = match self.machines[at].lies {
            true => lies::instead(self, at, bytes),
            false => bytes,
        };
        let after = self.delay() + (self.random.unit() * (self.slowness * MS) as f64) as u64;
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        let to = usize::from(connection.ends[0].0 == at);
        if !connection.open[1 - to] {
            return;
        }
        let arrives = connection.last[to].max(now + after);
        connection.last[to] = arrives;
        connection.bytes[to] += bytes.len();
        connection.queues[to].push_back(Item::Bytes(bytes));
        self.post(arrives - now, What::Arrival(id, to));
    }

    /// One end closes a connection. What is on its way to the other one may still arrive, or not.
    pub fn close(&mut self, id: u64, end: usize) {
        let (lost, after) = (self.random.chance(0.5), self.delay());
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        connection.open[end] = false;
        if lost {
            connection.queues[1 - end].clear();
        }
        connection.queues[1 - end].push_back(Item::End);
        let arrives = connection.last[1 - end].max(now + after);
        self.post(arrives - now, What::Arrival(id, 1 - end));
    }

    /// Both ends find a connection dead, at different moments.
    pub fn reset(&mut self, id: u64) {
        for end in 0..2 {
            let after = (self.random.unit() * 2.0 * SECOND as f64) as u64;
            self.lose(id, end, after);
        }
    }

    fn lose(&mut self, id: u64, end: usize, after: u64) {
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut connection.open[end]) {
            let (at, number) = connection.ends[end];
            let peer = connection.ends[1 - end].0;
            self.post(after, What::ForProcess(at, number, Inner::Lost(peer, id)));
        }
    }

    fn arrive(&mut self, id: u64, to: usize) {
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        let (from, (at, number)) = (connection.ends[1 - to].0, connection.ends[to]);
        if connection.queues[to].is_empty() {
            return;
        }
        if !self.net.passes(now, from, at) {
            if let Some(connection) = self.net.connections.get_mut(&id) {
                connection.stuck = connection.stuck.or(Some(now));
            }
            return self.post(100 * MS, What::Arrival(id, to));
        }
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        connection.stuck = None;
        match connection.queues[to].pop_front() {
            Some(Item::Bytes(bytes)) => {
                connection.bytes[to] -= bytes.len().min(connection.bytes[to]);
                self.tell(at, number, Inner::Bytes(from, id, bytes));
            }
            Some(Item::End) if std::mem::take(&mut connection.open[to]) => {
                self.tell(at, number, Inner::Lost(from, id));
            }
            _ => {}
        }
    }

    fn rooms(&mut self, at: usize) {
        let mut rooms = Vec::new();
        for (id, c) in &self.net.connections {
            if let Some(end) = (0..2).find(|&end| c.ends[end].0 == at && c.open[end]) {
                let peer = NodeId(c.ends[1 - end].0 as u8);
                rooms.push((peer, *id, c.capacity.saturating_sub(c.bytes[1 - end])));
            }
        }
        for (peer, connection, room) in rooms {
            let event = Event::Room {
                peer,
                connection,
                room,
            };
            self.event(at, event);
        }
    }

    fn dial(&mut self) {
        let count = self.machines.len();
        let now = self.now;
        self.net
            .connections
            .retain(|_, c| c.open != [false; 2] || c.queues.iter().any(|q| !q.is_empty()));
        let stuck = self.net.connections.iter();
        let stuck = stuck.filter(|(_, c)| c.stuck.is_some_and(|since| now > since + STUCK));
        for id in stuck.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.reset(id);
        }
        for (one, other) in (0..count).flat_map(|a| (0..a).map(move |b| (b, a))) {
            let is_ready = |at: usize| {
                let machine = &self.machines[at];
                let process = machine.process.as_ref().filter(|p| !p.has_left)?;
                (machine.frozen_until <= now).then_some(process.number)
            };
            let (Some(first), Some(second)) = (is_ready(one), is_ready(other)) else {
                continue;
            };
            let passes = self.net.passes(now, one, other) && self.net.passes(now, other, one);
            let has = self.net.has(one, other) && self.net.has(other, one);
            if !passes || has || !self.random.chance(0.3) {
                continue;
            }
            self.net.count += 1;
            let id = self.net.count;
            let connection = Connection {
                ends: [(one, first), (other, second)],
                open: [true; 2],
                queues: [VecDeque::new(), VecDeque::new()],
                bytes: [0; 2],
                // Some take a few messages at a time.
                capacity: 70
                    + self
                        .random
                        .below(if self.slowness > 100 { 200 } else { 3000 }),
                last: [now; 2],
                stuck: None,
            };
            self.net.connections.insert(id, connection);
            for (at, number, peer, end) in [(one, first, other, 0), (other, second, one, 1)] {
                let after = self.delay();
                if let Some(connection) = self.net.connections.get_mut(&id) {
                    connection.last[end] = now + after + 1;
                }
                self.post(
                    after,
                    What::ForProcess(at, number, Inner::Connected(peer, id)),
                );
            }
        }
    }

    // Packets.

    fn step(&mut self) {
        self.dial();
        for at in 0..self.machines.len() {
            let has_left = self.machines[at]
                .process
                .as_ref()
                .is_some_and(|p| p.has_left);
            if has_left {
                // The process ends, and its programs with it.
                self.kill(at, true);
            }
        }
        for _ in 0..self.load {
            let n = self.random.below(self.flows.len());
            let mut flow = self.flows[n];
            if self.random.chance(0.02) && self.is_restless {
                flow.is_active ^= true;
            }
            if self.is_restless && self.random.chance(0.1) {
                flow.at = self.random.below(self.machines.len());
            }
            self.flows[n] = flow;
            if flow.is_active {
                let opens = !self.random.chance(0.1);
                self.send_from_host(n, opens);
            }
        }
        for _ in 0..self.load {
            let (port, protocol) = (self.random.below(8), self.random.below(2));
            let owner = self.random.below(self.machines.len());
            let at = self.random.below(self.machines.len());
            let key = (
                address(owner).to_bits(),
                crate::machine::FIRST_PORT + port as u16,
                protocol as u8,
            );
            // A packet to a port that nobody uses at that moment is for nobody.
            let to = self.truth.given.get(&key).copied();
            let to = to.filter(|_| !self.users(key).is_empty());
            let after = self.delay();
            let packet = Packet {
                at,
                from: None,
                hops: 0,
                way: Side::V4 { key, to },
            };
            self.post(after, What::Packet(packet));
        }
    }

    pub fn send_from_host(&mut self, n: usize, opens: bool) {
        let Flow {
            host, protocol, at, ..
        } = self.flows[n];
        let after = self.delay();
        let packet = Packet {
            at,
            from: None,
            hops: 0,
            way: Side::V6 {
                host,
                protocol,
                opens,
            },
        };
        self.post(after, What::Packet(packet));
    }

    fn packet(&mut self, packet: Packet) {
        let (at, now) = (packet.at, self.now);
        if packet.hops as usize > self.machines.len() + 1 {
            self.error = Some("a packet goes round".to_owned());
            return;
        }
        let machine = &mut self.machines[at];
        let clock = machine.clock(now);
        let by_program = match packet.way {
            Side::V6 { host, protocol, .. } => {
                let is_it = |b: &Binding| (b.v6, b.protocol) == (host, protocol);
                machine.program.of_host(clock, is_it)
            }
            Side::V4 { key, .. } => machine.program.of_port(clock, &key),
        };
        let stands = machine.frozen_until > now;
        // A copy's owner that is reachable gets the packet, as the program's table says.
        let way = machine.process.as_mut().map(|process| match packet.way {
            Side::V6 {
                host,
                protocol,
                opens,
            } => {
                let asked = diolkos_node::Asked {
                    host,
                    protocol,
                    from: packet.from,
                    opens,
                };
                process.node.who(clock, asked)
            }
            Side::V4 { key, .. } => {
                let (protocol, v4) = v4(&key);
                process.node.who4(clock, v4, protocol, packet.from)
            }
        });
        match (way, by_program) {
            (Some(Way::Forward(node)), _) => self.forward(packet, node),
            (None, Some(binding)) => self.translate(packet, binding),
            (Some(_), Some(binding)) if stands => self.translate(packet, binding),
            (Some(Way::Here), Some(binding)) => self.translate(packet, binding),
            (Some(Way::Copy(binding)), _) if !stands => {
                let owner = binding.v4.addr.octets()[3].into();
                let copies = &mut machine.program.copies;
                copies.insert(key_of(&binding), (owner, binding));
                self.translate(packet, binding);
            }
            (Some(Way::Open), _) if !stands => self.open(packet),
            (Some(Way::Here), None) if !stands && !machine.lies => {
                self.error = Some(format!("node {at} has lost a binding"));
            }
            _ => {}
        }
    }

    fn forward(&mut self, packet: Packet, to: NodeId) {
        if self.net.passes(self.now, packet.at, to.index()) {
            let after = self.delay();
            let packet = Packet {
                at: to.index(),
                from: Some(self.machines[packet.at].id),
                hops: packet.hops + 1,
                ..packet
            };
            self.post(after, What::Packet(packet));
        }
    }

    fn translate(&mut self, packet: Packet, binding: Binding) {
        let (now, at, key) = (self.now, packet.at, key_of(&binding));
        let machine = &mut self.machines[at];
        if let Some(process) = &mut machine.process {
            // Servers do not keep a binding alive (RFC 4787 REQ-6 leaves that open).
            if machine.frozen_until <= now && matches!(packet.way, Side::V6 { .. }) {
                process.used.entry(key).and_modify(|used| *used = now);
            }
        }
        if binding.v4.addr != address(at) {
            self.truth.by_copy += 1;
        }
        let who = subscriber(&binding);
        let owner = usize::from(binding.v4.addr.octets()[3]);
        if let Side::V6 { host, protocol, .. } = packet.way {
            let mut flows = self.flows.iter_mut();
            if let Some(flow) = flows.find(|f| (f.host, f.protocol) == (host, protocol)) {
                flow.changed += u32::from(flow.port.is_some_and(|port| port != key));
                (flow.port, flow.passed) = (Some(key), now);
            }
        }
        // What holds for an owner that lies, or after it was replaced, is not known.
        if machine.lies || self.liar == Some(owner) {
            return;
        }
        if let Side::V4 { key, to } = packet.way {
            let is_wrong = to.is_some_and(|to| to != who) && !self.truth.exempt.contains(&key);
            if is_wrong {
                self.error = Some(format!("{key:?}: a packet for {to:x?} reaches {who:x}"));
            }
        }
        if let Err(error) = self.truth.translate(now, key, who, at) {
            self.error = Some(error);
        }
    }

    fn open(&mut self, packet: Packet) {
        let Side::V6 { host, protocol, .. } = packet.way else {
            return;
        };
        let (now, at) = (self.now, packet.at);
        let who = (host.addr.to_bits() >> 64) as u64;
        let choice = self.random.next();
        let machine = &mut self.machines[at];
        let clock = machine.clock(now);
        let Some(process) = &mut machine.process else {
            return;
        };
        let mut choices = process.choices(who, protocol as u8);
        if self.random.chance(0.1) {
            // The node knows better which ports rest, and for whom.
            choices.extend(process.resting.keys().filter(|key| key.2 == protocol as u8));
        }
        let Some(&key) = choices.get(choice as usize % choices.len().max(1)) else {
            self.event(at, Event::Short);
            return;
        };
        let binding = Binding {
            protocol,
            v4: v4(&key).1,
            v6: host,
        };
        if !process.node.may_open(clock, &binding) {
            if !machine.lies && process.free.contains(&key) {
                self.error = Some(format!("node {at} may not open {binding:?}, which is free"));
            }
            return;
        }
        process.take(&binding, now);
        machine.program.own.insert(key, binding);
        self.event(at, Event::Opened(binding));
        if self.liar != Some(at) && !self.truth.exempt.contains(&key) {
            let given = self.truth.give(now, key, who);
            self.error = given.err().or_else(|| self.others_use(key, who));
        }
        self.translate(packet, binding);
    }

    /// A node that would translate a port for another subscriber, if a packet came now.
    fn others_use(&self, key: crate::truth::Key, who: u64) -> Option<String> {
        let users = self.users(key);
        let (machine, other) = users.iter().find(|(_, b)| subscriber(b) != who)?;
        Some(format!(
            "{key:?} is given to {who:x}, and {machine:?} uses it for {:x}",
            subscriber(other)
        ))
    }

    /// Nodes that would translate a port if a packet came now, and by what.
    fn users(&self, key: crate::truth::Key) -> Vec<(NodeId, Binding)> {
        let owner = NodeId((key.0 & 0xff) as u8);
        let mut users = Vec::new();
        for machine in self.machines.iter().filter(|machine| !machine.lies) {
            let clock = machine.clock(self.now);
            let by_program = machine.program.of_port(clock, &key);
            users.extend(by_program.map(|b| (machine.id, b)));
            let process = machine.process.as_ref();
            let is_its = |p: &&Process| machine.id != owner && p.node.may_use(owner, clock);
            if let Some(process) = process.filter(is_its) {
                let mut copies = process.node.bindings_of(owner);
                let copy = copies.find(|b| key_of(b) == key);
                users.extend(copy.map(|b| (machine.id, b)));
            }
        }
        users
    }
}
