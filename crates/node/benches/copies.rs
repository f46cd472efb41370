// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of copies: bytes on the wire for each new flow, bytes of memory for each copy, and the time in
//! which a gateway that joins reads those of two others.
//!
//! `cargo bench -p diolkos-node --bench copies -- [BINDINGS]`: the default is a million bindings; ten million need 3 GB
//! of memory. All nodes run in one thread, and messages pass between them without a connection, so the times are those
//! of the nodes' own work.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use common::file;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::config::Bounds;
use diolkos_node::record::{Answer, Outcome, PeerRecord, Request};
use diolkos_node::{Action, Config, Event, Node, NodeId};

const NODES: usize = 3;
const JOINER: usize = 2;
/// Bytes that a connection takes before its other end has read anything.
const ROOM: usize = 1 << 20;
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT;
const STEP: Duration = Duration::from_millis(50);
/// New flows in a second. Each ends in the next second.
const NEW_FLOWS: u32 = 10_000;
const SECONDS: u32 = 10;

fn main() {
    let number = std::env::args().find_map(|word| word.parse().ok());
    let bindings: u32 = number.unwrap_or(1_000_000);
    let mut cluster = Cluster::new(bindings);
    cluster.settle(|nodes| nodes.iter().all(Node::attracts));
    for n in 0..bindings {
        let (owner, binding) = binding(n);
        cluster.hear(owner, Event::Opened(binding));
        if n % 4096 == 0 {
            cluster.step();
        }
    }
    let others = |nodes: &[Node]| nodes[1].standing(NodeId(0), Duration::ZERO).copies;
    cluster.settle(|nodes| others(nodes) == bindings.div_ceil(2));
    println!("{bindings} bindings at two nodes");

    let memory = resident();
    cluster.spent = [Duration::ZERO; NODES];
    let (sent, begun) = (cluster.bytes, Instant::now());
    cluster.start();
    cluster.connect(0, JOINER);
    cluster.connect(1, JOINER);
    cluster.settle(|nodes| nodes[JOINER].attracts());
    let its = &cluster.nodes[JOINER];
    let owners = [0, 1].map(|owner| its.standing(NodeId(owner), cluster.now).copies);
    assert_eq!(owners.iter().sum::<u32>(), bindings, "it has read all");
    let [first, second, joiner] = cluster.spent.map(|time| time.as_secs_f64());
    println!(
        "a third one has read them after {:.2} s: {joiner:.2} s of processor time of its own, {first:.2} s and {second:.2} s of the others",
        begun.elapsed().as_secs_f64()
    );
    let copies = f64::from(bindings);
    println!(
        "{:.1} bytes of a snapshot for each",
        (cluster.bytes - sent) as f64 / copies
    );
    println!(
        "{:.1} bytes of memory for each copy",
        (resident() - memory) as f64 / copies
    );

    let sent = cluster.bytes;
    let owner = 0;
    for second in 0..SECONDS {
        for n in 0..NEW_FLOWS {
            let fresh = 2 * (bindings + second * NEW_FLOWS + n);
            cluster.hear(owner, Event::Opened(binding(fresh).1));
            if let Some(old) = fresh.checked_sub(2 * NEW_FLOWS).filter(|_| second > 0) {
                let Binding { protocol, v4, .. } = binding(old).1;
                cluster.hear(owner, Event::Closed(protocol, v4));
            }
            if n % (NEW_FLOWS / 20) == 0 {
                cluster.step();
            }
        }
    }
    let rate = (cluster.bytes - sent) as f64 / f64::from(SECONDS);
    println!("{NEW_FLOWS} new flows a second at one of {NODES} nodes: {:.2} MB/s, all that nodes tell each other", rate / 1e6);
}

/// Returns binding number `n` and its owner: even ones belong to the first node. Eight ports of each host, four hosts
/// in each /64.
fn binding(n: u32) -> (usize, Binding) {
    let (owner, of_owner) = ((n % 2) as usize, n / 2);
    let host = u128::from(of_owner / 8);
    let prefix = (0x2001_0db8 + n as u128 % 2) << 96;
    let binding = Binding {
        protocol: Protocol::Udp,
        v4: Endpoint4 {
            addr: Ipv4Addr::from_bits(first_address(owner) + of_owner / PORTS),
            port: (FIRST_PORT + of_owner % PORTS) as u16,
        },
        v6: Endpoint6 {
            addr: (prefix + ((host / 4) << 64) + 0x1000 + host % 4).into(),
            port: 40_000 + (of_owner % 8) as u16,
        },
    };
    (owner, binding)
}

fn first_address(node: usize) -> u32 {
    Ipv4Addr::new(198, 18, node as u8, 0).to_bits()
}

/// Nodes whose messages arrive at once and in order, and whose engine answers at once.
struct Cluster {
    nodes: Vec<Node>,
    bindings: u32,
    now: Duration,
    waiting: VecDeque<(usize, Action)>,
    /// Bytes in flight from one node to another.
    queued: [[usize; NODES]; NODES],
    /// Bytes that arrived since the sender was last told of room. It is told as rarely as by a connection of
    /// `crates/mesh`: with an update at each message, room for a few bytes would make messages ever shorter.
    untold: [[usize; NODES]; NODES],
    records: [Option<(u64, Vec<u8>)>; NODES],
    revision: u64,
    connections: u64,
    bytes: u64,
    spent: [Duration; NODES],
}

impl Cluster {
    fn new(bindings: u32) -> Cluster {
        let mut cluster = Cluster {
            nodes: Vec::new(),
            bindings,
            now: Duration::ZERO,
            waiting: VecDeque::new(),
            queued: Default::default(),
            untold: Default::default(),
            records: Default::default(),
            revision: 0,
            connections: 0,
            bytes: 0,
            spent: [Duration::ZERO; NODES],
        };
        cluster.start();
        cluster.start();
        cluster.connect(0, 1);
        cluster
    }

    /// Starts the next node.
    fn start(&mut self) {
        let me = self.nodes.len();
        let bounds = Bounds {
            changes: 1 << 20,
            resting: self.bindings as usize,
        };
        let config = Config {
            bounds,
            ..file(
                me,
                (0..NODES).map(|at| (format!("gw{at}"), format!("198.18.{at}.0/24"))),
            )
        };
        let node = Node::new(config, me as u64 + 7, [3, 4], self.now);
        self.nodes.push(node.expect("it is right"));
    }

    fn connect(&mut self, one: usize, other: usize) {
        self.connections += 1;
        for (me, peer) in [(one, other), (other, one)] {
            let connected = Event::Connected {
                peer: NodeId(peer as u8),
                connection: self.connections,
                room: ROOM,
            };
            self.hear(me, connected);
        }
    }

    fn hear(&mut self, node: usize, event: Event<'_>) {
        let is_of_tables = matches!(event, Event::Opened(_) | Event::Closed(..));
        let (begun, mut out) = ((!is_of_tables).then(processor_time), Vec::new());
        self.nodes[node].handle(self.now, event, &mut out);
        self.spent[node] += begun.map_or(Duration::ZERO, |begun| processor_time() - begun);
        for action in out {
            if let Action::Send { peer, bytes, .. } = &action {
                self.queued[node][peer.index()] += bytes.len();
            }
            self.waiting.push_back((node, action));
        }
    }

    /// Lets time pass, and delivers everything.
    fn step(&mut self) {
        self.now += STEP;
        (0..self.nodes.len()).for_each(|node| self.hear(node, Event::Tick));
        while let Some((node, action)) = self.waiting.pop_front() {
            match action {
                Action::Send {
                    peer,
                    connection,
                    bytes,
                } => self.carry(node, peer, connection, &bytes),
                Action::Ask { token, request } => {
                    let answer = self.answer(node, request);
                    self.hear(node, Event::Answer { token, answer });
                }
                _ => {}
            }
        }
    }

    fn carry(&mut self, from: usize, to: NodeId, connection: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let me = NodeId(from as u8);
        let message = Event::Message {
            peer: me,
            connection,
            bytes,
        };
        self.hear(to.index(), message);
        let queued = &mut self.queued[from][to.index()];
        *queued -= bytes.len();
        let untold = &mut self.untold[from][to.index()];
        *untold += bytes.len();
        if *queued > 0 && *untold < ROOM / 4 {
            return;
        }
        *untold = 0;
        let room = Event::Room {
            peer: to,
            connection,
            room: ROOM - *queued,
        };
        self.hear(from, room);
    }

    fn answer(&mut self, node: usize, request: Request) -> Answer {
        let outcome = match request {
            Request::ReadAll => {
                let records = self.records.iter().enumerate();
                let found = |(node, record): (usize, &Option<(u64, Vec<u8>)>)| {
                    let (_, bytes) = record.clone()?;
                    Some(PeerRecord {
                        node: Some(NodeId(node as u8)),
                        name: format!("gw{node}"),
                        bytes,
                    })
                };
                Outcome::All(records.filter_map(found).collect())
            }
            Request::Read(of) => Outcome::Value(self.records[of.index()].clone()),
            Request::Write(revision, bytes) => {
                let has = self.records[node]
                    .as_ref()
                    .map_or(0, |(revision, _)| *revision);
                if has == revision {
                    self.revision += 1;
                    self.records[node] = Some((self.revision, bytes));
                    Outcome::Written(self.revision)
                } else {
                    Outcome::Refused
                }
            }
        };
        Answer {
            engine: 1,
            revision: self.revision,
            outcome,
        }
    }

    fn settle(&mut self, is_settled: impl Fn(&[Node]) -> bool) {
        for _ in 0..100_000 {
            if is_settled(&self.nodes) {
                return;
            }
            self.step();
        }
        panic!("it does not settle");
    }
}

/// Returns the CPU time of this process, which other load on the machine does not change. The kernel's resolution is a
/// few milliseconds.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Returns the memory use of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    pages * 4096
}
