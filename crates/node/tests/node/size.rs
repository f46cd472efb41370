// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many bindings: the memory of a copy, and a snapshot that is sent in bounded parts.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::common::file;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::config::Bounds;
use diolkos_node::message::{Message, MAX_BYTES};
use diolkos_node::store::Store;
use diolkos_node::{Action, Asked, Config, Event, Node, NodeId, Via, Way, TURN};

fn config(me: usize) -> Config {
    let bounds = Bounds {
        changes: 1000,
        resting: 1000,
    };
    Config {
        bounds,
        ..file(
            me,
            (0..2).map(|at| (format!("gw{at}"), format!("192.0.{at}.0/24"))),
        )
    }
}

fn binding(n: u32) -> Binding {
    let addr = Ipv4Addr::new(192, 0, 0, (n / 60_000) as u8);
    Binding {
        protocol: Protocol::Tcp,
        v4: Endpoint4 {
            addr,
            port: (n % 60_000) as u16 + 1024,
        },
        v6: Endpoint6 {
            addr: Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n / 9) << 64 | 1),
            port: n as u16,
        },
    }
}

/// At every size while it grows, both indexes included. A store finds 2^32 of them.
#[test]
fn a_copy_takes_at_most_80_bytes() {
    let most = if cfg!(debug_assertions) {
        300_000
    } else {
        10_000_000
    };
    let mut store = Store::new([1, 2]);
    let fixed = store.memory();
    let (mut sum, mut steps, mut worst) = (0.0, 0, 0.0f64);
    for n in 0..most {
        let binding = binding(n % 15_000_000);
        store.insert(&binding, 0, store.sides(&binding));
        if n % 1000 == 999 && n > 50_000 {
            let each = (store.memory() - fixed) as f64 / f64::from(store.len());
            (sum, steps, worst) = (sum + each, steps + 1, worst.max(each));
        }
    }
    let average = sum / f64::from(steps);
    println!("{most} copies: {average:.1} bytes each on the average, {worst:.1} at most");
    assert!(average < 65.0 && worst < 80.0, "{average} {worst}");
}

/// Two nodes, connected with this capacity, and the messages that they have exchanged.
struct Pair {
    nodes: [Node; 2],
    now: Duration,
    connection: u64,
    largest: usize,
    queue: Vec<(usize, Vec<u8>)>,
    /// How often a node had more to do than a turn may.
    again: u32,
}

/// Returns the number of copies in a message.
fn copies(bytes: &[u8]) -> usize {
    match Message::decode(bytes) {
        Some(Message::Told { changes, .. }) => changes.len(),
        Some(Message::Given(bindings)) => bindings.len(),
        _ => 0,
    }
}

const ROOM: usize = 256 * 1024;

impl Pair {
    fn new(count: u32) -> Pair {
        let now = Duration::from_secs(5);
        let node = |me| Node::new(config(me), me as u64, [1, 2], now).expect("a configuration");
        let mut pair = Pair {
            nodes: [node(0), node(1)],
            now,
            connection: 0,
            largest: 0,
            queue: Vec::new(),
            again: 0,
        };
        for n in 0..count {
            assert!(pair.nodes[0].know(binding(n)));
        }
        pair
    }

    fn connect(&mut self, connection: u64) {
        self.queue.clear();
        self.connection = connection;
        for at in 0..2 {
            let peer = NodeId(1 - at as u8);
            let room = ROOM;
            self.event(
                at,
                Event::Connected {
                    peer,
                    connection,
                    room,
                },
            );
        }
    }

    fn copies(&self, at: usize) -> u32 {
        self.nodes[at].counts().2[1 - at]
    }

    /// Handles an event. No turn handles more than [`TURN`] copies.
    fn event(&mut self, at: usize, event: Event<'_>) {
        let mut out = Vec::new();
        let had = self.copies(at);
        let mut handled = match &event {
            Event::Message { bytes, .. } => copies(bytes),
            _ => 0,
        };
        self.nodes[at].handle(self.now, event, &mut out);
        handled += had.saturating_sub(self.copies(at)) as usize;
        let mut sent = 0;
        for action in out {
            match action {
                Action::Send { bytes, .. } => {
                    assert!(bytes.len() <= MAX_BYTES);
                    sent += bytes.len();
                    handled += copies(&bytes);
                    self.queue.push((1 - at, bytes));
                }
                Action::Close { connection, .. } => {
                    assert_ne!(connection, self.connection, "a connection is closed");
                }
                Action::Free(..) => handled += 1,
                Action::Again => self.again += 1,
                _ => {}
            }
        }
        assert!(handled <= TURN, "{handled} in one turn");
        self.largest = self.largest.max(sent);
    }

    fn turn(&mut self) {
        self.now += Duration::from_millis(50);
        for at in 0..2 {
            let peer = NodeId(1 - at as u8);
            let (connection, room) = (self.connection, ROOM);
            self.event(
                at,
                Event::Room {
                    peer,
                    connection,
                    room,
                },
            );
        }
        for (to, bytes) in std::mem::take(&mut self.queue) {
            let peer = NodeId(1 - to as u8);
            let (connection, bytes) = (self.connection, bytes.as_slice());
            self.event(
                to,
                Event::Message {
                    peer,
                    connection,
                    bytes,
                },
            );
        }
    }
}

#[test]
fn a_snapshot_of_many_bindings_goes_over_in_parts_while_they_change() {
    const COUNT: u32 = 200_000;
    let mut pair = Pair::new(COUNT);
    pair.connect(1);
    for turn in 0..240u32 {
        pair.turn();
        // Every 20th is closed while the snapshot is in flight.
        for n in (turn * 1000..(turn + 1) * 1000)
            .step_by(20)
            .filter(|&n| n < COUNT)
        {
            let Binding { protocol, v4, .. } = binding(n);
            pair.event(0, Event::Closed(protocol, v4));
        }
    }
    assert!(pair.largest <= ROOM, "{}", pair.largest);
    let (live, resting, _) = pair.nodes[0].counts();
    assert_eq!(
        (live, resting),
        (COUNT - COUNT / 20, 0),
        "all is acknowledged, and has rested"
    );
    assert_eq!(pair.nodes[1].counts().2, [live, 0]);
    // The owner falls silent: copies are used for a term.
    let host = binding(1).v6;
    let protocol = Protocol::Tcp;
    let asked = Asked {
        host,
        protocol,
        via: Via::Outside,
        opens: true,
    };
    let silent = pair.now + Duration::from_secs(2);
    assert_eq!(pair.nodes[1].who(pair.now, asked), Way::Forward(NodeId(0)));
    pair.nodes[1].handle(silent, Event::Tick, &mut Vec::new());
    assert_eq!(pair.nodes[1].who(silent, asked), Way::Copy(binding(1)));
    let later = silent + Duration::from_secs(5);
    pair.nodes[1].handle(later, Event::Tick, &mut Vec::new());
    assert!(!pair.nodes[1].may_use(NodeId(0), later));
}

/// Old copies are removed, and ports become free, in bounded parts, too.
#[test]
fn many_bindings_that_ended_while_nodes_were_apart_are_cleared_in_parts() {
    const COUNT: u32 = 50_000;
    let mut pair = Pair::new(COUNT);
    pair.connect(1);
    let settle = |pair: &mut Pair, count| {
        let turns = (0..200).take_while(|_| {
            pair.turn();
            pair.copies(1) != count || pair.nodes[0].counts().1 != 0
        });
        assert!(turns.count() < 200, "{} copies", pair.copies(1));
    };
    settle(&mut pair, COUNT);
    for n in (0..COUNT).filter(|n| n % 10 != 0) {
        let Binding { protocol, v4, .. } = binding(n);
        pair.event(0, Event::Closed(protocol, v4));
    }
    pair.again = 0;
    pair.connect(2);
    settle(&mut pair, COUNT / 10);
    assert!(
        pair.again > 20,
        "whoever calls a node has to know: {}",
        pair.again
    );
}
