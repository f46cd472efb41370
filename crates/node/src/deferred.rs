// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Defers packets of new bindings until another gateway knows the binding ([`crate::Config::defer`]).
//!
//! A packet waits for the change that announces its binding, and so do later packets of that binding: one that overtook
//! would show the binding outside before another gateway has it. Packets of one binding leave in order.
//!
//! The number of waiting packets is bounded, in total and for each subscriber. A packet for which there is no room
//! leaves at once.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};

use crate::Moment;

/// Maximum time that a packet waits. Another gateway answers within a few milliseconds. One that does not, because it
/// is stopped or its link is cut, counts as reachable for a second more. Hosts must not notice: they retransmit after a
/// second (RFC 6298 section 2).
pub const BOUND: Duration = Duration::from_millis(50);

/// Bounds on what waits.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of bindings, and of packets beyond the first of each.
    pub places: usize,
    /// Bytes of packets.
    pub bytes: usize,
}

/// Bounds for all subscribers: enough for 160 000 new bindings a second that are never acknowledged, with packets of at
/// most Ethernet size.
pub const ALL: Bounds = Bounds {
    places: 8192,
    bytes: 16 << 20,
};
/// Bounds for one subscriber. Two GSO packets fit.
pub const SHARE: Bounds = Bounds {
    places: ALL.places / 64,
    bytes: ALL.bytes / 64,
};

/// The port of an IPv6 host.
type Port = (Protocol, Endpoint6);

/// The packets that wait. `P` is a packet.
#[derive(Debug)]
pub struct Deferred<P> {
    /// By the number of the change that announces the binding. Times rise with numbers.
    waiting: BTreeMap<u64, Waiting<P>>,
    /// The last change of a port, which may have been bound twice meanwhile.
    changes: HashMap<Port, u64>,
    shares: HashMap<u128, Used>,
    used: Used,
    bounds: [Bounds; 2],
    /// Packets that left at once since the last query.
    passed: u64,
}

/// A binding that no other gateway knows yet.
#[derive(Debug)]
struct Waiting<P> {
    port: Port,
    subscriber: u128,
    until: Moment,
    packets: Vec<P>,
    /// Peers of sessions that programs do not know yet. The tables bound their number.
    peers: Vec<Endpoint4>,
    used: Used,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Used {
    places: usize,
    bytes: usize,
}

/// A binding that no longer waits.
#[derive(Debug)]
pub struct Released<P> {
    /// The port of the IPv6 host.
    pub port: Port,
    /// Its packets, in order.
    pub packets: Vec<P>,
    /// The peers of its sessions that programs do not know yet.
    pub peers: Vec<Endpoint4>,
    /// True if no gateway has acknowledged it: its time was over, or there was no gateway left that could.
    pub is_unknown: bool,
}

impl<P> Default for Deferred<P> {
    fn default() -> Deferred<P> {
        Deferred::bounded(ALL, SHARE)
    }
}

impl<P> Deferred<P> {
    /// Creates an empty list with these bounds, in total and for each subscriber.
    fn bounded(all: Bounds, share: Bounds) -> Deferred<P> {
        Deferred {
            waiting: BTreeMap::new(),
            changes: HashMap::new(),
            shares: HashMap::new(),
            used: Used::default(),
            bounds: [all, share],
            passed: 0,
        }
    }

    /// Begins a binding at `now`. Packets of it wait for the change with this number, which is higher than all before.
    /// This reserves room for one packet; if there is no room, no packet waits.
    pub fn begin(&mut self, change: u64, port: Port, subscriber: u128, now: Moment) {
        if !self.has_room(subscriber, 1, 0) {
            self.passed += 1;
            return;
        }
        let waiting = Waiting {
            port,
            subscriber,
            until: now + BOUND,
            packets: Vec::new(),
            peers: Vec::new(),
            used: Used::default(),
        };
        self.waiting.insert(change, waiting);
        self.changes.insert(port, change);
        self.take(change, 1, 0);
    }

    /// Returns the change for which packets of this port wait.
    pub fn awaits(&self, port: Port) -> Option<u64> {
        // Most packets come while nothing waits.
        match self.changes.is_empty() {
            true => None,
            false => self.changes.get(&port).copied(),
        }
    }

    /// Notes a session of this port that has begun, or has changed (`is_new` false). Returns true if programs must not
    /// know it yet; they are told later.
    pub fn keeps(&mut self, port: Port, peer: Endpoint4, is_new: bool) -> bool {
        let change = self.awaits(port);
        let Some(waiting) = change.and_then(|change| self.waiting.get_mut(&change)) else {
            return false;
        };
        if is_new {
            waiting.peers.push(peer);
        }
        true
    }

    /// Holds a packet of `bytes` bytes for this change. Returns false if it need not wait: there is no room, or the
    /// change is already known.
    pub fn hold(&mut self, change: u64, bytes: usize, packet: impl FnOnce() -> P) -> bool {
        let Some(waiting) = self.waiting.get(&change) else {
            return false;
        };
        let places = usize::from(!waiting.packets.is_empty());
        if !self.has_room(waiting.subscriber, places, bytes) {
            self.passed += 1;
            return false;
        }
        self.take(change, places, bytes);
        let waiting = self.waiting.get_mut(&change);
        waiting.expect("it was there").packets.push(packet());
        true
    }

    /// Returns the oldest binding that may leave: those that are known elsewhere, up to the change `known`, and those
    /// whose time is over. If `known` is None, no gateway could know them, and all leave.
    pub fn release(&mut self, known: Option<u64>, now: Moment) -> Option<Released<P>> {
        let first = self.waiting.first_entry()?;
        let is_known = known.is_some_and(|known| *first.key() <= known);
        let is_over = known.is_none() || now >= first.get().until;
        if !is_known && !is_over {
            return None;
        }
        let (change, gone) = first.remove_entry();
        if self.changes.get(&gone.port) == Some(&change) {
            self.changes.remove(&gone.port);
        }
        let less = |used: &mut Used| {
            used.places -= gone.used.places;
            used.bytes -= gone.used.bytes;
            *used == Used::default()
        };
        less(&mut self.used);
        if self.shares.get_mut(&gone.subscriber).is_some_and(less) {
            self.shares.remove(&gone.subscriber);
        }
        Some(Released {
            port: gone.port,
            packets: gone.packets,
            peers: gone.peers,
            is_unknown: !is_known,
        })
    }

    /// Returns, and resets, the number of packets that left at once because there was no room.
    pub fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    fn has_room(&self, subscriber: u128, places: usize, bytes: usize) -> bool {
        let its = self.shares.get(&subscriber).copied().unwrap_or_default();
        let fits = |(used, bounds): (Used, Bounds)| {
            used.places + places <= bounds.places && used.bytes + bytes <= bounds.bytes
        };
        [self.used, its].into_iter().zip(self.bounds).all(fits)
    }

    fn take(&mut self, change: u64, places: usize, bytes: usize) {
        let Some(waiting) = self.waiting.get_mut(&change) else {
            return;
        };
        let share = self.shares.entry(waiting.subscriber).or_default();
        for used in [&mut self.used, share, &mut waiting.used] {
            used.places += places;
            used.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests;
