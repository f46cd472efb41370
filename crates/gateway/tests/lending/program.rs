// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of `bpf/nat64.bpf.c` and `bpf/open.h` on UDP packets, or on SYNs of nodes and other segments of their
//! peers, one access to shared data at a time.
//!
//! | steps here                             | lines there                                                       |
//! |----------------------------------------|-------------------------------------------------------------------|
//! | `Recall`, `Changed`, `Miss`            | `recall_session6`, `recall_session4`: `seen`, `changes`; `miss`   |
//! | `Binding`, `CopyBinding`, `Session`    | `find_known_udp`: `copy_binding`, `use_session_of_udp`            |
//! | `Outward`, `CopyOutward`               | `find_known`: `session6_of`                                       |
//! | `Moved`, `TellMoved`                   | `tell_transition_by_node`, `tell_transition`                      |
//! | `Lease`, `Term`, `Node`                | `open_session`: `lease_of`                                        |
//! | `Reserve`, `TakeSession`               | `open_session`: `bpf_ringbuf_reserve`, `lease_take_session`       |
//! | `Again`, `CopyAgain`                   | `open_session`: `copy_binding`                                    |
//! | `Address` … `TakePort`, `Bind`         | `open_binding`: `v4_be`, `lease_take_port`, the update of `bib`   |
//! | `PutOutward`, `Put`, `DropOutward`     | `put_session`                                                     |
//! | `GiveBack`, `Tell`                     | `open_session`: from `lease_take_session` with -1 to its end      |
//! | `Find`, `ReadNode`, `ReadCheck`        | `find_session4`: `session4_of` with `copy_session4`               |
//! | `Unbound`                              | `to_node_at_device`: `is_unsolicited`, of any packet              |
//! | `Remember`                             | `remember_session6`, `remember_session4`                          |
//!
//! Omitted are matters of one program alone: the packet itself, prefixes, ports below 1024, and the adjacent ports of RTP.

use diolkos_fastpath::lease::program as lease;
use diolkos_fastpath::lease::Word;
use diolkos_fastpath::{halves, queue_of, Opening, Report};
use diolkos_nat64::config::Protocol;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

use crate::twin::{BoundTo, Inward, InwardTo, NodePort, Record, World, V4};

/// The packet of a program.
#[derive(Clone, Copy, Debug)]
pub enum Packet {
    Out { node: NodePort, peer: V4 },
    In { to: V4, peer: V4 },
}

/// The result for a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome {
    Declined,
    Translated,
    Dropped,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Recall,
    Changed,
    Miss,
    Remember,
    Outward,
    CopyOutward,
    Moved,
    TellMoved,
    Binding,
    CopyBinding,
    Session,
    Lease,
    Term,
    Node,
    Reserve,
    TakeSession,
    Again,
    CopyAgain,
    Address,
    Head,
    Tail,
    Port,
    TakePort,
    LateAddress,
    Bind,
    PutOutward,
    Put,
    DropOutward,
    GiveBack,
    Tell,
    Find,
    ReadNode,
    ReadCheck,
    Unbound,
}

/// A running program, with its variables.
#[derive(Clone, Debug)]
pub struct Program {
    pub outcome: Option<Outcome>,
    packet: Packet,
    at: At,
    element: usize,
    v4: V4,
    copied: NodePort,
    term: u32,
    record: usize,
    attempts: u32,
    head: u64,
    early: Option<u16>,
    report: Report,
    put: i32,
    /// The number of its first step; 0: it has not begun.
    began: u64,
    /// What is at the place of known sessions, and the number of changes with which it was found.
    recalled: Option<((NodePort, V4), u64)>,
    /// The number of changes with which what is found may be kept.
    changes: u64,
}

const ATTEMPTS: u32 = 4;
const SYN: u8 = 2;
const NOWHERE: V4 = (Ipv4Addr::UNSPECIFIED, 0);

impl Program {
    pub fn new(packet: Packet, protocol: Protocol) -> Program {
        Program {
            outcome: None,
            packet,
            at: match packet {
                // SYNs do not look there.
                Packet::Out { .. } if protocol == Protocol::Tcp => At::Outward,
                Packet::Out { .. } | Packet::In { .. } => At::Recall,
            },
            element: 0,
            v4: NOWHERE,
            copied: (std::net::Ipv6Addr::UNSPECIFIED, 0),
            term: 0,
            record: 0,
            attempts: 0,
            head: 0,
            early: None,
            report: Report::Opened,
            put: 0,
            began: 0,
            recalled: None,
            changes: 0,
        }
    }

    /// Takes one step.
    pub fn step(&mut self, me: usize, world: &mut World) {
        if self.began == 0 {
            self.began = world.steps;
        }
        match self.packet {
            Packet::Out { node, peer } => self.outward(me, node, peer, world),
            Packet::In { to, peer } => self.inward((to, peer), world),
        }
    }

    fn inward(&mut self, key: Inward, world: &mut World) {
        match self.at {
            At::Recall => {
                let found = world.known4.found.filter(|(of, ..)| *of == key);
                self.recalled = found.map(|(_, node, seen)| ((node, NOWHERE), seen));
                self.at = At::Changed;
            }
            At::Changed => match self.recalled {
                Some(((node, _), seen)) if seen == world.known4.changes => {
                    self.copied = node;
                    self.arrive(key, world);
                }
                _ => self.at = At::Miss,
            },
            At::Miss => {
                self.changes = world.known4.changes;
                self.at = At::Find;
            }
            At::Remember => {
                if world.undone.early {
                    self.changes = world.known4.changes;
                }
                world.known4.found = Some((key, self.copied, self.changes));
                self.outcome = Some(Outcome::Translated);
            }
            At::Find => match world.inward.at.get(&key) {
                Some(&at) => (self.element, self.at) = (at, At::ReadNode),
                None => self.at = At::Unbound,
            },
            At::Unbound if world.occupied.has(world.protocol, key.0) => self.decline(),
            // The world checks after each step that nobody has a port that is not occupied.
            At::Unbound => self.outcome = Some(Outcome::Dropped),
            At::ReadNode => {
                self.copied = world.inward.elements[self.element].node;
                self.at = At::ReadCheck;
            }
            _ => {
                let to = &mut world.inward.elements[self.element];
                if to.check != (key, self.copied) && !world.undone.check {
                    return self.decline();
                }
                to.seen = world.now;
                self.arrive(key, world);
                (self.outcome, self.at) = (None, At::Remember);
            }
        }
    }

    fn arrive(&mut self, key: Inward, world: &mut World) {
        assert!(
            world.expecting.contains(&(self.copied, key)),
            "{:?} gets what {key:?} says, to whom it did not send",
            self.copied
        );
        self.uses((self.copied, key), world);
        self.outcome = Some(Outcome::Translated);
    }

    /// The invariant of known sessions.
    fn uses(&self, session: (NodePort, Inward), world: &World) {
        let ended = world.gone.get(&session);
        assert!(
            ended.is_none_or(|ended| *ended > self.began),
            "{session:?} is used though it had ended before"
        );
    }

    fn outward(&mut self, me: usize, node: NodePort, peer: V4, world: &mut World) {
        let shared = world.lease.clone();
        let is_tcp = world.protocol == Protocol::Tcp;
        let queue = queue_of(is_tcp, node.1);
        let put = if is_tcp { At::PutOutward } else { At::Put };
        let undone = world.undone;
        let term = (!undone.terms).then_some(self.term);
        match self.at {
            At::Recall => {
                let found = world.known6.found.filter(|(of, ..)| *of == (node, peer));
                self.recalled = found.map(|(_, v4, seen)| ((node, v4), seen));
                self.at = At::Changed;
            }
            At::Changed => match self.recalled {
                Some(((_, v4), seen)) if seen == world.known6.changes => {
                    self.v4 = v4;
                    self.translate(node, peer, world);
                }
                _ => self.at = At::Miss,
            },
            At::Miss => {
                self.changes = world.known6.changes;
                self.at = At::Binding;
            }
            At::Remember => {
                if undone.early {
                    self.changes = world.known6.changes;
                }
                world.known6.found = Some(((node, peer), self.v4, self.changes));
                self.outcome = Some(Outcome::Translated);
            }
            At::Outward => match world.outward.at.get(&(node, peer)) {
                Some(&at) => (self.element, self.at) = (at, At::CopyOutward),
                None => self.at = At::Lease,
            },
            At::CopyOutward => {
                self.v4 = world.outward.elements[self.element];
                self.at = At::Moved;
            }
            At::Moved => match world.inward.get(&(self.v4, peer)) {
                Some(there) if there.check == ((self.v4, peer), node) => {
                    self.record = world.ring.len();
                    world.ring.push(Record::Reserved(me));
                    self.at = At::TellMoved;
                }
                _ => self.decline(),
            },
            At::TellMoved => {
                world.ring[self.record] = Record::Submitted(Opening {
                    report: Report::Moved {
                        is_from_peer: false,
                        flags: SYN,
                    },
                    protocol: 6,
                    node,
                    v4: self.v4,
                    peer,
                    prefix: 0,
                    term: 0,
                });
                self.translate(node, peer, world);
            }
            At::Binding => match world.bound.at.get(&node) {
                Some(&at) => (self.element, self.at) = (at, At::CopyBinding),
                None => self.at = At::Lease,
            },
            At::CopyBinding | At::CopyAgain => {
                let is_again = self.at == At::CopyAgain;
                let BoundTo { v4, check } = world.bound.elements[self.element];
                self.v4 = v4;
                let fits = check == (node, v4) || undone.check;
                (self.at, self.put) = match (fits, is_again) {
                    (true, false) => (At::Session, 0),
                    (true, true) => (put, 0),
                    (false, false) => return self.decline(),
                    (false, true) => (At::GiveBack, -1),
                };
            }
            At::Session => match world.inward.at.get(&(self.v4, peer)) {
                Some(&at) => {
                    let session = &mut world.inward.elements[at];
                    if session.check != ((self.v4, peer), node) && !undone.owner {
                        return self.decline();
                    }
                    session.seen = world.now;
                    self.translate(node, peer, world);
                    (self.outcome, self.at) = (None, At::Remember);
                }
                None => self.at = At::Lease,
            },
            At::Lease if lease::has_sessions(&shared) => self.at = At::Term,
            At::Lease => self.decline(),
            At::Term => match lease::term_of(&shared) {
                Some(term) => (self.term, self.at) = (term, At::Node),
                None => self.decline(),
            },
            At::Node if lease::is_of(&shared, halves(node.0)) => self.at = At::Reserve,
            At::Node => self.decline(),
            At::Reserve => {
                self.record = world.ring.len();
                world.ring.push(Record::Reserved(me));
                self.at = At::TakeSession;
            }
            At::TakeSession => match lease::take_session(&shared, term, 1) {
                Some(true) => self.at = At::Again,
                Some(false) => self.discard(world),
                None => self.retry(At::TakeSession, At::Tell),
            },
            At::Again => {
                let first = self.v4 != NOWHERE;
                match world.bound.at.get(&node) {
                    _ if undone.again && first => self.at = put,
                    Some(&at) => (self.element, self.at) = (at, At::CopyAgain),
                    None => (self.report, self.attempts, self.at) = (Report::Bound, 0, At::Address),
                }
            }
            At::Address => {
                self.v4.0 = Ipv4Addr::from_bits(shared.v4.load(Relaxed));
                self.at = At::Head;
            }
            At::Head => {
                self.head = lease::head(&shared, queue);
                // Without an order, a CPU may read it before the tail.
                self.early = undone
                    .order
                    .then(|| lease::port(lease::ports(&shared, queue, None), self.head));
                let is_ours = term.is_none_or(|term| (self.head >> 32) as u32 == term);
                (self.at, self.put) = if is_ours {
                    (At::Tail, 0)
                } else {
                    (At::GiveBack, -1)
                };
            }
            At::Tail => {
                let tail = lease::tail(&shared, queue);
                let most = lease::ports(&shared, queue, None).len();
                let there = lease::is_there(self.head, tail, most);
                (self.at, self.put) = if there {
                    (At::Port, 0)
                } else {
                    (At::GiveBack, -1)
                };
            }
            At::Port => {
                let early = self.early;
                self.v4.1 = early
                    .unwrap_or_else(|| lease::port(lease::ports(&shared, queue, None), self.head));
                self.at = At::TakePort;
            }
            At::TakePort if lease::take_port(&shared, queue, self.head) => {
                let was_lent = world.on_loan.remove(&self.v4.1);
                assert!(was_lent, "port {} is taken and was not lent", self.v4.1);
                let address = world.lent.remove(&self.v4.1);
                world
                    .taken
                    .extend(address.map(|address| (address, self.v4.1)));
                self.at = if undone.terms {
                    At::LateAddress
                } else {
                    At::Bind
                };
            }
            At::TakePort => {
                self.put = -1;
                self.retry(At::Head, At::GiveBack);
            }
            At::LateAddress => {
                self.v4.0 = Ipv4Addr::from_bits(shared.v4.load(Relaxed));
                self.at = At::Bind;
            }
            At::Bind => {
                if world.bound.at.contains_key(&node) {
                    (self.report, self.put, self.at) = (Report::Unwanted, 1, At::GiveBack);
                } else {
                    let (v4, check) = (self.v4, (node, self.v4));
                    world.taken.remove(&v4);
                    world.bound.put(node, BoundTo { v4, check });
                    self.at = put;
                }
            }
            At::PutOutward => {
                let is_there = world.outward.at.contains_key(&(node, peer));
                if is_there {
                    self.put = -1;
                    self.is_put();
                } else {
                    world.outward.put((node, peer), self.v4);
                    self.at = At::Put;
                }
            }
            At::DropOutward => {
                world.outward.remove(&(node, peer));
                self.put = -1;
                self.is_put();
            }
            At::Put => {
                let key = (self.v4, peer);
                let check = (key, node);
                self.put = match world.inward.get(&key) {
                    Some(there) if there.check == check => 1,
                    Some(_) if !undone.noexist => -1,
                    there => {
                        let other = there.map(|to| to.node);
                        assert_eq!(other, None, "a session of another node is replaced");
                        let seen = world.now;
                        world.expecting.insert((node, key));
                        world.gone.remove(&(node, key));
                        world.inward.put(key, InwardTo { node, seen, check });
                        0
                    }
                };
                if is_tcp && self.put != 0 {
                    self.at = At::DropOutward;
                } else {
                    self.is_put();
                }
            }
            At::GiveBack => match lease::take_session(&shared, term, -1) {
                Some(_) => self.at = At::Tell,
                None => self.retry(At::GiveBack, At::Tell),
            },
            At::Tell if self.put != 0 && matches!(self.report, Report::Opened | Report::Bound) => {
                world.ring[self.record] = Record::Discarded;
                match self.put {
                    1 => self.translate(node, peer, world),
                    _ => self.decline(),
                }
            }
            At::Tell => {
                world.ring[self.record] = Record::Submitted(Opening {
                    report: self.report,
                    protocol: if is_tcp { 6 } else { 17 },
                    node,
                    v4: self.v4,
                    peer,
                    prefix: 0,
                    term: self.term,
                });
                match self.put {
                    0 => self.translate(node, peer, world),
                    _ => self.decline(),
                }
            }
            At::Find | At::ReadNode | At::ReadCheck | At::Unbound => {
                unreachable!("a step of the other program")
            }
        }
    }

    /// Continues once the session is there, or cannot be.
    fn is_put(&mut self) {
        if self.put != 0 && self.report == Report::Bound {
            self.report = Report::Alone;
        }
        self.attempts = 0;
        self.at = if self.put != 0 && self.report == Report::Opened {
            At::GiveBack
        } else {
            At::Tell
        };
    }

    fn retry(&mut self, again: At, else_at: At) {
        self.attempts += 1;
        self.at = if self.attempts < ATTEMPTS {
            again
        } else {
            else_at
        };
    }

    fn discard(&mut self, world: &mut World) {
        world.ring[self.record] = Record::Discarded;
        self.decline();
    }

    fn decline(&mut self) {
        self.outcome = Some(Outcome::Declined);
    }

    fn translate(&mut self, node: NodePort, peer: V4, world: &mut World) {
        if self.report == Report::Bound {
            let address = world.addresses.get(&node.0);
            assert_eq!(address, Some(&self.v4.0), "the address is another node's");
        }
        self.uses((node, (self.v4, peer)), world);
        world.sent.push((node, (self.v4, peer)));
        self.outcome = Some(Outcome::Translated);
    }
}
