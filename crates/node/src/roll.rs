// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes all nodes to another file together.
//!
//! The operator of each node *arms* it for a file. A node announces in its beats for which file it is armed. It changes
//! to the file ([`Action::GoOver`]) when all others of its own file are armed for the same one, or have changed to it.
//! Then its caller has it leave, and starts a process with the new file that *expects* the others ([`Node::expect`]).
//!
//! # Invariants
//!
//! **A node with the new file opens no binding while one with the old file runs**, however late or lost messages are: a
//! process that expects others opens nothing before each of them has said hello with the same file, and a node that has
//! changed does not come back by itself. If one node misses messages, is disarmed or runs out of time, the others wait
//! for it, and name it.
//!
//! **No message of another node makes this one change, unless its own operator has armed it.**
//!
//! A node that is not in the new file cannot say hello to one that has the file. So no node changes while such a node
//! is connected: the operator stops it first.

use crate::armed::Armed;
use crate::config::NodeId;
use crate::filed::Filed;
use crate::interface::Action;
use crate::node::Node;
use crate::Moment;

/// The reason why a node is not ready to change together with this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unready {
    /// It does not answer.
    Away,
    /// It is not armed.
    Unarmed,
    /// It is armed for another file, or has another one.
    Otherwise,
    /// It is not in the new file, and it runs.
    Remains,
}

impl Node {
    /// Opens no bindings until each of these nodes has said hello with this one's file. Call it before the first event.
    pub fn expect(&mut self, nodes: &[NodeId]) {
        for node in nodes.iter().filter(|node| **node != self.config.me) {
            if let Some(peer) = self.peers.get_mut(node.index()) {
                peer.expected = true;
            }
        }
    }

    /// Returns the nodes that this one expects.
    pub fn expects(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.others()
            .filter(|node| self.peers[node.index()].expected)
    }

    /// Returns what this node is armed for.
    pub fn armed(&self) -> Option<&Armed> {
        self.armed.as_ref()
    }

    /// Returns the nodes that prevent this one from changing, and the reasons; none if it is not armed.
    pub fn unready(&self) -> impl Iterator<Item = (NodeId, Unready)> + '_ {
        let armed = self.armed.iter();
        armed.flat_map(|armed| {
            self.others()
                .filter_map(|node| Some((node, self.lacks(node, armed)?)))
        })
    }

    pub(crate) fn arm(&mut self, armed: Armed) {
        match &mut self.armed {
            Some(before) if before.goes => {}
            // The operator repeats the command, which extends the time.
            Some(before) if before.file == armed.file => before.until = armed.until,
            _ => self.armed = Some(armed),
        }
    }

    pub(crate) fn disarm(&mut self) {
        if self.armed.as_ref().is_some_and(|armed| !armed.goes) {
            self.armed = None;
        }
    }

    /// Changes to the file, if all others are ready and have had the time to learn that this one is.
    pub(crate) fn go_over(&mut self, now: Moment, out: &mut Vec<Action>) {
        let are_ready = self.unready().next().is_none();
        let Some(armed) = self.armed.as_mut().filter(|armed| !armed.goes) else {
            return;
        };
        if now >= armed.until {
            return self.disarm();
        }
        armed.since = are_ready.then(|| armed.since.unwrap_or(now));
        let is_sure = |since| now >= since + self.config.timing.reachable;
        if armed.since.is_some_and(is_sure) {
            armed.goes = true;
            out.push(Action::GoOver(armed.file));
        }
    }

    fn lacks(&self, node: NodeId, armed: &Armed) -> Option<Unready> {
        let its = &self.peers[node.index()];
        let greeted = its.link.as_ref().filter(|link| link.hello.is_some());
        if armed.without.contains(&node) {
            // A record that says that it serves would hold up all others.
            let is_gone = greeted.is_none() && self.admission.of(node) == Filed::Nothing;
            return (!is_gone).then_some(Unready::Remains);
        }
        let (file, is_here) = match (its.over, greeted) {
            (Some(file), _) => (file, true),
            (None, Some(link)) => (link.armed, its.is_up),
            (None, None) => return Some(Unready::Away),
        };
        match file {
            file if file == armed.file && is_here => None,
            _ if !is_here => Some(Unready::Away),
            0 => Some(Unready::Unarmed),
            _ => Some(Unready::Otherwise),
        }
    }
}
