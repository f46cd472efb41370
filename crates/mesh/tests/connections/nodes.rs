// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two nodes of `crates/node` over connections of this crate, with an engine in memory.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diolkos_mesh::Settings;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::config::{Bounds, Member, Timing};
use diolkos_node::message::Status;
use diolkos_node::record::{Answer, Outcome, PeerRecord, Request};
use diolkos_node::{Action, Config, Event, Moment, Node, NodeId};

use crate::certificates::Authority;
use crate::gateway::{name, settings, Gateway, LONG};

type Records = BTreeMap<NodeId, (u64, Vec<u8>)>;

/// The engine of both nodes.
#[derive(Clone, Default)]
struct Engine(Arc<Mutex<(u64, Records)>>);

impl Engine {
    fn execute(&self, node: NodeId, request: &Request) -> Answer {
        let mut state = self.0.lock().expect("nobody panics");
        let (revision, records) = &mut *state;
        let outcome = match request {
            Request::Read(of) => Outcome::Value(records.get(of).cloned()),
            Request::ReadAll => {
                let found = |(node, (_, bytes)): (&NodeId, &(u64, Vec<u8>))| PeerRecord {
                    node: Some(*node),
                    name: name(node.index()),
                    bytes: bytes.clone(),
                };
                Outcome::All(records.iter().map(found).collect())
            }
            Request::Write(expected, bytes) => {
                let known = records.get(&node).map_or(0, |(revision, _)| *revision);
                if known == *expected {
                    *revision += 1;
                    records.insert(node, (*revision, bytes.clone()));
                    Outcome::Written(*revision)
                } else {
                    Outcome::Refused
                }
            }
        };
        Answer {
            engine: 1,
            revision: *revision,
            outcome,
        }
    }
}

fn address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, node)
}

fn binding(node: u8, number: u16) -> Binding {
    Binding {
        protocol: Protocol::Udp,
        v4: Endpoint4 {
            addr: address(node),
            port: 1024 + number,
        },
        v6: Endpoint6 {
            addr: Ipv6Addr::new(0x2001, 0xdb8, node.into(), number / 100, 0, 0, 0, 1),
            port: 1024 + number,
        },
    }
}

/// A gateway with its worker.
struct Worker {
    gateway: Gateway,
    node: Node,
    me: NodeId,
    engine: Engine,
    /// The clock of all workers of a test.
    clock: Instant,
    /// Connections that the node was told of.
    connections: Vec<u64>,
}

impl Worker {
    fn start(
        settings: &Settings,
        me: u8,
        authority: &Authority,
        engine: &Engine,
        clock: Instant,
    ) -> Worker {
        let member = |at: u8| Member {
            name: name(at.into()),
            pool4: vec![format!("{}/32", address(at)).parse().expect("a network")],
        };
        let config = Config {
            me: NodeId(me),
            members: (0..2).map(member).collect(),
            source_prefix_len: 64,
            key: [1, 2],
            pools: Vec::new(),
            pref64: vec!["64:ff9b::/96".parse().expect("a network")],
            lifetimes_s: vec![300],
            timing: Timing::default(),
            defer: false,
            bounds: Bounds {
                changes: 100_000,
                resting: 1000,
            },
        };
        let gateway = Gateway::start(settings, me, &authority.gateway(me.into()));
        let now = clock.elapsed();
        let node = Node::new(config, u64::from(me) + 1, [3, 4], now).expect("a good file");
        Worker {
            gateway,
            node,
            me: NodeId(me),
            engine: engine.clone(),
            clock,
            connections: Vec::new(),
        }
    }

    fn now(&self) -> Moment {
        self.clock.elapsed()
    }

    fn handle(&mut self, event: Event<'_>) {
        let (now, mut out) = (self.now(), Vec::new());
        self.node.handle(now, event, &mut out);
        self.act(out);
    }

    fn act(&mut self, out: Vec<Action>) {
        for action in out {
            match action {
                Action::Send {
                    peer,
                    connection,
                    bytes,
                } => self.gateway.mesh.send(peer, connection, bytes),
                Action::Close { peer, connection } => self.gateway.mesh.close(peer, connection),
                Action::Ask { token, request } => {
                    let answer = self.engine.execute(self.me, &request);
                    self.handle(Event::Answer { token, answer });
                }
                Action::Report(report) => panic!("{report:?}"),
                _ => {}
            }
        }
    }

    /// Handles the events of one tick.
    fn turn(&mut self) {
        if let Ok(event) = self.gateway.events.recv_timeout(Duration::from_millis(10)) {
            let (now, mut out) = (self.now(), Vec::new());
            let Worker {
                gateway,
                node,
                connections,
                ..
            } = self;
            gateway.mesh.note(event, |event| {
                if let Event::Connected { connection, .. } = &event {
                    connections.push(*connection);
                }
                node.handle(now, event, &mut out);
            });
            self.act(out);
        }
        self.handle(Event::Tick);
    }

    fn open(&mut self, binding: Binding) {
        assert!(self.node.may_open(self.now(), &binding));
        self.handle(Event::Opened(binding));
    }

    fn usable_copies(&self, of: NodeId) -> Vec<Binding> {
        match self.node.may_use(of, self.now()) {
            true => self.node.bindings_of(of).collect(),
            false => Vec::new(),
        }
    }
}

fn until(workers: &mut [Worker], is_so: impl Fn(&[Worker]) -> bool) {
    let end = Instant::now() + LONG;
    while !is_so(workers) {
        assert!(Instant::now() < end, "it takes too long");
        workers.iter_mut().for_each(Worker::turn);
    }
}

#[test]
fn bindings_of_one_node_are_copies_at_the_other() {
    let authority = Authority::new();
    let local = "::1".parse().expect("an address");
    let settings = settings(&[local, local]);
    let (engine, clock) = (Engine::default(), Instant::now());
    let start = |me| Worker::start(&settings, me, &authority, &engine, clock);
    let mut workers = [start(0), start(1)];
    let serves = |worker: &Worker| worker.node.status(worker.now()) == Status::Serving;
    until(&mut workers, |workers| workers.iter().all(serves));

    for node in [0, 1_u8] {
        for number in 0..500 {
            workers[usize::from(node)].open(binding(node, number));
        }
    }
    let have = |workers: &[Worker], count| {
        (0..2_usize).all(|at| workers[at].usable_copies(NodeId(1 - at as u8)).len() == count)
    };
    until(&mut workers, |workers| have(workers, 500));
    let mut copies = workers[1].usable_copies(NodeId(0));
    copies.sort_unstable_by_key(|copy| copy.v4.port);
    assert!(copies
        .into_iter()
        .eq((0..500).map(|number| binding(0, number))));

    // The connection is cut: changes in the meantime come with the snapshot of the next one.
    let before = workers.each_ref().map(|worker| worker.connections.len());
    let last = workers[0]
        .connections
        .last()
        .copied()
        .expect("a connection");
    workers[0].gateway.mesh.close(NodeId(1), last);
    let closed = binding(0, 7);
    workers[0].handle(Event::Closed(closed.protocol, closed.v4));
    workers[1].open(binding(1, 500));
    workers[1].open(binding(1, 501));
    until(&mut workers, |workers| {
        let counts = [1, 0].map(|at: usize| workers[at].usable_copies(NodeId(1 - at as u8)).len());
        let is_new = |at: usize| workers[at].connections.len() > before[at];
        is_new(0) && is_new(1) && counts == [499, 502]
    });
    assert!(!workers[1].usable_copies(NodeId(0)).contains(&closed));
}
