// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes, their clocks, and the messages between them and the engine. Time goes in steps of a few milliseconds.

use std::time::Duration;

use diolkos_cluster::ownership::Ownership;
use diolkos_cluster::preference::preferred;
use diolkos_cluster::{Key, Moment, NodeId, Revision, SliceId, Timing, Value, Write};

use crate::engine::Engine;
use crate::random::Random;

pub const NODES: usize = 4;
const SLICES: usize = 24;
/// Seconds of real time that a step takes.
const STEP: f64 = 0.02;
/// By how much the speed of a clock may differ from real time: half of what `Timing::drift_ppm` allows two clocks to differ.
const DRIFT: f64 = 0.0005;

/// One process of a node.
pub struct Process {
    pub ownership: Ownership,
    /// Of the feed, how much has come.
    fed: usize,
}

pub struct Node {
    pub process: Option<Process>,
    /// Real time until which the process does nothing.
    pub frozen_until: f64,
    pub is_cut_off: bool,
    /// What the clock shows at real time 0, and its speed.
    begins: f64,
    speed: f64,
    timing: Timing,
}

enum Message {
    ToEngine(Write),
    Answer(Write, Option<Revision>),
}

struct Letter {
    arrives: f64,
    node: usize,
    /// To which process; a later one does not get it.
    process: u64,
    message: Message,
}

pub struct World {
    pub random: Random,
    pub now: f64,
    pub nodes: Vec<Node>,
    pub engine: Engine,
    pub engine_is_away: bool,
    letters: Vec<Letter>,
    /// Processes that each node has had.
    processes: Vec<u64>,
    pub is_lossy: bool,
    /// Processes that were killed: their programs in the kernel go on until the lease ends.
    ghosts: Vec<(usize, Ownership)>,
    /// Lives that other nodes have ended, and slices that were handed over.
    pub buried: usize,
    pub handed: usize,
}

impl World {
    pub fn new(seed: u64, timing: Timing) -> World {
        World::with_two_timings(seed, timing, timing)
    }

    /// The nodes with odd numbers have another timing, as they may not have.
    pub fn with_two_timings(seed: u64, timing: Timing, other: Timing) -> World {
        let mut random = Random::new(seed);
        let nodes = (0..NODES).map(|number| Node {
            process: None,
            frozen_until: 0.0,
            is_cut_off: false,
            begins: random.unit() * 1e6,
            speed: 1.0 + (2.0 * random.unit() - 1.0) * DRIFT,
            timing: if number % 2 == 0 { timing } else { other },
        });
        let nodes = nodes.collect();
        let mut world = World {
            random,
            now: 0.0,
            nodes,
            engine: Engine::default(),
            engine_is_away: false,
            letters: Vec::new(),
            processes: vec![0; NODES],
            is_lossy: false,
            ghosts: Vec::new(),
            buried: 0,
            handed: 0,
        };
        for node in 0..NODES {
            world.start(node);
        }
        world
    }

    pub fn start(&mut self, node: usize) {
        let timing = self.nodes[node].timing;
        self.processes[node] += 1;
        self.nodes[node].process = Some(Process {
            ownership: Ownership::new(NodeId(node as u16), SLICES, timing),
            fed: 0,
        });
    }

    pub fn kill(&mut self, node: usize) {
        let killed = self.nodes[node].process.take();
        self.ghosts
            .extend(killed.map(|process| (node, process.ownership)));
    }

    /// What the node's clock shows.
    fn clock(&self, node: usize) -> Moment {
        let node = &self.nodes[node];
        Duration::from_secs_f64(node.begins + self.now * node.speed)
    }

    /// Lets so many seconds pass, and looks after each step.
    pub fn pass(&mut self, seconds: f64) -> Result<(), String> {
        let end = self.now + seconds;
        while self.now < end {
            self.now += STEP * (0.5 + self.random.unit());
            self.deliver();
            for node in 0..NODES {
                self.run(node);
            }
            self.check()?;
            let clocks: Vec<Moment> = (0..NODES).map(|node| self.clock(node)).collect();
            self.ghosts
                .retain(|(node, ghost)| ghost.lease_ends().is_some_and(|end| clocks[*node] < end));
        }
        Ok(())
    }

    /// Whether a message to or from a node gets through now.
    fn gets_through(&mut self, node: usize) -> bool {
        let is_lost = self.is_lossy && self.random.chance(0.2);
        !(self.engine_is_away || self.nodes[node].is_cut_off || is_lost)
    }

    fn post(&mut self, node: usize, message: Message) {
        let lossy = self.is_lossy;
        // Most messages take milliseconds; some take longer than an answer is waited for.
        let delay = match lossy && self.random.chance(0.1) {
            true => self.random.unit() * 6.0,
            false => 0.001 + self.random.unit() * 0.03,
        };
        self.letters.push(Letter {
            arrives: self.now + delay,
            node,
            process: self.processes[node],
            message,
        });
    }

    fn deliver(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.letters)
            .into_iter()
            .partition(|letter| letter.arrives <= now);
        self.letters = later;
        let mut due: Vec<Letter> = due;
        due.sort_by(|a, b| a.arrives.total_cmp(&b.arrives));
        for letter in due {
            if !self.gets_through(letter.node) {
                continue;
            }
            match letter.message {
                Message::ToEngine(write) => {
                    let revision = self.engine.apply(&write);
                    self.count(letter.node, &write, revision);
                    self.post(letter.node, Message::Answer(write, revision));
                }
                Message::Answer(write, revision) => {
                    let is_frozen = self.nodes[letter.node].frozen_until > now;
                    let clock = self.clock(letter.node);
                    let is_its = self.processes[letter.node] == letter.process;
                    match &mut self.nodes[letter.node].process {
                        // It lies in the socket until then.
                        Some(_) if is_frozen && is_its => {
                            let arrives = self.nodes[letter.node].frozen_until;
                            self.letters.push(Letter {
                                arrives,
                                message: Message::Answer(write, revision),
                                ..letter
                            });
                        }
                        Some(process) if is_its => match revision {
                            Some(revision) => process.ownership.accepted(clock, write, revision),
                            None => process.ownership.refused(write),
                        },
                        _ => {}
                    }
                }
            }
        }
    }

    fn count(&mut self, node: usize, write: &Write, revision: Option<Revision>) {
        if revision.is_none() {
            return;
        }
        match (write.key, write.value) {
            (Key::Node(whose), Value::Node(entry)) if usize::from(whose.0) != node => {
                self.buried += usize::from(!entry.is_alive);
            }
            (Key::Slice(_), Value::Slice(entry)) if usize::from(entry.owner.0) != node => {
                self.handed += 1;
            }
            _ => {}
        }
    }

    /// One turn of a node's loop: news of the feed, then writes.
    fn run(&mut self, node: usize) {
        if self.nodes[node].frozen_until > self.now {
            return;
        }
        let (clock, random) = (self.clock(node), self.random.next());
        // The feed comes in pieces, and not in every turn.
        let gets = self.gets_through(node) && self.random.chance(0.7);
        let fed = if gets { self.random.below(20) + 1 } else { 0 };
        let feed = &self.engine.feed;
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        let until = (process.fed + fed).min(feed.len());
        for (at, (key, value)) in feed.iter().enumerate().take(until).skip(process.fed) {
            process
                .ownership
                .observed(clock, *key, at as Revision + 1, *value);
        }
        process.fed = until;
        if gets && until == feed.len() {
            process.ownership.synced();
        }
        let mut writes = process.ownership.poll(clock, random);
        let closing: Vec<SliceId> = process.ownership.closing().collect();
        for slice in closing {
            writes.extend(process.ownership.hand_over(clock, slice));
        }
        for write in writes {
            self.post(node, Message::ToEngine(write));
        }
    }

    /// Whether a node may open in a slice, a frozen one included: its programs run in the kernel, and stop with the lease.
    fn may_open(&self, node: usize, slice: SliceId) -> bool {
        let process = self.nodes[node].process.as_ref();
        process.is_some_and(|process| process.ownership.may_open(self.clock(node), slice))
    }

    fn check(&self) -> Result<(), String> {
        for slice in 0..SLICES as SliceId {
            let mut owners: Vec<usize> = (0..NODES)
                .filter(|&node| self.may_open(node, slice))
                .collect();
            let ghosts = self
                .ghosts
                .iter()
                .filter(|(node, ghost)| ghost.may_open(self.clock(*node), slice));
            owners.extend(ghosts.map(|(node, _)| node));
            if owners.len() > 1 {
                return Err(format!(
                    "slice {slice} has the owners {owners:?} at {:.3} s",
                    self.now
                ));
            }
        }
        Ok(())
    }

    /// Everything works again, and every node that was killed is started.
    pub fn heal(&mut self) {
        (self.engine_is_away, self.is_lossy) = (false, false);
        for node in 0..NODES {
            (self.nodes[node].is_cut_off, self.nodes[node].frozen_until) = (false, 0.0);
            let has_left = |p: &Process| p.ownership.has_left();
            if self.nodes[node].process.as_ref().is_none_or(has_left) {
                self.start(node);
            }
        }
    }

    /// Every slice has one owner, the one that it should have.
    pub fn assert_settled(&self, seed: u64) {
        let nodes = || {
            (0..NODES)
                .filter(|&node| {
                    matches!(
                        self.engine.get(Key::Node(NodeId(node as u16))),
                        Some(Value::Node(entry)) if entry.is_alive
                    )
                })
                .map(|node| NodeId(node as u16))
        };
        for slice in 0..SLICES as SliceId {
            let expected = preferred(slice, nodes()).expect("nodes live");
            let owners: Vec<usize> = (0..NODES)
                .filter(|&node| self.may_open(node, slice))
                .collect();
            assert_eq!(
                owners,
                [usize::from(expected.0)],
                "seed {seed}, slice {slice}"
            );
        }
    }
}
