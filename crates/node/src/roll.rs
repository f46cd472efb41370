// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All nodes go over to another file together.
//!
//! The operator of each node *arms* it for a file. A node says in its beats for which file it is armed. It goes over ([`Action::GoOver`])
//! when all others of its own file are armed for the same one, or have gone over to it. Then its caller has it leave, and starts a process of the
//! new file that *expects* the others ([`Node::expect`]).
//!
//! # What never happens
//!
//! **A node with the new file opens no binding while one with the old file runs**, however late or lost messages are: a process that expects others
//! opens nothing before each of them has said hello with the same file, and a node that has gone over does not come back by itself.
//! So it is enough that one node hears too little, is told to disarm or runs out of time: the others wait for it, and name it.
//!
//! **Nothing that another node says makes this one go over, unless its own operator has armed it.**
//!
//! A node that the new file does not have cannot say hello to one that has it. So nobody goes over while it is connected: the operator stops it
//! first.

use crate::admission::Filed;
use crate::config::NodeId;
use crate::interface::Action;
use crate::node::Node;
use crate::Moment;

/// What this node is armed for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Armed {
    /// The file ([`crate::Config::file`]).
    pub file: u64,
    /// It is not armed from this moment on, unless it goes over before.
    pub until: Moment,
    /// Nodes of this one's file that are not in the new one.
    pub without: Vec<NodeId>,
    /// Since when all others are ready.
    since: Option<Moment>,
    /// It goes over.
    goes: bool,
}

/// Why a node is not ready to go over with this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unready {
    /// It does not answer.
    Away,
    /// It is not armed.
    Unarmed,
    /// It is armed for another file, or has another one.
    Otherwise,
    /// The new file does not have it, and it runs.
    Remains,
}

impl Armed {
    /// For a file, which does not have some of the nodes of this one.
    pub fn new(file: u64, until: Moment, without: Vec<NodeId>) -> Armed {
        Armed {
            file,
            until,
            without,
            since: None,
            goes: false,
        }
    }

    /// It goes over, and nothing keeps it from that.
    pub fn goes(&self) -> bool {
        self.goes
    }
}

impl Node {
    /// Opens no bindings until each of these nodes has said hello with this one's file. To be told before the first event.
    pub fn expect(&mut self, nodes: &[NodeId]) {
        for node in nodes.iter().filter(|node| **node != self.config.me) {
            if let Some(peer) = self.peers.get_mut(node.index()) {
                peer.expected = true;
            }
        }
    }

    /// Nodes that this one expects.
    pub fn expects(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.others()
            .filter(|node| self.peers[node.index()].expected)
    }

    /// What this node is armed for.
    pub fn armed(&self) -> Option<&Armed> {
        self.armed.as_ref()
    }

    /// Nodes that keep this one from going over, and why; none if it is not armed.
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
            // The operator says it again: it has more time.
            Some(before) if before.file == armed.file => before.until = armed.until,
            _ => self.armed = Some(armed),
        }
    }

    pub(crate) fn disarm(&mut self) {
        if self.armed.as_ref().is_some_and(|armed| !armed.goes) {
            self.armed = None;
        }
    }

    /// Goes over, if all others are ready and have had the time to hear that this one is.
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
