// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node leaves or comes back; which nodes are alive.

use super::Ownership;
use crate::entry::NodeId;
use crate::Moment;

impl Ownership {
    /// From now on this node takes no slices and hands over those it has; at the end it leaves.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Takes [`Ownership::leave`] back: the node takes its share again, as one that has left or that was about to.
    pub fn stay(&mut self) {
        self.is_leaving = false;
    }

    /// The node has left: it has no slices, and the engine knows.
    pub fn has_left(&self) -> bool {
        self.is_leaving && self.life.is_none()
    }

    /// Whether a node lives, by its last known entry.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.peers.get(node).is_some_and(|seen| seen.entry.is_alive)
    }

    /// When the engine's feed has last said something new of a node.
    pub fn last_heard(&self, node: NodeId) -> Option<Moment> {
        self.peers.get(node).map(|seen| seen.since)
    }
}
