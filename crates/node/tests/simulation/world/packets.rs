// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of hosts and servers, also from gateway to gateway, and the check of their translation.

use diolkos_nat64::session::{self, Inbound, Inward, Missing, Outbound, Segment, Watcher};
use diolkos_xlat::Reason;

use super::*;

impl World {
    pub(super) fn step(&mut self) {
        self.dial();
        self.is_one_file();
        for at in 0..self.machines.len() {
            let has_left = self.machines[at]
                .process
                .as_ref()
                .is_some_and(|p| p.has_left);
            if has_left {
                // The process ends, and its programs with it.
                let goes_over = self.machines[at].goes_over;
                self.kill(at, true);
                self.machines[at].goes_over = goes_over;
            }
        }
        for _ in 0..self.load {
            let n = self.random.below(self.flows.len());
            let mut flow = self.flows[n];
            if self.random.chance(0.02) && self.is_restless {
                flow.is_active ^= true;
            }
            if self.is_restless && self.random.chance(0.1) {
                flow.at = self.random.below(self.machines.len());
            }
            self.flows[n] = flow;
            if flow.is_active {
                let opens = !self.random.chance(0.1);
                self.send_from_host(n, opens);
            }
        }
        for _ in 0..self.load {
            let (port, protocol) = (self.random.below(8), PROTOCOLS[self.random.below(2)]);
            let owner = self.random.below(self.machines.len());
            let at = self.random.below(self.machines.len());
            let key = (
                address(owner).to_bits(),
                crate::machine::FIRST_PORT + port as u16,
                protocol as u8,
            );
            // A packet to a port that is unused at that moment has no recipient.
            let to = self.truth.given.get(&key).copied();
            let to = to.filter(|_| !self.users(key).is_empty());
            let after = self.delay();
            let packet = Packet {
                at,
                via: Via::Outside,
                is_fragment: self.random.chance(self.fragments),
                hops: 0,
                way: Side::V4 { key, to },
            };
            self.post(after, What::Packet(packet));
        }
    }

    pub fn send_from_host(&mut self, n: usize, opens: bool) {
        let Flow {
            host, protocol, at, ..
        } = self.flows[n];
        let after = self.delay();
        let packet = Packet {
            at,
            via: Via::Outside,
            is_fragment: opens && self.random.chance(self.fragments),
            hops: 0,
            way: Side::V6 {
                host,
                protocol,
                opens,
            },
        };
        self.post(after, What::Packet(packet));
    }

    pub(super) fn packet(&mut self, packet: Packet) {
        let (at, now) = (packet.at, self.now);
        let most_hops = match self.links_are_shared {
            true => 2,
            false => self.machines.len() + 1,
        };
        if packet.hops as usize > most_hops {
            self.error = Some("a packet goes round".to_owned());
            return;
        }
        let machine = &mut self.machines[at];
        let clock = machine.clock(now);
        let by_program = match packet.way {
            Side::V6 { host, protocol, .. } => {
                let is_it = |b: &Binding| (b.v6, b.protocol) == (host, protocol);
                machine.program.of_host(clock, is_it)
            }
            Side::V4 { key, .. } => machine.program.of_port(clock, &key),
        };
        // Programs translate packets with known sessions, whatever the process does. Some packets they leave to the
        // slow path.
        let is_slow = packet.is_fragment || self.random.chance(0.2);
        if let Some(binding) = by_program.filter(|_| !is_slow) {
            return self.translate(packet, binding, true);
        }
        let owner = by_program.map(|binding| self.machines[at].owner(binding.v4.addr));
        let is_own = owner == Some(self.machines[at].id);
        // All fragments of a packet have to meet, and most show no port.
        let is_own = is_own && !packet.is_fragment;
        if let Some(node) = self.led_by_program(&packet).filter(|_| !is_own) {
            return self.forward(packet, node);
        }
        if self.machines[at].frozen_until > now {
            return;
        }
        match packet.way {
            Side::V6 {
                host,
                protocol,
                opens: true,
            } => self.outbound(packet, host, protocol),
            Side::V6 { host, protocol, .. } => self.error_from_inside(packet, host, protocol),
            Side::V4 { key, .. } => self.inbound(packet, key),
        }
    }

    fn outbound(&mut self, packet: Packet, host: Endpoint6, protocol: Protocol) {
        let sent = Outbound {
            protocol,
            v6: host,
            peer: peer(protocol),
            prefix: 0,
            segment: Segment::Other,
        };
        let at = packet.at;
        let done = self.with_tables(at, packet.via, |state, clock, random, eyes| {
            let v4 = state.outbound(clock, &sent, || random.next(), eyes);
            (v4, state.way())
        });
        match done {
            Some((Ok(v4), _)) => {
                let binding = Binding {
                    protocol,
                    v4,
                    v6: host,
                };
                self.translate(packet, binding, false);
            }
            Some((Err(Reason::Elsewhere), Some(node))) => {
                let node = NodeId(node);
                let program = &mut self.machines[at].program;
                program.lead_away(host, protocol, node);
                self.forward(packet, node);
            }
            done => {
                self.dropped += 1;
                if matches!(done, Some((Err(Reason::PoolExhausted), _))) {
                    self.event(at, Event::Short);
                }
            }
        }
    }

    /// Handles an ICMPv6 error about a packet to a host: the tables look for the binding, and open none.
    fn error_from_inside(&mut self, packet: Packet, host: Endpoint6, protocol: Protocol) {
        let missing = Missing::V6(protocol, host);
        let own = self.with_tables(packet.at, packet.via, |state, clock, _, eyes| {
            let own = state.v4_of(protocol, host);
            let own = own.filter(|v4| !state.is_of_other(v4.addr));
            let found = own.map(|v4| Binding {
                protocol,
                v4,
                v6: host,
            });
            let way = found.map_or_else(|| eyes.missing(missing, false), session::Way::Copy);
            (way, clock)
        });
        match own {
            Some((session::Way::Copy(binding), clock)) => {
                let machine = &self.machines[packet.at];
                let owner = machine.owner(binding.v4.addr);
                if owner == machine.id || clock < machine.program.until[owner.index()] {
                    self.translate(packet, binding, false);
                }
            }
            Some((session::Way::Forward(node), _)) => self.forward(packet, NodeId(node)),
            _ => {}
        }
    }

    fn inbound(&mut self, packet: Packet, key: crate::truth::Key) {
        let (protocol, v4) = v4(&key);
        let sent = Inbound {
            protocol,
            v4,
            peer: peer(protocol),
            segment: Segment::Other,
            bytes: b"",
        };
        let done = self.with_tables(packet.at, packet.via, |state, clock, _, eyes| {
            (state.inbound(clock, &sent, eyes), state.way())
        });
        match done {
            Some((Ok(Inward::Node(v6, _)), _)) => {
                self.translate(packet, Binding { protocol, v4, v6 }, false);
            }
            Some((Err(Reason::Elsewhere), Some(node))) => self.forward(packet, NodeId(node)),
            _ => {}
        }
    }

    /// Returns the node to which a program sends a packet that comes from outside and has no session here. Packets from
    /// another gateway go to the slow path.
    fn led_by_program(&self, packet: &Packet) -> Option<NodeId> {
        if packet.via != Via::Outside {
            return None;
        }
        let machine = &self.machines[packet.at];
        match packet.way {
            Side::V6 { host, protocol, .. } => {
                let bucket = self.buckets.bucket(self.config.subscriber(host.addr));
                let program = &machine.program;
                match packet.is_fragment {
                    true if program.keeps_portless[bucket] => None,
                    true => program.homes[bucket].filter(|home| *home != machine.id),
                    false => program.way_of_host(machine.id, host, protocol, bucket),
                }
            }
            Side::V4 { key, .. } => {
                let owner = machine.owner(key.0.into());
                let is_led = owner != machine.id && machine.program.takes[owner.index()];
                is_led.then_some(owner)
            }
        }
    }

    pub(super) fn forward(&mut self, packet: Packet, to: NodeId) {
        if self.net.passes(self.now, packet.at, to.index()) {
            let after = self.delay();
            let packet = Packet {
                at: to.index(),
                via: match self.links_are_shared {
                    true => Via::SomeNode,
                    false => Via::Node(self.machines[packet.at].id),
                },
                hops: packet.hops + 1,
                ..packet
            };
            self.post(after, What::Packet(packet));
        }
    }

    pub(super) fn translate(&mut self, packet: Packet, binding: Binding, by_program: bool) {
        let (now, at, key) = (self.now, packet.at, key_of(&binding));
        let machine = &mut self.machines[at];
        // Servers do not keep a binding alive (RFC 4787 REQ-6 leaves that open).
        if by_program && matches!(packet.way, Side::V6 { .. }) {
            let clock = machine.clock(now);
            machine.program.seen.insert(key, clock);
        }
        let owner = machine.owner(binding.v4.addr);
        if owner != machine.id {
            self.truth.by_copy += 1;
        }
        let who = subscriber(&binding);
        if let Side::V6 { host, protocol, .. } = packet.way {
            let mut flows = self.flows.iter_mut();
            if let Some(flow) = flows.find(|f| (f.host, f.protocol) == (host, protocol)) {
                flow.changed += u32::from(flow.port.is_some_and(|port| port != key));
                (flow.port, flow.passed) = (Some(key), now);
            }
        }
        // Nothing is guaranteed for an owner that lies, or after it was replaced.
        if machine.lies || self.liar == Some(owner.index()) {
            return;
        }
        if let Side::V4 { key, to } = packet.way {
            let is_wrong = to.is_some_and(|to| to != who) && !self.truth.exempt.contains(&key);
            if is_wrong {
                self.error = Some(format!("{key:?}: a packet for {to:x?} reaches {who:x}"));
            }
        }
        if let Err(error) = self.truth.translate(now, key, who, at) {
            self.error = Some(error);
        }
    }

    /// Describes a node that would translate a port for another subscriber, if a packet came now.
    pub(super) fn others_use(&self, key: crate::truth::Key, who: u64) -> Option<String> {
        let users = self.users(key);
        let (machine, other) = users.iter().find(|(_, b)| subscriber(b) != who)?;
        Some(format!(
            "{key:?} is given to {who:x}, and {machine:?} uses it for {:x}",
            subscriber(other)
        ))
    }

    /// Returns the nodes that would translate a port if a packet came now, each with its binding.
    pub(super) fn users(&self, key: crate::truth::Key) -> Vec<(NodeId, Binding)> {
        let mut users = Vec::new();
        for machine in self.machines.iter().filter(|machine| !machine.lies) {
            let owner = machine.owner(key.0.into());
            let clock = machine.clock(self.now);
            let by_program = machine.program.of_port(clock, &key);
            users.extend(by_program.map(|b| (machine.id, b)));
            let process = machine.process.as_ref();
            let is_its =
                |p: &&Process| machine.id != owner && p.gateway.node().may_use(owner, clock);
            if let Some(process) = process.filter(is_its) {
                let mut copies = process.gateway.node().bindings_of(owner);
                let copy = copies.find(|b| key_of(b) == key);
                users.extend(copy.map(|b| (machine.id, b)));
            }
        }
        users
    }
}
