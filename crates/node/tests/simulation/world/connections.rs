// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections between gateways: messages that are sent, arrive and stall, and the beginning and
//! end of connections.

use super::*;

impl World {
    pub(super) fn send(&mut self, at: usize, id: u64, bytes: Vec<u8>) {
        let bytes = match self.machines[at].lies {
            true => lies::instead(self, at, bytes),
            false => bytes,
        };
        let bytes = self.machines[at].runs.version.message(bytes);
        let after = self.delay() + (self.random.unit() * (self.slowness * MS) as f64) as u64;
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        let to = usize::from(connection.ends[0].0 == at);
        if !connection.open[1 - to] {
            return;
        }
        let arrives = connection.last[to].max(now + after);
        connection.last[to] = arrives;
        connection.bytes[to] += bytes.len();
        connection.queues[to].push_back(Item::Bytes(bytes));
        self.post(arrives - now, What::Arrival(id, to));
    }

    /// Closes one end of a connection. Messages in flight to the other end may still arrive, or
    /// not.
    pub fn close(&mut self, id: u64, end: usize) {
        let (lost, after) = (self.random.chance(0.5), self.delay());
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        connection.open[end] = false;
        if lost {
            connection.queues[1 - end].clear();
        }
        connection.queues[1 - end].push_back(Item::End);
        let arrives = connection.last[1 - end].max(now + after);
        self.post(arrives - now, What::Arrival(id, 1 - end));
    }

    /// Has both ends find a connection dead, at different times.
    pub fn reset(&mut self, id: u64) {
        for end in 0..2 {
            let after = (self.random.unit() * 2.0 * SECOND as f64) as u64;
            self.lose(id, end, after);
        }
    }

    pub(super) fn lose(&mut self, id: u64, end: usize, after: u64) {
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut connection.open[end]) {
            let (at, number) = connection.ends[end];
            let peer = connection.ends[1 - end].0;
            self.post(after, What::ForProcess(at, number, Inner::Lost(peer, id)));
        }
    }

    pub(super) fn arrive(&mut self, id: u64, to: usize) {
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        let (from, (at, number)) = (connection.ends[1 - to].0, connection.ends[to]);
        if connection.queues[to].is_empty() {
            return;
        }
        if !self.net.passes(now, from, at) {
            if let Some(connection) = self.net.connections.get_mut(&id) {
                connection.stuck = connection.stuck.or(Some(now));
            }
            return self.post(100 * MS, What::Arrival(id, to));
        }
        let Some(connection) = self.net.connections.get_mut(&id) else {
            return;
        };
        connection.stuck = None;
        match connection.queues[to].pop_front() {
            Some(Item::Bytes(bytes)) => {
                connection.bytes[to] -= bytes.len().min(connection.bytes[to]);
                self.tell(at, number, Inner::Bytes(from, id, bytes));
            }
            Some(Item::End) if std::mem::take(&mut connection.open[to]) => {
                self.tell(at, number, Inner::Lost(from, id));
            }
            _ => {}
        }
    }

    pub(super) fn rooms(&mut self, at: usize) {
        let mut rooms = Vec::new();
        for (id, c) in &self.net.connections {
            if let Some(end) = (0..2).find(|&end| c.ends[end].0 == at && c.open[end]) {
                let peer = NodeId(c.ends[1 - end].0 as u8);
                rooms.push((peer, *id, c.capacity.saturating_sub(c.bytes[1 - end])));
            }
        }
        for (peer, connection, room) in rooms {
            let event = Event::Room {
                peer,
                connection,
                room,
            };
            self.event(at, event);
        }
    }

    pub(super) fn dial(&mut self) {
        let count = self.machines.len();
        let now = self.now;
        self.net
            .connections
            .retain(|_, c| c.open != [false; 2] || c.queues.iter().any(|q| !q.is_empty()));
        let stuck = self.net.connections.iter();
        let stuck = stuck.filter(|(_, c)| c.stuck.is_some_and(|since| now > since + STUCK));
        for id in stuck.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.reset(id);
        }
        for (one, other) in (0..count).flat_map(|a| (0..a).map(move |b| (b, a))) {
            let is_ready = |at: usize| {
                let machine = &self.machines[at];
                let process = machine.process.as_ref().filter(|p| !p.has_left)?;
                (machine.frozen_until <= now).then_some(process.number)
            };
            let (Some(first), Some(second)) = (is_ready(one), is_ready(other)) else {
                continue;
            };
            let passes = self.net.passes(now, one, other) && self.net.passes(now, other, one);
            let has = self.net.has(one, other) && self.net.has(other, one);
            let hurry = if self.is_restless { 0.3 } else { 0.8 };
            if !passes || has || !self.random.chance(hurry) {
                continue;
            }
            self.net.count += 1;
            let id = self.net.count;
            let connection = Connection {
                ends: [(one, first), (other, second)],
                open: [true; 2],
                queues: [VecDeque::new(), VecDeque::new()],
                bytes: [0; 2],
                // Some take a few messages at a time.
                capacity: 70
                    + self
                        .random
                        .below(if self.slowness > 100 { 200 } else { 3000 }),
                last: [now; 2],
                stuck: None,
            };
            self.net.connections.insert(id, connection);
            for (at, number, peer, end) in [(one, first, other, 0), (other, second, one, 1)] {
                let after = self.delay();
                if let Some(connection) = self.net.connections.get_mut(&id) {
                    connection.last[end] = now + after + 1;
                }
                self.post(
                    after,
                    What::ForProcess(at, number, Inner::Connected(peer, id)),
                );
            }
        }
    }
}
