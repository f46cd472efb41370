// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a node, for an operator. Nothing here changes anything.

use std::time::Duration;

use crate::config::NodeId;
use crate::filed::Filed;
use crate::message::Status;
use crate::node::Node;
use crate::Moment;

/// The state of another node, as this one sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// True if there is a connection with it.
    pub is_connected: bool,
    /// The state that it reports on that connection; None before it has said hello with the same file.
    pub status: Option<Status>,
    /// True if it has answered lately.
    pub is_reachable: bool,
    /// True if packets of its bindings should be sent to it.
    pub takes: bool,
    /// True if it is the home of new subscribers.
    pub serves: bool,
    /// True if the copies that it had of this node's bindings before this process are known, or void.
    pub is_settled: bool,
    /// Number of copies of its bindings that this node has.
    pub copies: u32,
    /// How long these may still be used; None if they may not be used.
    pub usable_for: Option<Duration>,
    /// True if it has declared them void.
    pub is_void: bool,
    /// Number of changes of this node's bindings that it has not acknowledged; None if it has no copies.
    pub behind: Option<u64>,
    /// For how long resting ports have waited for its acknowledgement; None if none waits.
    pub blocks_for: Option<Duration>,
    /// What its record says of its file; of a connected node it may be old.
    pub filed: Filed,
    /// The engine that it says it uses.
    pub engine: Option<u64>,
    /// The file for which it says that it is armed.
    pub armed: Option<u64>,
}

impl Node {
    /// Returns the state of another node; the default for this node, or for an unknown one.
    pub fn standing(&self, peer: NodeId, now: Moment) -> Standing {
        let is_other = peer != self.me();
        let Some(its) = self.peers.get(peer.index()).filter(|_| is_other) else {
            return Standing::default();
        };
        let link = its.link.as_ref();
        let greeted = link.filter(|link| link.hello.is_some());
        let holds = its.serial.is_some() || its.before.is_some();
        Standing {
            is_connected: link.is_some(),
            status: greeted.map(|link| link.status),
            is_reachable: its.is_up,
            takes: its.takes(now),
            serves: its.serves,
            is_settled: its.settled,
            copies: its.copies.len(),
            usable_for: its.may_use(now).then(|| its.deadline.saturating_sub(now)),
            is_void: its.is_void,
            behind: holds.then(|| self.log.head().saturating_sub(its.acked)),
            blocks_for: its.waited.map(|since| now.saturating_sub(since)),
            filed: self.admission.of(peer),
            engine: greeted
                .map(|link| link.engine.0)
                .filter(|engine| *engine != 0),
            armed: greeted.map(|link| link.armed).filter(|file| *file != 0),
        }
    }

    /// Returns the nodes that this one waits for before it opens bindings: first those that must have its file, and
    /// then those that have not reported their copies of its bindings.
    pub fn waits_for(&self) -> impl Iterator<Item = NodeId> + '_ {
        let expects = self.expects().next().is_some();
        let is_open = move |node: &NodeId| {
            let its = &self.peers[node.index()];
            match expects {
                true => its.expected,
                false => !its.settled || (!self.has_read && its.reading.is_some()),
            }
        };
        self.others().filter(is_open)
    }

    /// Returns the hash of its file ([`crate::Config::file`]).
    pub fn file(&self) -> u64 {
        self.config.file()
    }

    /// Returns true if it attracts packets.
    pub fn attracts(&self) -> bool {
        self.attracts
    }

    /// Returns the name of the engine that has this node's record, and the number of this incarnation there; None
    /// before it has one.
    pub fn engine(&self) -> Option<(u64, u64)> {
        let own = &self.own;
        (own.engine != 0).then_some((own.engine, own.epoch))
    }
}
