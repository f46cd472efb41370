// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether this node may take part: no other node may serve by a file that assigns addresses differently.
//!
//! # The rule, and why it holds
//!
//! Until node A is *admitted*, it opens no bindings, takes none back and uses no copies. With an engine, A is admitted
//! only if
//!
//! 1. the engine has A's record that *claims* that A serves by its file, which A has known since `m`; and
//! 2. for each other node C, one of these holds. A began to read C's record after `m`, and the record does not say that
//!    C serves by another file. Or C has said on a connection that it has A's file, and has returned on it a reading of
//!    A's clock that is not older than `m`.
//!
//! Two nodes with different files are never both admitted. Both claims were durable before either node began to read,
//! so the node whose claim became durable last read the other's claim. If C instead said that it has A's file, a
//! process of C with another file starts after `m`, and reads A's claim. A claim is known only from the answer to the
//! write that made it: the engine refuses all writes that were sent before. A node that reads a claim by another file
//! withdraws its own. It claims again when no other node claims, and more nodes have its file than another one. An
//! admitted node withdraws nothing until it leaves.
//!
//! If a node does not say that it has the same file, its record is read only [`HESITATION`] after the claim. By then
//! running nodes have written their records to an engine that was wiped, and the programs of a node that left have
//! ended. This relies on time. The same wait applies to nodes that only another file names, if a record of one was ever
//! seen and no node with this file serves. Such a node is missed if a wiped engine does not have its record yet, and it
//! was never seen.
//!
//! **While the engine does not answer,** a node is admitted if all others are reachable and have its file. A node with
//! another file that starts without a record, before the engine has the record, does not see it.

use crate::config::NodeId;
use crate::filed::Filed;
use crate::interface::Action;
use crate::message::Status;
use crate::node::Node;
use crate::peer::{Link, Peer};
use crate::record::{Answer, Outcome, RecordRole, Request, LOOK, RETRY};
use crate::Moment;
use std::time::Duration;

/// Time after its claim at which a node reads the records of those that do not say that they have the same file.
pub const HESITATION: Duration = LOOK
    .saturating_add(RETRY)
    .saturating_add(Duration::from_millis(500));
/// Time for which a report counts that a node's file assigns addresses differently; nodes reconnect at least every two
/// seconds.
const DIFFERS: Moment = Moment::from_secs(5);
/// Interval between two reads of all records, before and after this node is admitted.
const AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

impl Node {
    /// Reads all records, claims to serve if nothing opposes that, and takes part if the claim holds.
    pub(crate) fn seek_admission(&mut self, now: Moment, out: &mut Vec<Action>) {
        self.admission.sought.get_or_insert(now);
        self.list(now, out);
        if self.admission.since.is_none() && self.is_admissible(now) {
            self.admission.since = Some(now);
        }
        let claims = self.admission.since.is_some() || self.may_claim(now);
        self.own.say(match claims {
            true => RecordRole::Serving,
            false => RecordRole::Starting,
        });
    }

    fn list(&mut self, now: Moment, out: &mut Vec<Action>) {
        let its = &self.admission;
        let waits = its.asked.is_some_and(|(_, begun)| now < begun + RETRY);
        let again = AGAIN[usize::from(its.since.is_some())];
        let is_new = its.listed.is_some_and(|(_, begun)| {
            now < begun + again && self.own.claimed().is_none_or(|claimed| begun >= claimed)
        });
        if waits || is_new || self.leaves.is_some() {
            return;
        }
        let token = self.token();
        self.admission.asked = Some((token, now));
        let request = Request::ReadAll;
        out.push(Action::Ask { token, request });
    }

    /// Handles an answer. Returns true if it belongs to the pending read of all records.
    pub(crate) fn listed(&mut self, now: Moment, token: u64, answer: &Answer) -> bool {
        let asked = self.admission.asked;
        let Some((_, begun)) = asked.filter(|(waiting, _)| *waiting == token) else {
            return false;
        };
        (self.admission.asked, self.admission.heard) = (None, now);
        if let Outcome::All(found) = &answer.outcome {
            self.admission.listed = Some((answer.engine, begun));
            self.admission.read(found, self.own.file);
        }
        true
    }

    /// Returns what another node says of its file, on a connection or in its record.
    fn filed(&self, now: Moment, node: NodeId) -> Filed {
        let its = &self.peers[node.index()];
        if has_greeted(its) {
            return Filed::Same;
        }
        let recent = its.differed.filter(|(at, _)| now < *at + DIFFERS);
        let said = match recent {
            Some((_, true)) => Filed::Serves,
            Some((_, false)) => Filed::Starts,
            None => Filed::Nothing,
        };
        said.max(self.admission.of(node))
    }

    fn may_claim(&self, now: Moment) -> bool {
        let listed = self.admission.listed;
        let is_known = listed.is_some_and(|(engine, _)| engine == self.own.seen());
        let others = self.others().map(|node| self.filed(now, node));
        let strangers = self.admission.strangers.iter().map(|(_, filed)| *filed);
        let all: Vec<Filed> = others.chain(strangers).collect();
        let count = |filed| all.iter().filter(|its| **its == filed).count();
        is_known
            && !all.iter().any(|its| its.opposes())
            && count(Filed::Starts) < 1 + count(Filed::Same)
    }

    fn is_admissible(&self, now: Moment) -> bool {
        let its = &self.admission;
        if its.strangers.iter().any(|(_, filed)| filed.opposes()) {
            return false;
        }
        let Some(claimed) = self.own.claimed() else {
            // The engine does not answer.
            let since = its.sought.unwrap_or(now).max(its.heard);
            let mut others = self.others().map(|node| &self.peers[node.index()]);
            // One request may have been lost.
            return now >= since + RETRY + self.config.timing.patience
                && others.all(|its| its.is_up && has_greeted(its));
        };
        let listed = its.listed.filter(|(engine, _)| *engine == self.own.engine);
        let Some((_, begun)) = listed.filter(|(_, begun)| *begun >= claimed) else {
            return false;
        };
        let is_alike = |node: NodeId| {
            let peer = &self.peers[node.index()];
            let echo = peer.link.as_ref().and_then(|link| link.echo);
            has_greeted(peer) && echo.is_some_and(|echo| echo >= claimed)
        };
        let serves = |node: NodeId| {
            let link = self.peers[node.index()].link.as_ref();
            let says = |link: &Link| matches!(link.status, Status::Serving | Status::Draining);
            is_alike(node) && link.is_some_and(says)
        };
        // The programs of an unnamed node that has left may still run, or a wiped engine may not have its record again.
        let hesitates = begun < claimed + HESITATION;
        if hesitates && its.has_met_strangers && !self.others().any(serves) {
            return false;
        }
        self.others().all(|node| {
            let opposes = self.filed(now, node).opposes() || its.of(node).opposes();
            is_alike(node) || (!hesitates && !opposes)
        })
    }

    /// Returns nodes that this node's file does not name and that start or serve, or whose records do not say.
    pub fn strangers(&self) -> &[(String, Filed)] {
        &self.admission.strangers
    }
}

/// Returns true if the peer has said on the current connection that it has this node's file.
fn has_greeted(peer: &Peer) -> bool {
    peer.link.as_ref().is_some_and(|link| link.hello.is_some())
}
