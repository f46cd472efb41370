// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes go over to another file together, while messages are lost and late, connections break, and operators arm and disarm.

use std::collections::VecDeque;
use std::time::Duration;

use diolkos_node::config::{Bounds, Member, Timing};
use diolkos_node::message::{Beat, Message, Status};
use diolkos_node::record::{Answer, Found, Outcome, Request};
use diolkos_node::{Action, Armed, Config, Event, Moment, Node, NodeId, Unready};

const NODES: usize = 3;
const TICK: u64 = 20;

/// Both files have three nodes; in the second one, an address has another owner.
fn config(me: usize, is_new: bool) -> Config {
    let nets = match is_new {
        false => ["192.0.2.0/30", "192.0.2.4/30", "192.0.2.8/30"],
        true => ["192.0.2.0/31", "192.0.2.4/30", "192.0.2.2/31"],
    };
    let member = |(name, net): (&str, &str)| Member {
        name: name.to_owned(),
        pool4: vec![net.parse().expect("a network")],
    };
    Config {
        me: NodeId(me as u8),
        members: ["a", "b", "c"].into_iter().zip(nets).map(member).collect(),
        source_prefix_len: 64,
        key: [1, 2],
        pref64: Vec::new(),
        lifetimes_s: Vec::new(),
        defer: false,
        timing: Timing::default(),
        bounds: Bounds {
            changes: 100,
            resting: 100,
        },
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn new_file() -> u64 {
    config(0, true).file()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// The process of a node; none while it restarts.
struct Machine {
    node: Option<Node>,
    is_new: bool,
    /// When it leaves, and when the next process begins.
    leaves: Option<u64>,
    begins: u64,
}

/// One direction of a connection, or of one that was lost and is not known to be.
struct Way {
    from: usize,
    to: usize,
    connection: u64,
    /// With the moments when they arrive, in their order.
    messages: VecDeque<(u64, Vec<u8>)>,
}

struct World {
    now: u64,
    random: Random,
    machines: Vec<Machine>,
    ways: Vec<Way>,
    connections: u64,
    /// What the engine has, with revisions, and the latest of these.
    records: [Option<(u64, Vec<u8>)>; NODES],
    revision: u64,
    /// Pairs that cannot connect now.
    cut: [[bool; NODES]; NODES],
    /// Rolls expect others; without, the test has to fail.
    expects: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let machine = |me| Machine {
            node: Node::new(config(me, false), me as u64, [3, 4], ms(0)).ok(),
            is_new: false,
            leaves: None,
            begins: 0,
        };
        World {
            now: 0,
            random: Random(seed),
            machines: (0..NODES).map(machine).collect(),
            ways: Vec::new(),
            connections: 0,
            records: Default::default(),
            revision: 0,
            cut: Default::default(),
            expects: true,
        }
    }

    fn at(&self) -> Moment {
        ms(self.now)
    }

    fn hear(&mut self, me: usize, event: Event<'_>) {
        let (now, mut out) = (self.at(), Vec::new());
        let Some(node) = &mut self.machines[me].node else {
            return;
        };
        node.handle(now, event, &mut out);
        for action in out {
            match action {
                Action::Ask { token, request } => {
                    let answer = self.answer(me, request);
                    self.hear(me, Event::Answer { token, answer });
                }
                Action::Send {
                    connection, bytes, ..
                } => {
                    let late = if self.random.below(10) == 0 { 600 } else { 50 };
                    let arrives = self.now + 1 + self.random.below(late);
                    let way = self.ways.iter_mut();
                    let mut way = way.filter(|way| way.from == me && way.connection == connection);
                    if let Some(way) = way.next() {
                        let last = way.messages.back().map_or(0, |(at, _)| *at);
                        way.messages.push_back((arrives.max(last), bytes));
                    }
                }
                Action::Close { connection, .. } => {
                    self.ways.retain(|way| way.connection != connection);
                }
                Action::GoOver(file) => {
                    assert_eq!(file, new_file());
                    self.machines[me].leaves = Some(self.now + self.random.below(700));
                }
                Action::Left => {
                    let machine = &mut self.machines[me];
                    machine.node = None;
                    machine.begins = self.now + self.random.below(3000);
                    // What it has said may still arrive.
                }
                _ => {}
            }
        }
    }

    /// An engine that all reach at all times.
    fn answer(&mut self, me: usize, request: Request) -> Answer {
        let outcome = match request {
            Request::ReadAll => {
                let has = |(node, record): (usize, &Option<(u64, Vec<u8>)>)| {
                    record.as_ref().map(|(_, bytes)| Found {
                        node: Some(NodeId(node as u8)),
                        name: String::new(),
                        bytes: bytes.clone(),
                    })
                };
                let all = self.records.iter().enumerate().filter_map(has);
                Outcome::All(all.filter(|_| self.expects).collect())
            }
            Request::Read(of) => Outcome::Value(self.records[of.index()].clone()),
            Request::Write(expected, record) => {
                let is = self.records[me]
                    .as_ref()
                    .map_or(0, |(revision, _)| *revision);
                match is == expected {
                    true => {
                        self.revision += 1;
                        self.records[me] = Some((self.revision, record));
                        Outcome::Written(self.revision)
                    }
                    false => Outcome::Refused,
                }
            }
        };
        Answer {
            engine: 9,
            revision: self.revision,
            outcome,
        }
    }

    fn connect(&mut self, a: usize, b: usize) {
        self.ways
            .retain(|way| ![(a, b), (b, a)].contains(&(way.from, way.to)));
        self.connections += 1;
        let connection = self.connections;
        for (from, to) in [(a, b), (b, a)] {
            self.ways.push(Way {
                from,
                to,
                connection,
                messages: VecDeque::new(),
            });
        }
        for (me, peer) in [(a, b), (b, a)] {
            let connected = Event::Connected {
                peer: NodeId(peer as u8),
                connection,
                room: 1 << 20,
            };
            self.hear(me, connected);
        }
    }

    fn step(&mut self) {
        self.now += TICK;
        for me in 0..NODES {
            let (now, random) = (self.now, self.random.below(u64::MAX));
            let (at, expects) = (self.at(), self.expects);
            let machine = &mut self.machines[me];
            if machine.leaves.is_some_and(|at| now >= at) {
                machine.leaves = None;
                self.hear(me, Event::Leave);
            } else if machine.node.is_none() && now >= machine.begins {
                machine.is_new = true;
                let mut node = Node::new(config(me, true), random, [3, 4], at).expect("right");
                let others: Vec<NodeId> = (0..NODES as u8).map(NodeId).collect();
                if expects {
                    node.expect(&others);
                }
                machine.node = Some(node);
            }
            self.hear(me, Event::Tick);
        }
        self.deliver();
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let both = [a, b].iter().all(|at| self.machines[*at].node.is_some());
            let is_up = self.ways.iter().any(|way| (way.from, way.to) == (a, b));
            let breaks = self.random.below(200) == 0;
            if !self.cut[a][b] && both && (breaks || (!is_up && self.random.below(20) == 0)) {
                self.connect(a, b);
            }
            if self.random.below(300) == 0 {
                self.cut[a][b] = self.random.below(3) == 0;
            }
        }
        self.check();
    }

    fn deliver(&mut self) {
        let (now, mut due) = (self.now, Vec::new());
        let cut = self.cut;
        for way in &mut self.ways {
            while way.messages.front().is_some_and(|(at, _)| now >= *at) {
                let (_, bytes) = way.messages.pop_front().expect("there is one");
                let is_cut = cut[way.from.min(way.to)][way.from.max(way.to)];
                // A connection loses all that follows.
                if is_cut {
                    way.messages.clear();
                    way.connection = 0;
                    break;
                }
                due.push((way.from, way.to, way.connection, bytes));
            }
        }
        for (from, to, connection, bytes) in due {
            let message = Event::Message {
                peer: NodeId(from as u8),
                connection,
                bytes: &bytes,
            };
            self.hear(to, message);
        }
        self.ways.retain(|way| way.connection != 0);
    }

    /// The law: while a node with the old file runs, none with the new one opens bindings.
    fn check(&self) {
        let has_old = (self.machines.iter()).any(|each| !each.is_new && each.node.is_some());
        let new = self.machines.iter().filter(|each| each.is_new);
        let serves = |each: &Machine| {
            let status = each.node.as_ref().map(|node| node.status(self.at()));
            matches!(status, Some(Status::Serving | Status::Draining))
        };
        assert!(!has_old || !new.into_iter().any(serves), "both files serve");
    }

    fn arm(&mut self, me: usize, time: u64) {
        if !self.machines[me].is_new {
            let until = ms(self.now + time);
            self.hear(me, Event::Arm(Armed::new(new_file(), until, Vec::new())));
        }
    }

    fn are_new(&self) -> bool {
        self.machines.iter().all(|each| {
            let node = each.node.as_ref().filter(|_| each.is_new);
            node.is_some_and(|node| node.status(self.at()) == Status::Serving)
        })
    }
}

fn roll(seed: u64, expects: bool) {
    let mut world = World::new(seed);
    world.expects = expects;
    for _ in 0..2000 {
        world.step();
        let me = world.random.below(NODES as u64) as usize;
        match world.random.below(120) {
            0 | 1 => {
                let time = world.random.below(8000);
                world.arm(me, time);
            }
            2 => world.hear(me, Event::Disarm),
            _ => {}
        }
    }
    // Whatever has happened, it ends well if all are armed and reach each other.
    for _ in 0..3000 {
        world.cut = Default::default();
        (0..NODES).for_each(|me| world.arm(me, 60_000));
        world.step();
        if world.are_new() {
            return;
        }
    }
    panic!("with seed {seed}, not all nodes have the new file");
}

#[test]
fn an_old_and_a_new_file_never_serve_at_once() {
    (0..300).for_each(|seed| roll(seed, true));
}

#[test]
#[should_panic(expected = "both files serve")]
fn they_would_if_nobody_expected_the_others_and_no_record_was_read() {
    (0..300).for_each(|seed| roll(seed, false));
}

/// A node of the old file, with connections to both others, which have the same file.
fn greeted() -> Node {
    let mut node = Node::new(config(0, false), 7, [3, 4], ms(0)).expect("it is right");
    for peer in [1, 2] {
        hello(&mut node, 10, peer, &config(0, false));
    }
    node
}

fn hello(node: &mut Node, at: u64, peer: u8, config: &Config) {
    let connected = Event::Connected {
        peer: NodeId(peer),
        connection: at + u64::from(peer),
        room: 1 << 20,
    };
    node.handle(ms(at), connected, &mut Vec::new());
    let hello = Message::Hello {
        digests: config.digests(),
        status: Status::Serving,
        holds: None,
    };
    say(node, at, peer, at + u64::from(peer), &hello);
}

fn say(node: &mut Node, at: u64, peer: u8, connection: u64, message: &Message) -> Vec<Action> {
    let mut out = Vec::new();
    let bytes = &message.encode();
    let event = Event::Message {
        peer: NodeId(peer),
        connection,
        bytes,
    };
    node.handle(ms(at), event, &mut out);
    out
}

fn beat(at: u64, armed: u64) -> Message {
    Message::Beat(Beat {
        status: Status::Serving,
        confirms: true,
        engine: 9,
        epoch: 1,
        echo: ms(at),
        clock: ms(at),
        applied: 0,
        armed,
    })
}

/// Both others say this for some seconds; does the node go over?
fn goes(node: &mut Node, from: u64, armed: [u64; 2]) -> bool {
    let mut all = Vec::new();
    for at in (from..from + 3000).step_by(100) {
        for (peer, armed) in [1, 2].into_iter().zip(armed) {
            all.extend(say(node, at, peer, 10 + u64::from(peer), &beat(at, armed)));
        }
    }
    all.contains(&Action::GoOver(new_file()))
}

fn arm(node: &mut Node, at: u64, until: u64) {
    let armed = Armed::new(new_file(), ms(until), Vec::new());
    node.handle(ms(at), Event::Arm(armed), &mut Vec::new());
}

#[test]
fn a_node_goes_over_if_its_operator_says_so_and_all_others_do() {
    let file = new_file();
    // Whatever others say.
    let mut node = greeted();
    assert!(!goes(&mut node, 100, [file, file]));
    assert_eq!(node.unready().count(), 0);
    // All are armed for the same.
    arm(&mut node, 4000, 60_000);
    assert!(!goes(&mut node, 4000, [file, 0]));
    let lacks: Vec<_> = node.unready().collect();
    assert_eq!(lacks, [(NodeId(2), Unready::Unarmed)]);
    assert!(!goes(&mut node, 8000, [file + 1, file]));
    assert_eq!(node.unready().next(), Some((NodeId(1), Unready::Otherwise)));
    // One that is silent is not ready.
    node.handle(ms(14_000), Event::Tick, &mut Vec::new());
    assert_eq!(node.unready().count(), 2);
    // Disarmed.
    node.handle(ms(15_000), Event::Disarm, &mut Vec::new());
    assert!(!goes(&mut node, 15_000, [file, file]));
    arm(&mut node, 19_000, 60_000);
    assert!(goes(&mut node, 19_000, [file, file]));
    // Too late.
    node.handle(ms(23_000), Event::Disarm, &mut Vec::new());
    assert!(node.armed().is_some_and(Armed::goes));
}

#[test]
fn it_is_disarmed_when_its_time_is_over() {
    let file = new_file();
    let mut node = greeted();
    arm(&mut node, 100, 2000);
    assert!(!goes(&mut node, 100, [file, 0]));
    assert!(node.armed().is_none());
    assert!(!goes(&mut node, 4000, [file, file]));
}

#[test]
fn a_node_that_has_the_new_file_is_ready_and_one_that_is_not_in_it_has_to_end() {
    let mut node = greeted();
    hello(&mut node, 100, 1, &config(1, true));
    let lacks_2 = Armed::new(new_file(), ms(60_000), vec![NodeId(2)]);
    node.handle(ms(200), Event::Arm(lacks_2), &mut Vec::new());
    let lacks: Vec<_> = node.unready().collect();
    assert_eq!(lacks, [(NodeId(2), Unready::Remains)]);
    let lost = Event::Lost {
        peer: NodeId(2),
        connection: 12,
    };
    let mut out = Vec::new();
    node.handle(ms(300), lost, &mut out);
    node.handle(ms(1400), Event::Tick, &mut out);
    assert!(out.contains(&Action::GoOver(new_file())));
}
