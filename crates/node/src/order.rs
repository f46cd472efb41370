// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order in which nodes are the home of a subscriber: a keyed hash of the prefix selects a bucket, and rendezvous
//! hashing gives each bucket an order of all nodes of the file. If a node fails, only its own subscribers move.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::config::{Config, NodeId};

/// Number of buckets.
pub const BUCKETS: usize = 1024;

/// The order of all nodes, for each bucket.
#[derive(Clone, Debug)]
pub struct Order {
    key: [u64; 2],
    nodes: usize,
    rows: Vec<NodeId>,
}

impl Order {
    /// Computes the order for the nodes of a file. It depends on their names, not on their positions in the file.
    pub fn new(config: &Config) -> Order {
        let nodes = config.members.len();
        let mut rows = Vec::with_capacity(BUCKETS * nodes);
        for bucket in 0..BUCKETS as u32 {
            let weight = |node: NodeId| {
                // No secret is needed: the order of a bucket reveals nothing about subscribers.
                let mut hasher = SipHasher13::new_with_keys(0, 0);
                hasher.write(&bucket.to_be_bytes());
                hasher.write(config.members[node.index()].name.as_bytes());
                hasher.finish()
            };
            let mut row: Vec<NodeId> = (0..nodes).map(|at| NodeId(at as u8)).collect();
            row.sort_by_key(|&node| (weight(node), node));
            rows.extend(row);
        }
        Order {
            key: config.key,
            nodes,
            rows,
        }
    }

    /// Returns the bucket of a subscriber's prefix.
    pub fn bucket(&self, subscriber: u128) -> usize {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write(&subscriber.to_be_bytes());
        hasher.finish() as usize % BUCKETS
    }

    /// Returns the nodes in the order in which they are the home of a bucket.
    pub fn row(&self, bucket: usize) -> &[NodeId] {
        &self.rows[bucket * self.nodes..(bucket + 1) * self.nodes]
    }

    /// Returns the position of a node in the order of a bucket.
    pub fn place(&self, bucket: usize, node: NodeId) -> usize {
        let place = self.row(bucket).iter().position(|&other| other == node);
        place.unwrap_or(self.nodes)
    }
}
