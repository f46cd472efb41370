// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes, their clocks, and the messages between them and the engine. Time goes in steps of a few milliseconds.

use std::time::Duration;

use diolkos_cluster::ownership::Ownership;
use diolkos_cluster::preference::preferred;
use diolkos_cluster::publisher::Outgoing;
use diolkos_cluster::{Key, Moment, NodeId, Revision, SliceId, Slices, Timing, Value, Write};

use crate::bindings::{self, Bindings};
use crate::engine::Engine;
use crate::random::Random;
use crate::truth::Truth;

pub const NODES: usize = 4;
pub const SLICES: u16 = 24;
/// Seconds of real time that a step takes.
const STEP: f64 = 0.02;
/// By how much the speed of a clock may differ from real time: half of what `Timing::drift_ppm` allows two clocks to differ.
const DRIFT: f64 = 0.0005;

/// One process of a node.
pub struct Process {
    pub ownership: Ownership,
    bindings: Bindings,
    /// Of the feed, how much has come.
    fed: usize,
    /// How long the feed was when it began: what has been given by then is all there was.
    target: usize,
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
    /// For the stream, with its number in the process.
    ToStream(u64, Outgoing),
    /// What was added to the stream, and its sequence.
    Acknowledged(u64, diolkos_cluster::Message, u64),
}

/// What every node does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Nothing.
    None,
    /// It opens slices before it has read what their owners before said.
    DoesNotRead,
    /// It hands slices over without telling all their bindings.
    NoSnapshot,
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
    pub was_purged: bool,
    pub mistake: Mistake,
    slices: Slices,
    pub truth: Truth,
    letters: Vec<Letter>,
    /// When the last message of each process for the stream arrives: they stay in their order.
    stream_arrives: Vec<f64>,
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
            was_purged: false,
            mistake: Mistake::None,
            slices: bindings::slices(SLICES),
            truth: Truth::default(),
            letters: Vec::new(),
            stream_arrives: vec![0.0; NODES],
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
            ownership: Ownership::new(NodeId(node as u16), SLICES.into(), timing),
            bindings: Bindings::new(NodeId(node as u16), &self.slices),
            fed: 0,
            target: self.engine.feed.len(),
        });
    }

    pub fn kill(&mut self, node: usize) {
        let killed = self.nodes[node].process.take();
        self.ghosts
            .extend(killed.map(|process| (node, process.ownership)));
    }

    /// The node gets a new connection, on which the feed begins anew.
    pub fn reconnect(&mut self, node: usize) {
        if let Some(process) = &mut self.nodes[node].process {
            process.fed = 0;
            process.target = self.engine.feed.len();
            process.ownership.feed_begins();
        }
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
                self.run(node)?;
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
        let mut arrives = self.now + delay;
        if matches!(message, Message::ToStream(..)) {
            arrives = arrives.max(self.stream_arrives[node]);
            self.stream_arrives[node] = arrives;
        }
        self.letters.push(Letter {
            arrives,
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
                Message::ToStream(number, outgoing) => {
                    let sequence = self.engine.publish(outgoing);
                    let message = bindings::decode(&self.slices, self.engine.last());
                    self.post(
                        letter.node,
                        Message::Acknowledged(number, message, sequence),
                    );
                }
                _ => self.answer(letter),
            }
        }
    }

    /// Something comes from the engine.
    fn answer(&mut self, letter: Letter) {
        let clock = self.clock(letter.node);
        let node = &mut self.nodes[letter.node];
        let is_its = self.processes[letter.node] == letter.process;
        let Some(process) = node.process.as_mut().filter(|_| is_its) else {
            return;
        };
        match letter.message {
            // It lies in the socket until then.
            _ if node.frozen_until > self.now => self.letters.push(Letter {
                arrives: node.frozen_until,
                ..letter
            }),
            Message::Answer(write, Some(revision)) => {
                process.ownership.accepted(clock, write, revision);
            }
            Message::Answer(write, None) => process.ownership.refused(write),
            Message::Acknowledged(number, message, sequence) => {
                let told = (number, &message, sequence);
                let (bindings, truth) = (&mut process.bindings, &mut self.truth);
                bindings.acknowledged(&process.ownership, clock, told, truth);
            }
            Message::ToEngine(_) | Message::ToStream(..) => {}
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

    /// One turn of a node's loop: news of the feed and the stream, then writes and messages.
    fn run(&mut self, node: usize) -> Result<(), String> {
        if self.nodes[node].frozen_until > self.now {
            return Ok(());
        }
        let (clock, random) = (self.clock(node), self.random.next());
        // The feed and the stream come in pieces, each at its own pace, and not in every turn.
        let gets = self.gets_through(node) && self.random.chance(0.7);
        let fed = if gets { self.random.below(20) + 1 } else { 0 };
        let read = if gets { self.random.below(60) } else { 0 };
        let feed = &self.engine.feed;
        let Some(process) = &mut self.nodes[node].process else {
            return Ok(());
        };
        let until = (process.fed + fed).min(feed.len());
        for (at, change) in feed.iter().enumerate().take(until).skip(process.fed) {
            let revision = at as Revision + 1;
            match *change {
                Some((key, Some(value))) => {
                    process.ownership.observed(clock, key, revision, value);
                }
                Some((key, None)) => process.ownership.unreadable(clock, key, revision),
                None => {}
            }
        }
        process.fed = until;
        if gets && until >= process.target {
            process.ownership.synced(clock);
        }
        let mut writes = process.ownership.poll(clock, random);

        let Process {
            ownership,
            bindings,
            ..
        } = process;
        bindings.read(ownership, &self.slices, &self.engine.stream, read);
        bindings.release(ownership, NodeId(node as u16));
        let reads = self.mistake != Mistake::DoesNotRead;
        let mut messages = bindings.acquire(ownership, clock, &mut self.truth, reads)?;
        bindings.live(
            ownership,
            clock,
            &self.slices,
            &mut self.truth,
            &mut self.random,
        );
        messages.extend(bindings.publish(ownership, clock));
        let tells = self.mistake != Mistake::NoSnapshot;
        let first = bindings.published + messages.len() as u64;
        let (snapshots, given) =
            bindings.hand_over(ownership, clock, first, &mut self.truth, tells);
        messages.extend(snapshots);
        writes.extend(given);
        for write in writes {
            self.post(node, Message::ToEngine(write));
        }
        for message in messages {
            let Some(process) = &mut self.nodes[node].process else {
                break;
            };
            let number = process.bindings.number();
            self.post(node, Message::ToStream(number, message));
        }
        Ok(())
    }

    /// Whether a node may open in a slice, a frozen one included: its programs run in the kernel, and stop with the lease.
    fn may_open(&self, node: usize, slice: SliceId) -> bool {
        let process = self.nodes[node].process.as_ref();
        process.is_some_and(|process| process.ownership.may_open(self.clock(node), slice))
    }

    /// No slice has two owners.
    fn check(&self) -> Result<(), String> {
        let mut owners: Vec<Vec<usize>> = vec![Vec::new(); SLICES.into()];
        let living = self.nodes.iter().map(|node| node.process.as_ref());
        let living = (0..).zip(living.map(|process| process.map(|process| &process.ownership)));
        let living = living.filter_map(|(node, ownership)| Some((node, ownership?)));
        let ghosts = self.ghosts.iter().map(|(node, ghost)| (*node, ghost));
        for (node, ownership) in living.chain(ghosts) {
            let clock = self.clock(node);
            let open = (0..).zip(&mut owners);
            for (_, owners) in open.filter(|(slice, _)| ownership.may_open(clock, *slice)) {
                owners.push(node);
            }
        }
        match (0..).zip(owners).find(|(_, owners)| owners.len() > 1) {
            Some((slice, owners)) => Err(format!(
                "slice {slice} has the owners {owners:?} at {:.3} s",
                self.now
            )),
            None => Ok(()),
        }
    }

    /// Everything works again, every node that was killed is started, and none leaves.
    pub fn heal(&mut self) {
        (self.engine_is_away, self.is_lossy) = (false, false);
        for node in 0..NODES {
            (self.nodes[node].is_cut_off, self.nodes[node].frozen_until) = (false, 0.0);
            let has_left = |p: &Process| p.ownership.has_left();
            if self.nodes[node].process.as_ref().is_none_or(has_left) {
                self.start(node);
            }
            if let Some(process) = &mut self.nodes[node].process {
                process.ownership.stay();
            }
            self.reconnect(node);
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
        for slice in 0..SliceId::from(SLICES) {
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
