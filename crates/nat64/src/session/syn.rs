// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unsolicited SYNs from the IPv4 side, held for `TCP_INCOMING_SYN` in case the node also sends one
//! (simultaneous open, RFC 6146 section 3.5.2.2, state V4 INIT). They are stored apart from the
//! sessions, so that a scan of the pool fills this store only.

use super::clock::Millis;
use crate::config::Endpoint4;
use crate::key::Keys;
use std::collections::{HashMap, VecDeque};

/// Number of bytes kept: as many as an ICMPv4 error can quote. A SYN is rarely longer.
const KEPT: usize = 548;

/// The IPv4 endpoint of the binding, and the peer.
type Key = (Endpoint4, Endpoint4);

/// A held SYN: its number and its beginning.
type Kept = (u64, Box<[u8]>);

/// The held SYNs, in order of arrival.
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

    /// Holds a SYN until `deadline`. For a repeated SYN, the first one and its deadline stay.
    /// Returns false if there is no room.
    pub fn keep(&mut self, key: Key, packet: &[u8], deadline: Millis) -> bool {
        // A removed SYN keeps its place in the order until its deadline.
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

    /// Returns true if a SYN with this key is held.
    pub fn holds(&self, key: Key) -> bool {
        !self.kept.is_empty() && self.kept.contains_key(&key)
    }

    /// Returns true if [`Syns::keep`] would hold it.
    pub fn has_room(&self, key: Key) -> bool {
        self.kept.contains_key(&key) || self.order.len() < self.limit as usize
    }

    /// Removes a SYN that the node has answered, if it is held.
    pub fn remove(&mut self, key: Key) {
        self.kept.remove(&key);
    }

    /// The earliest deadline. None if no SYN is held.
    pub fn next(&self) -> Option<Millis> {
        self.order.front().map(|&(deadline, ..)| deadline)
    }

    /// Removes and returns a SYN whose deadline has passed.
    pub fn expire(&mut self, now: Millis) -> Option<Box<[u8]>> {
        while let Some(&(deadline, number, key)) = self.order.front() {
            if deadline > now {
                return None;
            }
            self.order.pop_front();
            // The same key may have been removed, and held again with another number.
            if self.kept.get(&key).is_some_and(|kept| kept.0 == number) {
                return self.kept.remove(&key).map(|(_, packet)| packet);
            }
        }
        None
    }
}
