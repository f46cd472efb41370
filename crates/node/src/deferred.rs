// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of new bindings that wait until another gateway knows the binding ([`crate::Config::defer`]).
//!
//! A packet waits for the change that tells of its binding, and so do later packets of that binding: one that passed before would
//! show the binding outside before anybody else has it. Packets of one binding leave in their order.
//!
//! What waits is bounded, in all and for each subscriber. A packet for which there is no room leaves at once.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};

use crate::Moment;

/// For so long a packet waits at most. Another gateway answers within a few milliseconds. One that does not, as it stands still or the link
/// to it is cut, counts as reachable for a second more. Hosts must not notice it: they send again after a second (RFC 6298 section 2).
pub const BOUND: Duration = Duration::from_millis(50);

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bindings, and packets beyond the first of each.
    pub places: usize,
    /// Bytes of packets.
    pub bytes: usize,
}

/// Of all subscribers: as many as 160 000 new bindings a second need when nobody answers, and what they are long at most on an Ethernet.
pub const ALL: Bounds = Bounds {
    places: 8192,
    bytes: 16 << 20,
};
/// Of one subscriber. Two super-packets find room.
pub const SHARE: Bounds = Bounds {
    places: ALL.places / 64,
    bytes: ALL.bytes / 64,
};

/// A node's port.
type Port = (Protocol, Endpoint6);

/// What waits. `P` is a packet.
#[derive(Debug)]
pub struct Deferred<P> {
    /// By the number of the change that tells of the binding. Times rise with numbers.
    waiting: BTreeMap<u64, Waiting<P>>,
    /// Of a port that was bound twice meanwhile, the last change.
    changes: HashMap<Port, u64>,
    shares: HashMap<u128, Used>,
    used: Used,
    bounds: [Bounds; 2],
    /// Packets that left at once since that was last asked.
    passed: u64,
}

/// A binding that no other gateway knows yet.
#[derive(Debug)]
struct Waiting<P> {
    port: Port,
    subscriber: u128,
    until: Moment,
    packets: Vec<P>,
    /// Sessions that programs do not know yet, by their peers. The tables bound them.
    peers: Vec<Endpoint4>,
    used: Used,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Used {
    places: usize,
    bytes: usize,
}

/// A binding that waits no longer.
#[derive(Debug)]
pub struct Released<P> {
    /// The node's port.
    pub port: Port,
    /// Its packets, in their order.
    pub packets: Vec<P>,
    /// The peers of its sessions that programs do not know yet.
    pub peers: Vec<Endpoint4>,
    /// Nobody has acknowledged it: the time was over, or nobody was left who could.
    pub is_unknown: bool,
}

impl<P> Default for Deferred<P> {
    fn default() -> Deferred<P> {
        Deferred::bounded(ALL, SHARE)
    }
}

impl<P> Deferred<P> {
    /// With bounds of all and of each subscriber.
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

    /// A binding begins at `now`; packets of it wait for the change with this number, which is higher than all before. There is a
    /// place for one packet then. If there is no room, none waits.
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

    /// For which change do packets of this port wait?
    pub fn awaits(&self, port: Port) -> Option<u64> {
        // Most packets come while nothing waits.
        match self.changes.is_empty() {
            true => None,
            false => self.changes.get(&port).copied(),
        }
    }

    /// A session of this port has begun, or has changed (`is_new` false). True: programs must not know it yet; they hear of it later.
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

    /// A packet of so many bytes waits for this change. False: it does not, since there is no room or the change is known by now.
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

    /// What leaves: the bindings that are known elsewhere, up to this change, and those whose time is over. None: nobody could know
    /// them, so all leave. The oldest is first.
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

    /// Packets that left at once for want of room, since that was last asked.
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
