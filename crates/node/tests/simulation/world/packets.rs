// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets: of hosts and servers, from gateway to gateway, and what the checker says to their translation.

use super::*;

impl World {
    pub(super) fn step(&mut self) {
        self.dial();
        for at in 0..self.machines.len() {
            let has_left = self.machines[at]
                .process
                .as_ref()
                .is_some_and(|p| p.has_left);
            if has_left {
                // The process ends, and its programs with it.
                self.kill(at, true);
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
            let (port, protocol) = (self.random.below(8), self.random.below(2));
            let owner = self.random.below(self.machines.len());
            let at = self.random.below(self.machines.len());
            let key = (
                address(owner).to_bits(),
                crate::machine::FIRST_PORT + port as u16,
                protocol as u8,
            );
            // A packet to a port that nobody uses at that moment is for nobody.
            let to = self.truth.given.get(&key).copied();
            let to = to.filter(|_| !self.users(key).is_empty());
            let after = self.delay();
            let packet = Packet {
                at,
                from: None,
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
            from: None,
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
        if packet.hops as usize > self.machines.len() + 1 {
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
        // Programs translate what they have sessions of, whatever the process does.
        if let Some(binding) = by_program {
            return self.translate(packet, binding);
        }
        if let Some(node) = self.led_by_program(&packet) {
            return self.forward(packet, node);
        }
        let machine = &mut self.machines[at];
        let stands = machine.frozen_until > now;
        let Some(process) = machine.process.as_mut().filter(|_| !stands) else {
            return;
        };
        let way = match packet.way {
            Side::V6 {
                host,
                protocol,
                opens,
            } => {
                let asked = diolkos_node::Asked {
                    host,
                    protocol,
                    from: packet.from,
                    opens,
                };
                process.gateway.who(clock, asked)
            }
            Side::V4 { key, .. } => {
                let (protocol, v4) = v4(&key);
                process.gateway.who4(clock, v4, protocol, packet.from)
            }
        };
        match way {
            Way::Forward(node) => {
                if let Side::V6 { host, protocol, .. } = packet.way {
                    machine.program.lead_away(host, protocol, node);
                }
                self.forward(packet, node);
            }
            Way::Copy(binding) => {
                let owner = usize::from(binding.v4.addr.octets()[3]);
                // The owner takes its packets, but for this one, which it sent here itself.
                if clock < machine.program.until[owner] {
                    let copies = &mut machine.program.copies;
                    copies.insert(key_of(&binding), (owner, binding));
                    self.translate(packet, binding);
                }
            }
            Way::Open => self.open(packet),
            Way::Here if !machine.lies => {
                self.error = Some(format!("node {at} has lost a binding"));
            }
            Way::Here | Way::Drop(_) => {}
        }
    }

    /// Where a program sends a packet that comes from outside and has no session here. What comes from another gateway is for
    /// the slow path.
    fn led_by_program(&self, packet: &Packet) -> Option<NodeId> {
        if packet.from.is_some() {
            return None;
        }
        let machine = &self.machines[packet.at];
        match packet.way {
            Side::V6 { host, protocol, .. } => {
                let bucket = self.buckets.bucket(self.config.subscriber(host.addr));
                let program = &machine.program;
                program.way_of_host(machine.id, host, protocol, bucket)
            }
            Side::V4 { key, .. } => {
                let owner = NodeId((key.0 & 0xff) as u8);
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
                from: Some(self.machines[packet.at].id),
                hops: packet.hops + 1,
                ..packet
            };
            self.post(after, What::Packet(packet));
        }
    }

    pub(super) fn translate(&mut self, packet: Packet, binding: Binding) {
        let (now, at, key) = (self.now, packet.at, key_of(&binding));
        let machine = &mut self.machines[at];
        if let Some(process) = &mut machine.process {
            // Servers do not keep a binding alive (RFC 4787 REQ-6 leaves that open).
            if machine.frozen_until <= now && matches!(packet.way, Side::V6 { .. }) {
                process.pool.used.entry(key).and_modify(|used| *used = now);
            }
        }
        if binding.v4.addr != address(at) {
            self.truth.by_copy += 1;
        }
        let who = subscriber(&binding);
        let owner = usize::from(binding.v4.addr.octets()[3]);
        if let Side::V6 { host, protocol, .. } = packet.way {
            let mut flows = self.flows.iter_mut();
            if let Some(flow) = flows.find(|f| (f.host, f.protocol) == (host, protocol)) {
                flow.changed += u32::from(flow.port.is_some_and(|port| port != key));
                (flow.port, flow.passed) = (Some(key), now);
            }
        }
        // What holds for an owner that lies, or after it was replaced, is not known.
        if machine.lies || self.liar == Some(owner) {
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

    pub(super) fn open(&mut self, packet: Packet) {
        let Side::V6 { host, protocol, .. } = packet.way else {
            return;
        };
        let (now, at) = (self.now, packet.at);
        let who = (host.addr.to_bits() >> 64) as u64;
        let choice = self.random.next();
        let machine = &mut self.machines[at];
        let clock = machine.clock(now);
        let Some(process) = &mut machine.process else {
            return;
        };
        let mut choices = process.pool.choices(who, protocol as u8);
        if self.random.chance(0.1) {
            // The node knows better which ports rest, and for whom.
            choices.extend(
                process
                    .pool
                    .resting
                    .keys()
                    .filter(|key| key.2 == protocol as u8),
            );
        }
        let Some(&key) = choices.get(choice as usize % choices.len().max(1)) else {
            self.event(at, Event::Short);
            return;
        };
        let binding = Binding {
            protocol,
            v4: v4(&key).1,
            v6: host,
        };
        if !process.gateway.node().may_open(clock, &binding) {
            if !machine.lies && process.pool.free.contains(&key) {
                self.error = Some(format!("node {at} may not open {binding:?}, which is free"));
            }
            return;
        }
        process.pool.take(&binding, now);
        process.gateway.opened(clock, binding);
        machine.program.own.insert(key, binding);
        if self.liar != Some(at) && !self.truth.exempt.contains(&key) {
            let given = self.truth.give(now, key, who);
            self.error = given.err().or_else(|| self.others_use(key, who));
        }
        self.translate(packet, binding);
    }

    /// A node that would translate a port for another subscriber, if a packet came now.
    pub(super) fn others_use(&self, key: crate::truth::Key, who: u64) -> Option<String> {
        let users = self.users(key);
        let (machine, other) = users.iter().find(|(_, b)| subscriber(b) != who)?;
        Some(format!(
            "{key:?} is given to {who:x}, and {machine:?} uses it for {:x}",
            subscriber(other)
        ))
    }

    /// Nodes that would translate a port if a packet came now, and by what.
    pub(super) fn users(&self, key: crate::truth::Key) -> Vec<(NodeId, Binding)> {
        let owner = NodeId((key.0 & 0xff) as u8);
        let mut users = Vec::new();
        for machine in self.machines.iter().filter(|machine| !machine.lies) {
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
