// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a port may be given to another subscriber.
//!
//! # The rule, and why it holds
//!
//! Node A owns a port whose binding for subscriber X ended at `c` on A's clock. A gives it to another subscriber at `f`
//! only if one of these holds for each other node B of the file ([`Node::is_done`]):
//!
//! 1. **B has acknowledged the close.** B applies A's messages in order, ends its session of a copy before it
//!    acknowledges, and acknowledges only after a complete snapshot, from which all older copies were swept. So B has
//!    no such copy, and only A could send it one.
//! 2. **B has no copies:** none of an earlier incarnation of A (*settled*, below), and A has not sent it the end of a
//!    snapshot.
//! 3. **B's copies are void, and its right to use them has ended.** The engine has A's record that calls them void, which
//!    A has known since `m`, and `f` ≥ `c` + TERM and `f` ≥ `m` + PROOF, both lengthened by the possible difference of
//!    the clocks. B uses a copy
//!    * under a term, for TERM after a reading of B's clock that came back in a beat in which A confirmed. A confirms only
//!      if it has sent all changes. If that beat was sent after `c`, B had the close before the beat. Otherwise the
//!      reading is from before `c`, and the term is over before `f`.
//!    * under a proof, for PROOF after B *began* to read A's record, if the record does not call B's copies void. If the
//!      read took effect before the record was written, that was before `m`, so the proof is over before `f`. If it took
//!      effect after, it proves nothing: the record calls void all snapshots up to the last one whose end A has sent to
//!      B. A snapshot whose end comes later has the change, since the connection keeps the order.
//!
//! What makes 3 true at `f` makes it true at any later time. So a process that is stopped between the decision and the
//! use of the port does no harm, and neither does a late write: the engine refuses all writes except the one that A
//! waits for.
//!
//! **A starts.** It does not know which copies others have, so no port is free until each B is settled
//! ([`Node::settle`]). One of these must hold: B has said that it has none; or B has given them back, so that A has
//! those bindings itself and the rule above holds from then on, also for the copies that B keeps; or everything of
//! earlier incarnations is void, and TERM from A's start and PROOF from `m` are over. A takes back only copies that its
//! record does not call void. As the rule held for each incarnation, the ports of these have had no other subscriber
//! since, so the copies that two nodes give back cannot contradict each other.
//!
//! **Files that differ.** The proof is about one file. `admission` ensures that no node opens bindings or uses copies
//! while another one does so by a file that assigns addresses differently.
//!
//! After all that a port rests for `rest`, in which no packet may be translated by it, so that packets in flight arrive
//! first.

use crate::config::NodeId;
use crate::interface::{Action, Report};
use crate::message::{Mark, Message};
use crate::node::{Node, LOOKS};
use crate::peer::{Peer, Telling};
use crate::rests::Rest;
use crate::store::State;
use crate::Moment;

/// Maximum time to wait for other nodes' copies, as a multiple of the patience.
const READ: u32 = 15;

impl Node {
    /// Settles the ports of earlier incarnations with every other node; then waits for copies of bindings that others
    /// have announced by now, without which hosts would get other bindings than they have. Both waits are bounded.
    pub(crate) fn settle(&mut self, now: Moment, out: &mut Vec<Action>) {
        if let Some(since) = self.settled {
            if !self.has_read {
                let patience = self.config.timing.patience;
                self.peers
                    .iter_mut()
                    .for_each(|peer| peer.note_reading(now));
                let lacks = |peer: &Peer| peer.reading.is_some_and(|at| now < at + patience);
                let is_late = now >= since + patience * READ;
                let lacks_none = !self.peers.iter().any(lacks);
                self.has_read = self.has_rested(now) && (is_late || lacks_none);
            }
            return;
        }
        for peer in self.others() {
            if !self.peers[peer.index()].settled {
                self.settle_with(now, peer, out);
            }
        }
        let are_settled = self.peers.iter().all(|peer| peer.settled);
        if are_settled && self.admission.since.is_some() {
            self.settled = Some(now);
        }
    }

    fn settle_with(&mut self, now: Moment, peer: NodeId, out: &mut Vec<Action>) {
        let (timing, admitted) = (self.config.timing, self.admission.since);
        let own = &mut self.own;
        let earlier = Mark {
            epoch: own.epoch,
            serial: 0,
        };
        let its = &mut self.peers[peer.index()];
        match its.link.as_mut().map(|link| (link.hello, link)) {
            Some((Some(None), _)) => {
                its.settled = true;
                return;
            }
            // Copies that the record does not call void are worth requesting.
            Some((Some(Some(tag)), link)) if link.asked.is_none() && admitted.is_some() => {
                let is_valid = tag.engine == own.engine && tag.mark > own.void_of(peer);
                if own.engine != 0 {
                    link.asked = Some(is_valid);
                    link.first.push_back(Message::Ask(is_valid));
                }
            }
            _ => {}
        }
        if own.engine == 0 {
            return;
        }
        // A node that gives back gets more time, but a bounded one.
        let gives = its.is_up && its.link.as_ref().is_some_and(|link| link.asked.is_some());
        let patience = timing.patience * if gives { 10 } else { 1 };
        // A node that has greeted is asked once this node is admitted. A node that gives way to another file leaves
        // copies as they are.
        let has_greeted = its.link.as_ref().is_some_and(|link| link.hello.is_some());
        let begun = match has_greeted {
            true => admitted,
            false => own.claimed(),
        };
        let is_late = begun.is_some_and(|begun| now >= begun + patience);
        if is_late && own.void_of(peer) < earlier {
            own.declare_void(peer, earlier);
            out.push(Action::Report(Report::Void(peer)));
        }
        if let Some(since) = own.void_since(peer, earlier) {
            let is_over = now >= self.started + timing.over(timing.term)
                && now >= since + timing.over(timing.proof);
            its.settled = is_over;
        }
    }

    /// Begins the rest of ports that no node uses any more for their former subscriber, and frees them after it.
    pub(crate) fn free(&mut self, now: Moment, out: &mut Vec<Action>) {
        while self.left >= LOOKS {
            let Some(&first) = self.rests.used.front() else {
                break;
            };
            self.left -= 1;
            if self.is_resting(&first) && !self.is_free_of_others(now, &first, out) {
                break;
            }
            self.rests.used.pop_front();
            let until = now + self.config.timing.rest;
            self.rests.quiet.push_back((first, until));
        }
        if self.rests.used.is_empty() {
            // The ports that were waited for may have returned to their subscribers.
            self.peers.iter_mut().for_each(|peer| peer.waited = None);
        }
        while self.left >= LOOKS {
            let first = self.rests.quiet.front().copied();
            let Some((rest, _)) = first.filter(|(_, until)| now >= *until) else {
                break;
            };
            self.left -= LOOKS;
            self.rests.quiet.pop_front();
            if self.is_resting(&rest) {
                let binding = self.bindings.remove(rest.at).binding();
                out.push(Action::Free(binding.protocol, binding.v4));
            }
        }
    }

    /// Returns false if the same subscriber has got the port again meanwhile.
    fn is_resting(&self, rest: &Rest) -> bool {
        let place = self.bindings.places(rest.at, 1).next();
        let entry = place.and_then(|(_, entry)| entry);
        entry.is_some_and(|entry| entry.state == State::Resting && entry.rest == rest.rest)
    }

    fn is_free_of_others(&mut self, now: Moment, rest: &Rest, out: &mut Vec<Action>) -> bool {
        if self.settled.is_none() {
            return false;
        }
        let mut is_free = true;
        for peer in self.others() {
            if self.is_done(now, peer, rest) {
                self.peers[peer.index()].waited = None;
            } else {
                is_free = false;
                self.blocked_by(now, peer, out);
            }
        }
        is_free
    }

    /// Checks the rule of this module for one other node.
    fn is_done(&self, now: Moment, peer: NodeId, rest: &Rest) -> bool {
        let timing = self.config.timing;
        if self.peers[peer.index()].acked >= rest.change {
            return true;
        }
        let Some(held) = self.held_by(peer) else {
            return true;
        };
        self.own.void_since(peer, held).is_some_and(|since| {
            now >= rest.since + timing.over(timing.term) && now >= since + timing.over(timing.proof)
        })
    }

    /// Returns the latest copies of this node's bindings that another one may have.
    fn held_by(&self, peer: NodeId) -> Option<Mark> {
        let peer = &self.peers[peer.index()];
        let epoch = self.own.epoch;
        let mark = |serial| Mark { epoch, serial };
        peer.serial.map(mark).or(peer.before)
    }

    /// Handles a node that does not acknowledge. If ports are needed, this node stops waiting for it.
    fn blocked_by(&mut self, now: Moment, peer: NodeId, out: &mut Vec<Action>) {
        let waited = *self.peers[peer.index()].waited.get_or_insert(now);
        let is_short =
            now < self.short_until || self.bindings.resting() as usize > self.config.bounds.resting;
        let is_late = now >= waited + self.config.timing.patience;
        let Some(held) = self.held_by(peer).filter(|_| is_short && is_late) else {
            return;
        };
        if self.own.engine == 0 || self.own.void_of(peer) >= held {
            return;
        }
        // Only another snapshot makes its copies valid again.
        let link = self.peers[peer.index()].link.as_ref();
        if link.is_some_and(|link| link.telling == Telling::Ended) {
            self.drop_link(peer, out);
        }
        self.own.declare_void(peer, held);
        self.peers[peer.index()].waited = None;
        out.push(Action::Report(Report::Void(peer)));
    }
}
