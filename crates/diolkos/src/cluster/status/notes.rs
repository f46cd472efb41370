// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operator should know of other nodes: what was reported, by which interfaces they are reached, and what was forwarded to
//! them. Reports go to the log, each kind of each node at a bounded rate.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_mesh::{Refusal, Refused};
use diolkos_node::{Moment, NodeId, Report};
use diolkos_sys::clock::kernel_boottime;
use diolkos_sys::fastpath::{ForwardCount, Forwarding, Gateway as Hop, Owner};
use diolkos_sys::namespace;

use super::file_part;
use crate::cluster_status::Part;
use crate::config::Cluster as Section;

/// A report of one kind about one node is logged once in this time.
const QUIET: Duration = Duration::from_secs(10);
/// For so long after it, a report or a refusal is a trouble. Refusals that go on are told every ten seconds.
pub(super) const RECENT: Duration = Duration::from_secs(30);

/// What is remembered.
#[derive(Debug)]
pub struct Notes {
    nodes: Vec<NodeNotes>,
    /// The program that forwards, and this node.
    programs: Option<(Arc<Forwarding>, NodeId)>,
    /// What this node does, and since when.
    part: (Part, Moment),
    /// How many requests the engine had answered, and when this was last seen to grow.
    engine: (u64, Moment),
}

/// Of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeNotes {
    name: String,
    /// By which interface it is reached.
    ifindex: Option<u32>,
    pub interface: Option<String>,
    pub forwarded: ForwardCount,
    pub differs: Option<&'static str>,
    pub strange: Tally,
    pub slow: Tally,
    pub voided: Tally,
    /// Why a connection with it was refused, the address of the other side, and when.
    pub refused: Option<(Refusal, IpAddr, Moment)>,
    /// Since when it has used another engine than this node.
    pub elsewhere: Option<Moment>,
    /// Since when it has not answered.
    pub away: Option<Moment>,
}

/// How often something was reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub times: u64,
    last: Option<Moment>,
    logged: Option<Moment>,
    /// Times up to the last line of the log.
    told: u64,
}

impl Tally {
    /// Once more; the number of times that the log has to tell of now.
    fn add(&mut self, now: Moment) -> Option<u64> {
        self.times += 1;
        self.last = Some(now);
        if self.logged.is_some_and(|logged| now < logged + QUIET) {
            return None;
        }
        self.logged = Some(now);
        let untold = self.times - self.told;
        self.told = self.times;
        Some(untold)
    }

    /// It was not long ago.
    pub fn is_recent(&self, now: Moment) -> bool {
        is_recent(self.last, now)
    }
}

pub(super) fn is_recent(at: Option<Moment>, now: Moment) -> bool {
    at.is_some_and(|at| now < at + RECENT)
}

impl Notes {
    /// Of the nodes of the file. `forwarding`: the program that forwards to them, whose counts are read.
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
            programs: None,
            part: (Part::Starting, now),
            engine: (0, now),
        }
    }

    /// The node reports something.
    pub fn note(&mut self, report: Report) {
        self.note_at(report, kernel_boottime());
    }

    fn note_at(&mut self, report: Report, now: Moment) {
        match report {
            Report::Differs(peer, part) => {
                let Some(its) = self.nodes.get_mut(peer.index()) else {
                    return;
                };
                // It is refused again with each connection.
                if its.differs.replace(part) != Some(part) {
                    tracing::warn!(
                        "the configuration of {} differs from this node's in {}: the nodes do not share bindings until it is the same",
                        its.name,
                        file_part(part)
                    );
                }
            }
            Report::Strange(peer) => self.tell(peer, now, |its| &mut its.strange, |name, times| {
                tracing::warn!("{name} sent what it may not send, or what cannot be read ({times} times): its connection was closed");
            }),
            Report::Slow(peer) => self.tell(peer, now, |its| &mut its.slow, |name, times| {
                tracing::warn!("{name} takes messages too slowly ({times} times): it gets all bindings anew");
            }),
            Report::Void(peer) => self.tell(peer, now, |its| &mut its.voided, |name, times| {
                tracing::warn!("no longer waiting for {name}, which does not acknowledge ({times} times): its copies of bindings of this node are void");
            }),
            // The process ends, and says why.
            Report::Superseded => {}
        }
    }

    fn tell(
        &mut self,
        peer: NodeId,
        now: Moment,
        of: impl FnOnce(&mut NodeNotes) -> &mut Tally,
        log: impl FnOnce(&str, u64),
    ) {
        let Some(its) = self.nodes.get_mut(peer.index()) else {
            return;
        };
        if let Some(times) = of(its).add(now) {
            log(&its.name, times);
        }
    }

    /// A connection was refused. These come at a bounded rate.
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

    /// How packets are sent to a node now; none: the way is not known.
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

    /// Reads what became of packets for each node so far. Not under the lock of the tables: each is a call of the kernel.
    pub fn count(&mut self) {
        let Some((forwarding, me)) = &self.programs else {
            return;
        };
        for (id, its) in (0..).map(NodeId).zip(&mut self.nodes) {
            let owner = Owner::node(id.0).filter(|_| id != *me);
            let Some(owner) = owner else { continue };
            match forwarding.count(owner) {
                Ok(count) => its.forwarded = count,
                Err(error) => tracing::debug!("packets for {} are not counted: {error}", its.name),
            }
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<&NodeNotes> {
        self.nodes.iter().find(|its| its.name == name)
    }

    pub(super) fn of(&mut self, node: NodeId) -> Option<&mut NodeNotes> {
        self.nodes.get_mut(node.index())
    }

    /// What this node does now; for how long it has done so.
    pub(super) fn part(&mut self, part: Part, now: Moment) -> Duration {
        if self.part.0 != part {
            self.part = (part, now);
        }
        now.saturating_sub(self.part.1)
    }

    /// How many requests the engine has answered; for how long it has not.
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
    fn a_report_is_counted_each_time_and_logged_now_and_then() {
        let mut tally = Tally::default();
        let at = Duration::from_secs;
        assert_eq!(tally.add(at(100)), Some(1));
        assert_eq!((tally.add(at(101)), tally.add(at(109))), (None, None));
        assert_eq!(tally.add(at(110)), Some(3));
        assert_eq!(tally.times, 4);
        assert!(tally.is_recent(at(139)) && !tally.is_recent(at(140)));
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
