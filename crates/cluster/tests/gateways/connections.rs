// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections between gateways: each direction keeps its order, has a delay, stalls while the link is cut, and has
//! limited capacity.

use std::collections::VecDeque;

use diolkos_node::{Event, NodeId};

use crate::world::{What, World, MS, SECOND};

/// Time after which a stalled link ends a connection.
const STUCK: u64 = 8 * SECOND;

pub struct Connection {
    /// The machines at its ends, and their processes.
    ends: [(usize, u64); 2],
    /// True while this end has neither closed it nor learned that it is gone.
    open: [bool; 2],
    /// Messages in flight to each end; None is the end of the connection.
    queues: [VecDeque<Option<Vec<u8>>>; 2],
    capacity: usize,
    /// Arrival time of the last message at each end.
    last: [u64; 2],
    stuck: Option<u64>,
}

impl Connection {
    fn end_of(&self, at: usize, process: u64) -> Option<usize> {
        (0..2).find(|&end| self.ends[end] == (at, process))
    }

    fn room(&self, end: usize) -> usize {
        let waits = self.queues[1 - end].iter().flatten().map(Vec::len);
        self.capacity.saturating_sub(waits.sum())
    }
}

impl World {
    pub fn send(&mut self, at: usize, process: u64, id: u64, bytes: Vec<u8>) {
        let after = self.delay();
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(end) = connection.end_of(at, process) else {
            return;
        };
        if !connection.open[end] {
            return;
        }
        let to = 1 - end;
        let arrives = connection.last[to].max(now + after);
        connection.last[to] = arrives;
        connection.queues[to].push_back(Some(bytes));
        self.post(arrives - now, What::Arrival(id, to));
    }

    /// Closes a connection by a process. Messages in flight to the other end may still arrive, or not.
    pub fn close(&mut self, at: usize, process: u64, id: u64) {
        let (is_lost, after) = (self.random.chance(0.5), self.delay());
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(end) = connection.end_of(at, process) else {
            return;
        };
        connection.open[end] = false;
        let to = 1 - end;
        if is_lost {
            connection.queues[to].clear();
        }
        connection.queues[to].push_back(None);
        let arrives = connection.last[to].max(now + after);
        self.post(arrives - now, What::Arrival(id, to));
    }

    /// Closes all connections of a process that ends.
    pub fn close_all(&mut self, at: usize, process: u64) {
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for id in all {
            self.close(at, process, id);
        }
    }

    /// Has both ends find a connection dead, at different times.
    pub fn reset(&mut self, id: u64) {
        for end in 0..2 {
            let after = (self.random.unit() * 2.0 * SECOND as f64) as u64;
            self.post(after, What::Dead(id, end));
        }
    }

    pub fn reset_some(&mut self) {
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for id in all {
            if self.random.chance(0.5) {
                self.reset(id);
            }
        }
    }

    pub fn find_dead(&mut self, id: u64, end: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut connection.open[end]) {
            let ((at, process), peer) = (connection.ends[end], connection.ends[1 - end].0);
            self.tell(at, process, crate::world::Inner::Lost(peer, id));
        }
    }

    pub fn arrive(&mut self, id: u64, to: usize) {
        let now = self.now;
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (from, (at, process)) = (connection.ends[1 - to].0, connection.ends[to]);
        let passes = self.passes(from, at);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.queues[to].is_empty() {
            return;
        }
        if !passes {
            connection.stuck = connection.stuck.or(Some(now));
            return self.post(100 * MS, What::Arrival(id, to));
        }
        connection.stuck = None;
        match connection.queues[to].pop_front().flatten() {
            Some(bytes) if connection.open[to] => {
                self.tell(at, process, crate::world::Inner::Bytes(from, id, bytes));
            }
            Some(_) => {}
            None => self.find_dead(id, to),
        }
    }

    /// Tells a process the capacity left on its connections.
    pub fn rooms(&mut self, at: usize) {
        let Some(process) = self.machines[at].process.as_ref().map(|its| its.number) else {
            return;
        };
        let rooms = self.connections.iter().filter_map(|(id, connection)| {
            let end = connection.end_of(at, process)?;
            let peer = NodeId(connection.ends[1 - end].0 as u8);
            connection.open[end].then(|| (peer, *id, connection.room(end)))
        });
        for (peer, connection, room) in rooms.collect::<Vec<_>>() {
            let event = Event::Room {
                peer,
                connection,
                room,
            };
            self.event(at, Some(event));
        }
    }

    /// Has the processes connect.
    pub fn dial(&mut self) {
        let (now, count) = (self.now, self.machines.len());
        let is_over =
            |its: &Connection| its.open == [false; 2] && its.queues.iter().all(VecDeque::is_empty);
        self.connections.retain(|_, its| !is_over(its));
        let stuck = self.connections.iter();
        let stuck = stuck.filter(|(_, its)| its.stuck.is_some_and(|since| now > since + STUCK));
        for id in stuck.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.reset(id);
        }
        for (one, other) in (0..count).flat_map(|a| (0..a).map(move |b| (b, a))) {
            let is_ready = |at: usize| {
                let machine = &self.machines[at];
                let process = machine.process.as_ref()?;
                (machine.frozen_until <= now).then_some((at, process.number))
            };
            let (Some(first), Some(second)) = (is_ready(one), is_ready(other)) else {
                continue;
            };
            let passes = self.passes(one, other) && self.passes(other, one);
            let has = self
                .connections
                .values()
                .any(|its| its.ends == [first, second] && its.open == [true; 2]);
            if !passes || has || !self.random.chance(0.5) {
                continue;
            }
            self.count += 1;
            let id = self.count;
            let capacity = [70, 400, 4000][self.random.below(3)];
            let mut connection = Connection {
                ends: [first, second],
                open: [true; 2],
                queues: Default::default(),
                capacity,
                last: [0; 2],
                stuck: None,
            };
            let mut ends = Vec::new();
            for end in 0..2 {
                let after = self.delay();
                connection.last[end] = now + after + 1;
                ends.push(after);
            }
            self.connections.insert(id, connection);
            for (end, after) in ends.into_iter().enumerate() {
                self.post(after, What::Connected(id, end));
            }
        }
    }

    pub fn connected(&mut self, id: u64, end: usize) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let ((at, process), peer) = (connection.ends[end], connection.ends[1 - end].0);
        if connection.open[end] {
            let inner = crate::world::Inner::Connected(peer, id, connection.capacity);
            self.tell(at, process, inner);
        }
    }
}
