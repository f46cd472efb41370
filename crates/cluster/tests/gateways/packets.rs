// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of hosts and servers, also from gateway to gateway, and the check of their translation.

use diolkos_fastpath::Session;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{Inbound, Inward, Outbound, Segment};
use diolkos_node::{Event, NodeId};
use diolkos_xlat::Reason;

use crate::clock;
use crate::machine::{addresses, is_own_pool, owner, peer, Inner, FIRST_PORT, PORTS, PROTOCOLS};
use crate::truth::{key, key_of, subscriber, Key};
use crate::world::{What, World};

#[derive(Clone, Copy)]
pub struct Packet {
    at: usize,
    /// The interface between gateways by which it came, or 0.
    link: u32,
    /// Programs know only its host.
    is_fragment: bool,
    hops: usize,
    way: Side,
}

#[derive(Clone, Copy)]
enum Side {
    V6(Protocol, Endpoint6),
    /// To a port, with the subscriber that had the port when the packet was sent.
    V4(Protocol, Endpoint4, Option<u64>),
}

/// The next step of a packet.
enum Way {
    Translated(Binding),
    To(NodeId),
    Nowhere,
}

impl World {
    /// Has hosts and servers send.
    pub fn offer(&mut self) {
        let count = self.machines.len();
        for _ in 0..self.load {
            let n = self.random.below(self.flows.len());
            if self.is_restless && self.random.chance(0.02) {
                self.flows[n].is_active ^= true;
            }
            if self.is_restless && self.random.chance(0.1) {
                self.flows[n].at = self.random.below(count);
            }
            if self.flows[n].is_active {
                self.send_from_host(n);
            }
        }
        for _ in 0..self.load {
            let protocol = PROTOCOLS[self.random.below(2)];
            let v4 = Endpoint4 {
                addr: addresses(self.random.below(count))[self.random.below(2)],
                port: FIRST_PORT + self.random.below(PORTS.into()) as u16,
            };
            // A packet to a port that is unused at that moment has no recipient.
            let to = self.truth.given.get(&key(protocol, v4)).copied();
            let to = to.filter(|_| !self.users(protocol, v4).is_empty());
            let packet = Packet {
                at: self.random.below(count),
                link: 0,
                is_fragment: self.random.chance(0.1),
                hops: 0,
                way: Side::V4(protocol, v4, to),
            };
            let after = self.delay();
            self.post(after, What::Packet(packet));
        }
    }

    pub fn send_from_host(&mut self, n: usize) {
        let flow = self.flows[n];
        let packet = Packet {
            at: flow.at,
            link: 0,
            is_fragment: self.random.chance(0.1),
            hops: 0,
            way: Side::V6(flow.protocol, flow.host),
        };
        let after = self.delay();
        self.post(after, What::Packet(packet));
    }

    pub fn packet(&mut self, packet: Packet) {
        let (at, now) = (packet.at, self.now);
        if packet.hops > self.machines.len() + 1 {
            self.error = Some("a packet goes round".to_owned());
            return;
        }
        let machine = &self.machines[at];
        let clock = machine.clock(now);
        clock::set(clock);
        let maps = machine.model.maps();
        let session = match packet.way {
            Side::V6(protocol, v6) => maps.of_host(clock, protocol, v6, peer(protocol)),
            Side::V4(protocol, v4, _) => maps.of_port(clock, protocol, v4, peer(protocol)),
        };
        drop(maps);
        // Programs translate packets with known sessions, whatever the process does. Some packets they leave to the
        // slow path.
        let is_slow = packet.is_fragment || self.random.chance(0.1);
        if let Some(session) = session.filter(|_| !is_slow) {
            return self.translated_by_program(packet, session);
        }
        let is_ours = session.is_some_and(|its| its.owner.number().is_none());
        if let Some(to) = self.led_by_program(&packet).filter(|_| !is_ours) {
            return self.forward(packet, to);
        }
        if self.machines[at].frozen_until > now {
            return;
        }
        match self.slow_path(packet) {
            Way::Translated(binding) => self.translate(packet, binding),
            Way::To(node) => self.forward(packet, node),
            Way::Nowhere => {}
        }
    }

    fn slow_path(&mut self, packet: Packet) -> Way {
        let at = packet.at;
        let Some(process) = &self.machines[at].process else {
            return Way::Nowhere;
        };
        let mut tables = process.tables.0.borrow_mut();
        let Inner { state, mirror, .. } = &mut *tables;
        mirror.packet_comes(packet.link);
        let clock = clock::now();
        let done = match packet.way {
            Side::V6(protocol, v6) => {
                let sent = Outbound {
                    protocol,
                    v6,
                    peer: peer(protocol),
                    prefix: 0,
                    segment: Segment::Other,
                };
                let random = &mut self.random;
                let v4 = state.outbound(clock, &sent, || random.next(), mirror);
                v4.map(|v4| Some(Binding { protocol, v4, v6 }))
            }
            Side::V4(protocol, v4, _) => {
                let sent = Inbound {
                    protocol,
                    v4,
                    peer: peer(protocol),
                    segment: Segment::Other,
                    bytes: b"",
                };
                let inward = state.inbound(clock, &sent, mirror);
                inward.map(|inward| match inward {
                    Inward::Node(v6, _) => Some(Binding { protocol, v4, v6 }),
                    _ => None,
                })
            }
        };
        let to = state.way();
        // As the slow path sends.
        let is_reached = to.is_some_and(|to| process.ways.mtu(to).is_some());
        let opened = process.opened.take();
        drop(tables);
        for binding in opened {
            let (key, who) = (key_of(&binding), subscriber(&binding));
            let given = self.truth.give(self.now, key, who);
            if let Some(error) = given.err().or_else(|| self.others_use(&binding)) {
                self.error.get_or_insert(error);
            }
        }
        match done {
            Ok(Some(binding)) => Way::Translated(binding),
            Err(Reason::Elsewhere) if is_reached => {
                to.map_or(Way::Nowhere, |to| Way::To(NodeId(to)))
            }
            Err(Reason::PoolExhausted) => {
                self.event(at, Some(Event::Short));
                Way::Nowhere
            }
            _ => Way::Nowhere,
        }
    }

    /// Returns the gateway to which a program sends a packet that comes from outside and has no session here. Packets
    /// from another gateway go to the slow path.
    fn led_by_program(&mut self, packet: &Packet) -> Option<NodeId> {
        if packet.link != 0 {
            return None;
        }
        let machine = &self.machines[packet.at];
        let maps = machine.model.maps();
        let to = match packet.way {
            Side::V6(protocol, v6) => {
                let bucket = self.bucket(v6);
                let to = maps.way_of_host(protocol, v6, bucket, packet.is_fragment)?;
                let is_home = maps.homes[bucket].number() == Some(to.0);
                self.seen.forwarded_by_ports_away += u64::from(!is_home);
                to
            }
            Side::V4(_, v4, _) => {
                let owner = owner(v4.addr);
                maps.ways[owner.index()]?;
                owner
            }
        };
        self.seen.forwarded_by_programs += 1;
        (to != machine.id).then_some(to)
    }

    fn forward(&mut self, packet: Packet, to: NodeId) {
        if self.passes(packet.at, to.index()) {
            let after = self.delay();
            let packet = Packet {
                at: to.index(),
                link: 7,
                hops: packet.hops + 1,
                ..packet
            };
            self.post(after, What::Packet(packet));
        }
    }

    fn translated_by_program(&mut self, packet: Packet, session: Session) {
        let machine = &self.machines[packet.at];
        // Servers do not keep a binding alive (RFC 4787 REQ-6 leaves that open).
        if let Side::V6(..) = packet.way {
            machine.model.maps().stamp(clock::now(), &session);
        }
        self.seen.by_copy_in_programs += u64::from(session.owner.number().is_some());
        self.translate(packet, binding_of(&session));
    }

    fn translate(&mut self, packet: Packet, binding: Binding) {
        let (key, who) = (key_of(&binding), subscriber(&binding));
        self.truth.by_copy += u64::from(owner(binding.v4.addr).index() != packet.at);
        if !is_own_pool(&binding) {
            self.error = Some(format!("{binding:?}: an address of the other pool"));
        }
        match packet.way {
            Side::V6(protocol, host) => {
                let mut flows = self.flows.iter_mut();
                let its = flows.find(|flow| (flow.host, flow.protocol) == (host, protocol));
                its.into_iter().for_each(|flow| flow.port = Some(key));
            }
            Side::V4(.., to) if to.is_some_and(|to| to != who) => {
                self.error = Some(format!("{key:?}: a packet for {to:x?} reaches {who:x}"));
            }
            Side::V4(..) => {}
        }
        if let Err(error) = self.truth.translate(self.now, key, who, packet.at) {
            self.error = Some(error);
        }
    }

    /// Describes a gateway that would translate a port for another subscriber, if a packet came now.
    fn others_use(&self, binding: &Binding) -> Option<String> {
        let who = subscriber(binding);
        let users = self.users(binding.protocol, binding.v4);
        let (node, other) = users.iter().find(|(_, its)| subscriber(its) != who)?;
        let (key, other): (Key, u64) = (key_of(binding), subscriber(other));
        Some(format!(
            "{key:?} is given to {who:x}, and {node:?} uses it for {other:x}"
        ))
    }

    /// Returns the gateways that would translate a port if a packet came now, each with its binding.
    fn users(&self, protocol: Protocol, v4: Endpoint4) -> Vec<(NodeId, Binding)> {
        let owner = owner(v4.addr);
        let mut users = Vec::new();
        for machine in &self.machines {
            let clock = machine.clock(self.now);
            let maps = machine.model.maps();
            let session = maps.of_port(clock, protocol, v4, peer(protocol));
            users.extend(session.map(|its| (machine.id, binding_of(&its))));
            let Some(process) = machine.process.as_ref().filter(|_| machine.id != owner) else {
                continue;
            };
            process.tables.look(|node| {
                if node.may_use(owner, clock) {
                    let mut copies = node.bindings_of(owner);
                    let copy = copies.find(|its| (its.protocol, its.v4) == (protocol, v4));
                    users.extend(copy.map(|its| (machine.id, its)));
                }
            });
        }
        users
    }
}

fn binding_of(session: &Session) -> Binding {
    let protocol = match session.protocol {
        1 => Protocol::Icmp,
        6 => Protocol::Tcp,
        _ => Protocol::Udp,
    };
    let ((addr4, port4), (addr6, port6)) = (session.v4, session.node);
    Binding {
        protocol,
        v4: Endpoint4 {
            addr: addr4,
            port: port4,
        },
        v6: Endpoint6 {
            addr: addr6,
            port: port6,
        },
    }
}
