// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path in memory: hash maps that reuse elements at once, leases, the ring buffer, and programs. Wherever the
//! controller changes something that programs see, any of them may run for a while, and stop anywhere.
//!
//! The invariants are checked after every step of every program and every change by the controller.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::lease::Lease;
use diolkos_fastpath::{self as sys, halves, LeaseSize, Opening, Report, Sent, Session, Sessions};
use diolkos_nat64::config::Protocol;

use crate::guide::Guide;
use crate::map::Map;
use crate::occupied::Occupied;
use crate::program::Program;
use crate::words::Steps;
use diolkos_gateway::fastpath::FastPath;

pub type NodePort = (Ipv6Addr, u16);
pub type V4 = (Ipv4Addr, u16);
/// The node as the IPv4 side sees it, and the peer.
pub type Inward = (V4, V4);
pub type TheLease = Lease<Steps, { PORTS as usize }>;
/// Room for ports in each of its queues.
const PORTS: u32 = 16;

/// The disabled measures among those that synchronize programs and controller; by default, none.
#[derive(Clone, Copy, Default, Debug)]
pub struct Undone {
    /// `lease_take_port` reads the tail before the port.
    pub order: bool,
    /// The controller waits for records that are reserved.
    pub wait: bool,
    /// `put_session` replaces nothing.
    pub noexist: bool,
    /// Leases have terms, and the address is read before the port is taken.
    pub terms: bool,
    /// Elements carry a check.
    pub check: bool,
    /// `use_session_of_udp` uses only those of the node.
    pub owner: bool,
    /// `open_session` looks the binding up once more after it has reserved its record.
    pub again: bool,
    /// `miss` reads the number of changes before anything is looked up in the tables.
    pub early: bool,
    /// Whoever removes a session makes programs forget it.
    pub forget: bool,
    /// It does so after the session has left the tables.
    pub after: bool,
}

/// `struct diolkos_bib_entry`; the check is a perfect one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BoundTo {
    pub v4: V4,
    pub check: (NodePort, V4),
}

/// `struct diolkos_session6_key`: a node's port and the peer, of TCP.
pub type Outward = (NodePort, V4);

/// `struct diolkos_session4`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InwardTo {
    pub node: NodePort,
    pub seen: u64,
    pub check: (Inward, NodePort),
}

/// `struct diolkos_known_session`. All sessions of a direction have the same place, and every moment is in another window but
/// for what is there: so a place is never kept for what is in use, and each program may replace what another one has written.
#[derive(Clone, Copy)]
pub struct Known<K, V> {
    pub changes: u64,
    /// What was found, and `changes` before.
    pub found: Option<(K, V, u64)>,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Known<K, V> {
        Known {
            changes: 0,
            found: None,
        }
    }
}

/// A record of the ring buffer.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// Reserved by this program.
    Reserved(usize),
    Submitted(Opening),
    Discarded,
}

/// Everything that programs and controller share, and what is known of it.
pub struct World {
    pub bound: Map<NodePort, BoundTo>,
    pub inward: Map<Inward, InwardTo>,
    /// The node as the peer sees it.
    pub outward: Map<Outward, V4>,
    pub known6: Known<Outward, V4>,
    pub known4: Known<Inward, NodePort>,
    pub lease: Rc<TheLease>,
    pub ring: Vec<Record>,
    heard: usize,
    pub programs: Vec<Program>,
    pub guide: Guide,
    /// How often a program may still begin or continue while another one, or the controller, runs.
    pub bursts: u32,
    pub undone: Undone,
    /// The protocol of all packets.
    pub protocol: Protocol,
    /// True if the controller may stop waiting for a record.
    pub may_give_up: bool,
    pub gave_up: bool,
    pub now: u64,
    /// The node whose bindings the map refuses.
    pub refused: Option<Ipv6Addr>,
    /// The address of the pool for a node's bindings.
    pub addresses: HashMap<Ipv6Addr, Ipv4Addr>,
    /// That of the lease.
    address: Ipv4Addr,
    pub on_loan: HashSet<u16>,
    /// Ports of the lease, with their address, and those that programs have taken, until they are bound or reported.
    pub lent: HashMap<u16, Ipv4Addr>,
    pub taken: HashSet<V4>,
    pub occupied: Occupied,
    /// Packets sent to the IPv4 side: the node, its external address and port, and the peer.
    pub sent: Vec<(NodePort, Inward)>,
    /// Nodes that may receive packets of the peer.
    pub expecting: HashSet<(NodePort, Inward)>,
    pub ended: HashSet<Inward>,
    /// Number of steps that programs have taken.
    pub steps: u64,
    /// Sessions that are not there, and the step after which the controller had removed them.
    pub gone: HashMap<(NodePort, Inward), u64>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Makes a new world.
pub fn begin(undone: Undone, guide: Guide) {
    let world = World {
        bound: Map::default(),
        inward: Map::default(),
        outward: Map::default(),
        known6: Known::default(),
        known4: Known::default(),
        lease: Rc::default(),
        ring: Vec::new(),
        heard: 0,
        programs: Vec::new(),
        guide,
        bursts: 0,
        undone,
        protocol: Protocol::Udp,
        may_give_up: false,
        gave_up: false,
        now: 1,
        refused: None,
        addresses: HashMap::new(),
        address: Ipv4Addr::UNSPECIFIED,
        on_loan: HashSet::new(),
        lent: HashMap::new(),
        taken: HashSet::new(),
        occupied: Occupied::default(),
        sent: Vec::new(),
        expecting: HashSet::new(),
        ended: HashSet::new(),
        steps: 0,
        gone: HashMap::new(),
    };
    WORLD.with(|cell| *cell.borrow_mut() = Some(world));
}

/// Removes it.
pub fn end() -> World {
    WORLD
        .with(|cell| cell.borrow_mut().take())
        .expect("a world")
}

/// Reads or changes it.
pub fn with<T>(action: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with(|cell| action(cell.borrow_mut().as_mut().expect("a world")))
}

/// Lets programs run, because a change of the controller is visible.
pub fn pause() {
    WORLD.with(|cell| {
        // A program that changes a word runs already.
        if let Ok(mut world) = cell.try_borrow_mut() {
            let world = world.as_mut().expect("a world");
            world.check();
            world.run_some();
        }
    });
}

impl World {
    /// Runs programs for as long as the guide chooses.
    fn run_some(&mut self) {
        while self.bursts > 0 {
            let able: Vec<usize> = (0..self.programs.len())
                .filter(|&at| self.programs[at].outcome.is_none())
                .collect();
            if able.is_empty() {
                return;
            }
            let who = self.guide.choose(able.len() as u32 + 1) as usize;
            if who == 0 {
                return;
            }
            self.bursts -= 1;
            while !self.step(able[who - 1]) && self.guide.choose(2) == 1 {}
        }
    }

    /// Takes one step of a program. Returns true if it was the last.
    pub fn step(&mut self, at: usize) -> bool {
        self.steps += 1;
        let mut program = self.programs[at].clone();
        program.step(at, self);
        self.programs[at] = program;
        self.check();
        self.programs[at].outcome.is_some()
    }

    /// Runs all programs that have begun, or may yet, to their end.
    pub fn run_all(&mut self) {
        for at in 0..self.programs.len() {
            while self.programs[at].outcome.is_none() {
                self.step(at);
            }
        }
    }

    /// Checks that an external port belongs to one node, and is occupied, unless the controller has not waited.
    fn check(&self) {
        if self.gave_up {
            return;
        }
        let mut owners: HashMap<V4, NodePort> = HashMap::new();
        let sessions = self.inward.at.iter();
        let sessions = sessions.map(|(key, &at)| (key.0, self.inward.elements[at].node));
        let bindings = self.bound.at.iter();
        let bindings = bindings.map(|(node, &at)| (self.bound.elements[at].v4, *node));
        let lent = self.lent.iter().map(|(&port, &address)| (address, port));
        let lent = lent.chain(self.taken.iter().copied());
        for v4 in bindings.clone().map(|(v4, _)| v4).chain(lent) {
            assert!(self.occupied.has(self.protocol, v4), "{v4:?} looks unbound");
        }
        for (v4, node) in sessions.chain(bindings) {
            let other = owners.insert(v4, node);
            assert!(
                other.is_none_or(|other| other == node),
                "{v4:?} serves {other:?} and {node:?}"
            );
        }
    }
}

/// `KnownSessions::forget`.
fn forget() {
    with(|world| world.known6.changes += 1);
    pause();
    with(|world| world.known4.changes += 1);
    pause();
}

/// What ends before or after the session leaves the tables.
fn around(end: impl FnOnce()) {
    let undone = with(|world| world.undone);
    if undone.after && !undone.forget {
        forget();
    }
    end();
    if !undone.after && !undone.forget {
        forget();
    }
}

/// The world as the controller sees it. Every node has the same slot.
#[derive(Debug)]
pub struct Twin;

fn lease() -> Rc<TheLease> {
    with(|world| world.lease.clone())
}

fn inward_key(session: &Session) -> Inward {
    (session.v4, session.peer)
}

fn outward_key(session: &Session) -> Option<Outward> {
    (!session.is_udp()).then_some((session.node, session.peer))
}

impl FastPath for Twin {
    fn put(&self, session: &Session, _: Sent) -> io::Result<()> {
        let (key, node) = (inward_key(session), session.node);
        let check = (key, node);
        with(|world| {
            world.expecting.insert((node, key));
            world.gone.remove(&(node, key));
            world.inward.put(
                key,
                InwardTo {
                    node,
                    seen: 0,
                    check,
                },
            )
        });
        pause();
        if let Some(key) = outward_key(session) {
            with(|world| world.outward.put(key, session.v4));
            pause();
        }
        forget();
        Ok(())
    }

    fn remove(&self, session: &Session) -> io::Result<()> {
        around(|| {
            with(|world| {
                world.inward.remove(&inward_key(session));
                world.ended.insert(inward_key(session));
            });
            pause();
            if let Some(key) = outward_key(session) {
                with(|world| world.outward.remove(&key));
                pause();
            }
        });
        let key = (session.node, inward_key(session));
        with(|world| world.gone.insert(key, world.steps));
        Ok(())
    }

    fn bind(&self, node: sys::NodePort, v4: V4) -> io::Result<()> {
        let node = (node.addr, node.port);
        let check = (node, v4);
        if with(|world| world.refused == Some(node.0)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        with(|world| world.bound.put(node, BoundTo { v4, check }));
        pause();
        Ok(())
    }

    fn unbind(&self, node: sys::NodePort) -> io::Result<()> {
        with(|world| world.bound.remove(&(node.addr, node.port)));
        pause();
        Ok(())
    }

    fn last_seen(&self, session: &Session) -> io::Result<Option<Duration>> {
        let seen = with(|world| {
            world
                .inward
                .get(&inward_key(session))
                .map_or(0, |to| to.seen)
        });
        Ok((seen != 0).then(|| Duration::from_secs(seen)))
    }

    fn maps(&self) -> Option<Arc<Sessions>> {
        None
    }

    fn places(&self) -> usize {
        1
    }

    fn set_of(&self, _: Ipv6Addr) -> Range<usize> {
        0..1
    }

    fn assign(&self, _: usize, node: Ipv6Addr, address: Ipv4Addr, _: LeaseSize) -> u32 {
        with(|world| {
            world.addresses.insert(node, address);
            world.address = address;
        });
        let lease = lease();
        lease.assign(halves(node), address.to_bits(), 0);
        lease.term()
    }

    fn most_ports(&self, _: usize) -> u32 {
        PORTS
    }

    fn sessions(&self, _: usize) -> u32 {
        lease().sessions()
    }

    fn add_sessions(&self, _: usize, more: u32) {
        lease().add_sessions(more);
    }

    fn ports(&self, _: usize, queue: usize) -> u32 {
        lease().ports(queue)
    }

    fn add_port(&self, _: usize, queue: usize, port: u16) {
        with(|world| {
            world.on_loan.insert(port);
            world.lent.insert(port, world.address);
        });
        lease().add_port(queue, port, None);
    }

    fn end(&self, _: usize) -> Vec<(usize, u16)> {
        let lease = lease();
        let left = lease.end(lease.term() + 1, |_| None);
        with(|world| {
            let is_left = |port| left.iter().any(|(_, left)| *left == port);
            world.on_loan.retain(|port| !is_left(*port));
            world.lent.retain(|port, _| !is_left(*port));
        });
        left
    }

    fn drain(&self) -> Vec<Opening> {
        pause();
        let mut openings = Vec::new();
        with(|world| {
            let end = world.ring.len();
            while world.heard < end {
                match world.ring[world.heard] {
                    Record::Submitted(opening) => {
                        if opening.report == Report::Unwanted {
                            world.taken.remove(&opening.v4);
                        }
                        openings.push(opening);
                    }
                    Record::Discarded => {}
                    Record::Reserved(_) if world.undone.wait => break,
                    Record::Reserved(program) => {
                        if world.may_give_up && world.guide.choose(2) == 1 {
                            world.gave_up = true;
                            break;
                        }
                        // The CPU on which it runs continues.
                        world.step(program);
                        continue;
                    }
                }
                world.heard += 1;
            }
        });
        pause();
        openings
    }

    fn occupy(&self, protocol: Protocol, v4: V4) {
        // What comes next pauses.
        with(|world| world.occupied.occupy(protocol, v4));
    }

    fn vacate(&self, protocol: Protocol, v4: V4) {
        with(|world| world.occupied.vacate(protocol, v4));
        pause();
    }

    fn tell_unbound(&self, occupied: &mut dyn Iterator<Item = (Protocol, V4)>) {
        with(|world| world.occupied.begin(occupied));
    }
}
