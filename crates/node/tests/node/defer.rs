// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A binding that a node reports as acknowledged is known to another reachable node: a flow whose first packet waits
//! for that continues if the owner dies.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::common::file;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::config::Timing;
use diolkos_node::{Action, Asked, Config, Event, Moment, Node, NodeId, Via, Way};
use proptest::prelude::*;

const OWNER: usize = 0;
const NODES: usize = 3;
const MS: Duration = Duration::from_millis(1);

fn config(me: usize) -> Config {
    Config {
        defer: true,
        ..file(
            me,
            (0..NODES).map(|at| (format!("gw{at}"), format!("192.0.2.{at}/32"))),
        )
    }
}

fn binding(port: u16) -> Binding {
    Binding {
        protocol: Protocol::Udp,
        v4: Endpoint4 {
            addr: "192.0.2.0".parse().expect("an address"),
            port,
        },
        v6: Endpoint6 {
            addr: format!("2001:db8:{:x}::1", port % 5)
                .parse()
                .expect("an address"),
            port,
        },
    }
}

/// A message, and when it arrives.
type Late = (u64, Vec<u8>);

/// Nodes, and the messages in flight between them.
struct World {
    now: Moment,
    nodes: Vec<Node>,
    /// By pair, in order.
    ways: BTreeMap<(usize, usize), VecDeque<Late>>,
    connections: u64,
    /// Bindings of the owner, with the changes that announced them.
    open: BTreeMap<u16, u64>,
}

impl World {
    fn new() -> World {
        let node = |at| Node::new(config(at), 7 + at as u64, [3, 4], MS).expect("it is right");
        let mut world = World {
            now: MS,
            nodes: (0..NODES).map(node).collect(),
            ways: BTreeMap::new(),
            connections: 0,
            open: BTreeMap::new(),
        };
        for pair in [(0, 1), (0, 2), (1, 2)] {
            world.connect(pair);
        }
        world.pass(7000);
        world
    }

    fn event(&mut self, at: usize, event: Event<'_>) {
        let mut actions = Vec::new();
        self.nodes[at].handle(self.now, event, &mut actions);
        for action in actions {
            if let Action::Send {
                peer,
                connection,
                bytes,
            } = action
            {
                let way = self.ways.entry((at, peer.index())).or_default();
                way.push_back((connection, bytes));
            }
        }
    }

    fn connect(&mut self, (a, b): (usize, usize)) {
        self.connections += 1;
        for (at, peer) in [(a, b), (b, a)] {
            self.ways.remove(&(at, peer));
            let connected = Event::Connected {
                peer: NodeId(peer as u8),
                connection: self.connections,
                room: 1 << 20,
            };
            self.event(at, connected);
        }
    }

    /// Delivers one message, if there is one.
    fn deliver(&mut self, (from, to): (usize, usize)) {
        let way = self.ways.get_mut(&(from, to));
        let Some((connection, bytes)) = way.and_then(VecDeque::pop_front) else {
            return;
        };
        let event = Event::Message {
            peer: NodeId(from as u8),
            connection,
            bytes: &bytes,
        };
        self.event(to, event);
    }

    /// Lets so many milliseconds pass in which nothing is late.
    fn pass(&mut self, ms: u32) {
        for _ in 0..ms / 50 {
            self.now += MS * 50;
            (0..NODES).for_each(|at| self.event(at, Event::Tick));
            self.settle();
        }
    }

    fn settle(&mut self) {
        while let Some(pair) = self.ways.iter().find(|(_, way)| !way.is_empty()) {
            let pair = *pair.0;
            self.deliver(pair);
        }
    }

    fn open(&mut self, port: u16) {
        let binding = binding(port);
        if self.nodes[OWNER].may_open(self.now, &binding) {
            self.event(OWNER, Event::Opened(binding));
            self.open.insert(port, self.nodes[OWNER].last_change());
        }
    }

    fn close(&mut self, port: u16) {
        let Binding { protocol, v4, .. } = binding(port);
        self.event(OWNER, Event::Closed(protocol, v4));
        self.open.remove(&port);
    }

    /// Returns bindings that are open and acknowledged, but that no other node has.
    fn lost(&self) -> Vec<u16> {
        let Some(known) = self.nodes[OWNER].acknowledged() else {
            return Vec::new();
        };
        let has = |at: usize, port: u16| {
            let mut copies = self.nodes[at].bindings_of(NodeId(OWNER as u8));
            copies.any(|copy| copy == binding(port))
        };
        let acknowledged = self.open.iter().filter(|(_, change)| **change <= known);
        let ports = acknowledged.map(|(port, _)| *port);
        ports
            .filter(|port| !(1..NODES).any(|at| has(at, *port)))
            .collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(u16),
    Close(u16),
    Deliver(usize, usize),
    Connect(usize, usize),
    Tick(usize, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pair = || (0..NODES, 1..NODES).prop_map(|(a, by)| (a, (a + by) % NODES));
    let step = prop_oneof![
        4 => (1u16..20).prop_map(Step::Open),
        2 => (1u16..20).prop_map(Step::Close),
        12 => pair().prop_map(|(a, b)| Step::Deliver(a, b)),
        1 => pair().prop_map(|(a, b)| Step::Connect(a.min(b), a.max(b))),
        4 => (0..NODES, 0u32..60).prop_map(|(at, ms)| Step::Tick(at, ms)),
    ];
    prop::collection::vec(step, 0..150)
}

proptest! {
    #[test]
    fn what_is_acknowledged_another_reachable_node_has(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Open(port) => world.open(port),
                Step::Close(port) => world.close(port),
                Step::Deliver(from, to) => world.deliver((from, to)),
                Step::Connect(a, b) => world.connect((a, b)),
                Step::Tick(at, ms) => {
                    world.now += MS * ms;
                    world.event(at, Event::Tick);
                }
            }
            prop_assert_eq!(world.lost(), Vec::<u16>::new());
        }
        // In the end, all of it is known.
        world.pass(1000);
        let owner = &world.nodes[OWNER];
        prop_assert_eq!(owner.acknowledged(), Some(owner.last_change()));
    }
}

#[test]
fn a_change_is_acknowledged_as_soon_as_it_has_come() {
    let mut world = World::new();
    world.open(1);
    let change = world.nodes[OWNER].last_change();
    assert!(world.nodes[OWNER]
        .acknowledged()
        .is_some_and(|known| known < change));
    // The worker is woken; no time passes.
    world.event(OWNER, Event::Tick);
    world.settle();
    assert_eq!(world.nodes[OWNER].acknowledged(), Some(change));
    assert_eq!(world.lost(), Vec::<u16>::new());

    // The owner is dead: the other one translates by its copy.
    world.now += Timing::default().reachable + MS;
    world.event(1, Event::Tick);
    let asked = Asked {
        host: binding(1).v6,
        protocol: Protocol::Udp,
        via: Via::Outside,
        opens: true,
    };
    let now = world.now;
    assert_eq!(world.nodes[1].who(now, asked), Way::Copy(binding(1)));
}

#[test]
fn nobody_is_waited_for_who_could_not_go_on() {
    let mut world = World::new();
    world.open(1);
    assert!(world.nodes[OWNER].acknowledged().is_some());
    // No other node has been heard for too long.
    world.now += Timing::default().reachable + MS;
    world.event(OWNER, Event::Tick);
    assert_eq!(world.nodes[OWNER].acknowledged(), None);
    // One comes back, but without a snapshot at first.
    world.connect((0, 1));
    assert_eq!(world.nodes[OWNER].acknowledged(), None);
    world.pass(1000);
    assert_eq!(world.nodes[OWNER].acknowledged(), Some(1));
    // All leave.
    world.event(1, Event::Leave);
    world.event(2, Event::Leave);
    world.pass(500);
    assert_eq!(world.nodes[OWNER].acknowledged(), None);
}
