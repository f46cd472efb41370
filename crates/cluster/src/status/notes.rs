// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operator should know of other gateways: their reports, the interfaces by which they are reached, and the
//! packets that were forwarded to them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{ForwardCount, Forwarding, Gateway as Hop, Owner};
use diolkos_mesh::{Refusal, Refused};
use diolkos_node::{Filed, Moment, NodeId, Report};
use diolkos_sys::clock::kernel_boottime;
use diolkos_sys::namespace;

use diolkos_config::Cluster as Section;
use diolkos_figures::cluster_status::NodeRole;

/// Void copies are logged at most once in this time for each gateway.
const QUIET: Duration = Duration::from_secs(10);
/// A report or a refusal counts as a problem for this time. Repeated refusals are reported every ten seconds.
pub(super) const RECENT: Duration = Duration::from_secs(30);

/// The notes.
#[derive(Debug)]
pub struct Notes {
    nodes: Vec<NodeNotes>,
    /// Gateways that only another file names, and what their records say of it.
    pub(super) strangers: Vec<(String, Filed)>,
    /// Packets that came from other gateways.
    pub(super) arrived: ForwardCount,
    /// The program that forwards, and this gateway.
    programs: Option<(Arc<Forwarding>, NodeId)>,
    /// The role of this gateway, and since when it has it.
    part: (NodeRole, Moment),
    /// The number of requests that etcd had answered, and when this was last seen to grow.
    engine: (u64, Moment),
}

/// Notes about one gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeNotes {
    name: String,
    /// The index of the interface by which it is reached.
    ifindex: Option<u32>,
    pub interface: Option<String>,
    pub forwarded: ForwardCount,
    pub differs: Option<&'static str>,
    /// The file according to its record in etcd, unless the gateway reports the file itself.
    pub filed: Filed,
    pub strange: Occurrences,
    pub slow: Occurrences,
    pub voided: Occurrences,
    /// Why a connection with it was refused, the address of the other side, and when.
    pub refused: Option<(Refusal, IpAddr, Moment)>,
    /// Since when it has used another etcd cluster than this gateway.
    pub elsewhere: Option<Moment>,
    /// Since when copies of its bindings may not be used although it serves.
    pub useless: Option<Moment>,
    /// Since when it has not answered.
    pub away: Option<Moment>,
}

/// Counts how often something was reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Occurrences {
    pub times: u64,
    last: Option<Moment>,
}

impl Occurrences {
    fn add(&mut self, now: Moment) {
        self.times += 1;
        self.last = Some(now);
    }

    /// Returns true if the last report is recent.
    pub fn is_recent(&self, now: Moment) -> bool {
        is_recent(self.last, now)
    }
}

pub(super) fn is_recent(at: Option<Moment>, now: Moment) -> bool {
    at.is_some_and(|at| now < at + RECENT)
}

impl Notes {
    /// Creates the notes for the gateways of the file. `forwarding` is the program that forwards to them, whose
    /// counters are read.
    pub fn new(section: &Section, me: NodeId, forwarding: Arc<Forwarding>) -> Notes {
        let names = section.node.iter().map(|node| node.name.as_str());
        Notes {
            programs: Some((forwarding, me)),
            ..Notes::of_nodes(names, kernel_boottime())
        }
    }

    pub(super) fn of_nodes<'a>(names: impl IntoIterator<Item = &'a str>, now: Moment) -> Notes {
        let named = |name: &str| NodeNotes {
            name: name.to_owned(),
            ..NodeNotes::default()
        };
        Notes {
            nodes: names.into_iter().map(named).collect(),
            strangers: Vec::new(),
            arrived: ForwardCount::default(),
            programs: None,
            part: (NodeRole::Starting, now),
            engine: (0, now),
        }
    }

    /// Notes a report of the node.
    pub fn note(&mut self, report: Report) {
        self.note_at(report, kernel_boottime());
    }

    fn note_at(&mut self, report: Report, now: Moment) {
        let (Report::Differs(peer, _)
        | Report::Strange(peer)
        | Report::Slow(peer)
        | Report::Void(peer)) = report
        else {
            // Another process has this gateway's name: this process ends, and logs the reason.
            return;
        };
        let Some(its) = self.nodes.get_mut(peer.index()) else {
            return;
        };
        match report {
            Report::Differs(_, part) => its.differs = Some(part),
            Report::Strange(_) => its.strange.add(now),
            Report::Slow(_) => its.slow.add(now),
            Report::Void(_) => {
                let is_quiet = its.voided.last.is_some_and(|last| now < last + QUIET);
                its.voided.add(now);
                // The other reports become findings, which are logged.
                if !is_quiet {
                    tracing::warn!(
                        "{} does not acknowledge, and this node no longer waits: its copies of bindings of this node are void",
                        its.name
                    );
                }
            }
            Report::Superseded => {}
        }
    }

    /// Notes that a connection was refused. The rate of these events is bounded.
    pub fn refused(&mut self, refused: &Refused) {
        let Refused {
            why,
            address,
            peer,
            times,
        } = *refused;
        let its = peer.and_then(|peer| self.nodes.get_mut(peer.index()));
        let Some(its) = its else {
            return tracing::warn!(
                "refused {times} connections of {address}, which is no node ({})",
                why.name()
            );
        };
        its.refused = Some((why, address, kernel_boottime()));
        tracing::warn!(
            "refused {times} connections with {} at {address}: {}",
            its.name,
            why.name()
        );
    }

    /// Notes how packets are sent to a gateway; None if the way is unknown.
    pub fn reach(&mut self, node: NodeId, hop: Option<Hop>) {
        let Some(its) = self.nodes.get_mut(node.index()) else {
            return;
        };
        let ifindex = hop.map(|hop| hop.ifindex);
        if its.ifindex != ifindex {
            its.ifindex = ifindex;
            let name = |index: u32| namespace::interface_name(index).unwrap_or(index.to_string());
            its.interface = ifindex.map(name);
        }
    }

    /// Reads the counters of packets for each gateway. Call it without the lock of the tables, because each read is a
    /// system call.
    pub fn count(&mut self) {
        let Some((forwarding, me)) = &self.programs else {
            return;
        };
        for (id, its) in (0..).map(NodeId).zip(&mut self.nodes) {
            let (owner, count) = match id == *me {
                true => (Some(Owner::OURS), &mut self.arrived),
                false => (Owner::node(id.0), &mut its.forwarded),
            };
            match owner.map(|owner| forwarding.count(owner)) {
                Some(Ok(now)) => *count = now,
                Some(Err(error)) => {
                    tracing::debug!("packets for {} are not counted: {error}", its.name)
                }
                None => {}
            }
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<&NodeNotes> {
        self.nodes.iter().find(|its| its.name == name)
    }

    pub(super) fn of(&mut self, node: NodeId) -> Option<&mut NodeNotes> {
        self.nodes.get_mut(node.index())
    }

    /// Notes the current role of this gateway. Returns for how long it has had it.
    pub(super) fn part(&mut self, part: NodeRole, now: Moment) -> Duration {
        if self.part.0 != part {
            self.part = (part, now);
        }
        now.saturating_sub(self.part.1)
    }

    /// Notes the number of requests that etcd has answered. Returns for how long this has not grown.
    pub(super) fn engine(&mut self, answered: u64, now: Moment) -> Duration {
        if self.engine.0 != answered {
            self.engine = (answered, now);
        }
        now.saturating_sub(self.engine.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_counted_and_is_recent_for_a_while() {
        let mut notes = Notes::of_nodes(["gw1"], Duration::ZERO);
        let at = Duration::from_secs;
        for now in [at(100), at(101)] {
            notes.note_at(Report::Void(NodeId(0)), now);
        }
        let its = notes.named("gw1").expect("it is there");
        assert_eq!(its.voided.times, 2);
        assert!(its.voided.is_recent(at(130)) && !its.voided.is_recent(at(131)));
        assert!(!its.slow.is_recent(at(101)));
    }

    #[test]
    fn a_report_of_no_node_does_no_harm() {
        let mut notes = Notes::of_nodes(["gw1"], Duration::ZERO);
        for report in [
            Report::Differs(NodeId(9), "nodes"),
            Report::Strange(NodeId(9)),
        ] {
            notes.note(report);
        }
        notes.reach(NodeId(9), None);
        assert!(notes.of(NodeId(9)).is_none());
    }

    #[test]
    fn what_is_reported_is_known_of_the_node() {
        let mut notes = Notes::of_nodes(["gw1", "gw2"], Duration::ZERO);
        notes.note(Report::Differs(NodeId(1), "sources"));
        notes.note(Report::Slow(NodeId(1)));
        let its = notes.named("gw2").expect("it is there");
        assert_eq!((its.differs, its.slow.times), (Some("sources"), 1));
        assert!(notes.named("gw1").is_some_and(|its| its.differs.is_none()));
    }
}
