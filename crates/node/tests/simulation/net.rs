// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections between gateways: each direction keeps its order, stalls while the link is cut, and has limited
//! capacity. Connections of one pair are independent, so that messages of an old one may arrive after a new one is up.

use std::collections::{BTreeMap, VecDeque};

pub enum Item {
    Bytes(Vec<u8>),
    /// The other end is gone.
    End,
}

pub struct Connection {
    /// The machines at its ends, and their processes.
    pub ends: [(usize, u64); 2],
    /// True while this end has neither closed it nor learned that it is gone.
    pub open: [bool; 2],
    /// Messages in flight to each end.
    pub queues: [VecDeque<Item>; 2],
    pub bytes: [usize; 2],
    pub capacity: usize,
    /// Arrival time of the last item at each end.
    pub last: [u64; 2],
    /// Since when a direction is stalled.
    pub stuck: Option<u64>,
}

#[derive(Default)]
pub struct Net {
    pub connections: BTreeMap<u64, Connection>,
    pub count: u64,
    /// By sender and recipient: nothing passes until then.
    pub cut: BTreeMap<(usize, usize), u64>,
}

impl Net {
    pub fn passes(&self, now: u64, from: usize, to: usize) -> bool {
        self.cut.get(&(from, to)).is_none_or(|until| now >= *until)
    }

    /// Returns true if this machine has an open connection with the other one.
    pub fn has(&self, one: usize, other: usize) -> bool {
        self.connections.values().any(|c| {
            let side = |me: usize, you: usize| c.ends[me].0 == one && c.ends[you].0 == other;
            (side(0, 1) && c.open[0]) || (side(1, 0) && c.open[1])
        })
    }
}
