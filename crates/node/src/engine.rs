// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to the engine (the linearizable store of records) and their answers; reachability of nodes; and the end of
//! a node.

use crate::config::NodeId;
use crate::interface::{Action, Report};
use crate::message::Status;
use crate::node::Node;
use crate::record::{Answer, Outcome, Record, Request};
use crate::Moment;
use std::time::Duration;

/// Interval between reads of the record of an owner that is not reachable. Slow answers count, too.
const AGAIN: Duration = Duration::from_millis(500);

impl Node {
    /// Requests its own record, and those of owners whose copies it uses or may have to use soon.
    pub(crate) fn look_at_engine(&mut self, now: Moment, out: &mut Vec<Action>) {
        let token = self.token();
        if let Some(request) = self.own.ask(now, token) {
            out.push(Action::Ask { token, request });
        }
        if self.own.superseded && self.leaves.is_none() {
            self.leaves = Some(now);
            out.push(Action::Report(Report::Superseded));
        }
        let proof = self.config.timing.proof;
        for owner in self.others() {
            let peer = &self.peers[owner.index()];
            let is_provable = peer.tag.is_some_and(|tag| tag.engine != 0) && !peer.is_void;
            let is_needed = !peer.is_up && peer.deadline < now + proof * 2 / 3;
            // An answer that proves nothing comes at once, and is no reason to ask again at once.
            let is_asked = peer.looked.is_some_and(|looked| now < looked + AGAIN);
            if is_provable && is_needed && !is_asked {
                let token = self.token();
                let peer = &mut self.peers[owner.index()];
                peer.looked = Some(now);
                let proofs = &mut peer.proofs;
                proofs.retain(|(_, begun)| now < *begun + proof);
                proofs.push_back((token, now));
                let request = Request::Read(owner);
                out.push(Action::Ask { token, request });
            }
        }
    }

    /// Handles the record of an owner. It proves something only in the engine in which the owner would declare copies
    /// void.
    pub(crate) fn proved(
        &mut self,
        owner: NodeId,
        begun: Moment,
        answer: &Answer,
        out: &mut Vec<Action>,
    ) {
        let (me, proof) = (self.config.me, self.config.timing.proof);
        let peer = &mut self.peers[owner.index()];
        let Some(tag) = peer.tag else { return };
        let Outcome::Value(Some((_, bytes))) = &answer.outcome else {
            return;
        };
        let Some(record) = Record::decode(bytes) else {
            return;
        };
        if self.admission.since.is_none()
            || answer.engine != tag.engine
            || record.epoch < tag.mark.epoch
        {
            return;
        }
        if record.void_of(me) >= tag.mark {
            peer.is_void = true;
            return;
        }
        let until = begun + proof;
        if until > peer.deadline {
            peer.deadline = until;
            out.push(Action::SetDeadline { owner, until });
        }
    }

    /// Notes which nodes have answered lately.
    pub(crate) fn look_around(&mut self, now: Moment, out: &mut Vec<Action>) {
        let within = self.config.timing.reachable;
        let mut has_changed = false;
        for peer in &mut self.peers {
            let link = peer.link.as_ref();
            let echo = link.and_then(|link| link.echo);
            let is_up = echo.is_some_and(|echo| now < echo + within);
            let serves = is_up && link.is_some_and(|link| link.status == Status::Serving);
            has_changed |= (is_up, serves) != (peer.is_up, peer.serves);
            (peer.is_up, peer.serves) = (is_up, serves);
        }
        if has_changed {
            out.push(Action::Homes);
        }
    }

    /// Returns true if this node leaves and the others know what they have to, or have not answered for long.
    pub(crate) fn is_told(&self, now: Moment) -> bool {
        let Some(since) = self.leaves else {
            return false;
        };
        let (head, timing) = (self.log.head(), &self.config.timing);
        let mut up = self.peers.iter().filter(|peer| peer.is_up);
        (now > since + timing.beat && up.all(|peer| peer.acked >= head))
            || now >= since + timing.patience / 2
    }

    /// Waits, for a bounded time, for what the others and the engine still have to be told.
    pub(crate) fn leave(&mut self, now: Moment, out: &mut Vec<Action>) {
        let Some(since) = self.leaves.filter(|_| !self.has_left) else {
            return;
        };
        let has_said = self.is_told(now) && (self.own.has_left() || self.own.superseded);
        if has_said || now >= since + self.config.timing.patience {
            self.has_left = true;
            for peer in self.others() {
                self.drop_link(peer, out);
            }
            out.push(Action::Left);
        }
    }
}
