// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs from the IPv4 side that nobody has asked for, kept for `TCP_INCOMING_SYN` in case the node
//! sends one too (simultaneous open, RFC 6146 section 3.5.2.2, state V4 INIT). They stand here and
//! not among the sessions, so that whoever scans the pool fills this store and no other.

use super::clock::Millis;
use super::key::Keys;
use crate::config::Endpoint4;
use std::collections::{HashMap, VecDeque};

/// What an ICMPv4 error can quote is kept; a SYN is hardly ever longer.
const KEPT: usize = 548;

/// The binding's side, and the peer's.
type Key = (Endpoint4, Endpoint4);

/// A SYN that is kept: its number, and its beginning.
type Kept = (u64, Box<[u8]>);

/// The SYNs, in the order of their coming.
#[derive(Debug)]
pub struct Syns {
    kept: HashMap<Key, Kept, Keys>,
    order: VecDeque<(Millis, u64, Key)>,
    next: u64,
    limit: u32,
}

impl Syns {
    pub fn new(keys: Keys, limit: u32) -> Syns {
        Syns {
            kept: HashMap::with_hasher(keys),
            order: VecDeque::new(),
            next: 0,
            limit,
        }
    }

    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps a SYN until `deadline`; of a repeated one the first, and its time. False if there is no
    /// room.
    pub fn keep(&mut self, key: Key, packet: &[u8], deadline: Millis) -> bool {
        // What was taken leaves its place in the order until its time comes.
        if self.kept.contains_key(&key) || !self.has_room(key) {
            return self.kept.contains_key(&key);
        }
        let number = self.next;
        self.next += 1;
        let packet = packet[..packet.len().min(KEPT)].into();
        self.kept.insert(key, (number, packet));
        self.order.push_back((deadline, number, key));
        true
    }

    /// Is such a SYN kept?
    pub fn holds(&self, key: Key) -> bool {
        !self.kept.is_empty() && self.kept.contains_key(&key)
    }

    /// Would [`Syns::keep`] keep it?
    pub fn has_room(&self, key: Key) -> bool {
        self.kept.contains_key(&key) || self.order.len() < self.limit as usize
    }

    /// The node has answered it, if it is kept.
    pub fn remove(&mut self, key: Key) {
        self.kept.remove(&key);
    }

    /// When the time of one is over at the earliest; None if none is kept.
    pub fn next(&self) -> Option<Millis> {
        self.order.front().map(|&(deadline, ..)| deadline)
    }

    /// A SYN whose time is over.
    pub fn expire(&mut self, now: Millis) -> Option<Box<[u8]>> {
        while let Some(&(deadline, number, key)) = self.order.front() {
            if deadline > now {
                return None;
            }
            self.order.pop_front();
            // The same key may have been taken, and kept again under another number.
            if self.kept.get(&key).is_some_and(|kept| kept.0 == number) {
                return self.kept.remove(&key).map(|(_, packet)| packet);
            }
        }
        None
    }
}
