// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Composes the status of this gateway from the node, its connections, etcd and notes, and derives what is wrong.
//!
//! The time depends on the number of gateways, not on that of bindings, so it may be done under the lock of the tables.

mod findings;
mod notes;

use std::time::Duration;

use diolkos_mesh::{Mesh, Refusal};
use diolkos_node::config::{NODES, PARTS};
use diolkos_node::message::Status;
use diolkos_node::{Armed, Filed, Moment, Node, NodeId, Unready};

use findings::findings;
use notes::{is_recent, NodeNotes};

pub use notes::Notes;

use diolkos_config::Cluster;
use diolkos_figures::cluster_status::{
    Arrived, ClusterStatus, EngineStatus, Forwarded, NodeRole, NodeStatus, Roll,
};

/// The sources of the status.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The section of the file.
    pub section: &'a Cluster,
    /// The node.
    pub node: &'a Node,
    /// The current time of CLOCK_BOOTTIME.
    pub now: Moment,
    /// Its connections.
    pub mesh: &'a Mesh,
    /// The status of the etcd client.
    pub engine: diolkos_etcd::Status,
    /// The notes. The start times of states are noted here.
    pub notes: &'a mut Notes,
}

/// Returns the status of this gateway.
pub fn status(seen: Seen<'_>) -> ClusterStatus {
    let Seen {
        section,
        node,
        now,
        mesh,
        engine,
        notes,
    } = seen;
    let refused = Refusal::ALL.map(|why| (why.name(), mesh.refused(why)));
    let refused = refused.into_iter().filter(|(_, times)| *times > 0);
    let mut status = of_node(section, node, now, notes);
    status.refused = refused
        .map(|(why, times)| (why.to_owned(), times))
        .collect();
    status.engine = of_engine(node, engine, now, notes);
    status.findings = findings(&status, notes, now);
    status
}

fn of_node(section: &Cluster, node: &Node, now: Moment, notes: &mut Notes) -> ClusterStatus {
    let me = node.me();
    let name = |id: NodeId| {
        let its = section.node.get(id.index());
        its.map_or(String::new(), |its| its.name.clone())
    };
    let (bindings, resting, _) = node.counts();
    let part = part(node.status(now));
    notes.strangers = node.strangers().to_vec();
    let waits_for = match part {
        NodeRole::Starting => node.waits_for().map(name).collect(),
        _ => Vec::new(),
    };
    let others = (0..).map(NodeId).zip(&section.node);
    let others = others.filter(|(id, _)| *id != me);
    let nodes = others.map(|(id, its)| {
        let status = NodeStatus::new(its.name.clone(), its.address);
        match notes.of(id) {
            Some(notes) => of_other(node, id, now, status, notes),
            None => status,
        }
    });
    let nodes = nodes.collect();
    let lacks = node.unready().map(|(id, why)| (name(id), unready(why)));
    let roll = |armed: &Armed| Roll {
        file: file_name(armed.file),
        left_ms: ms(armed.until.saturating_sub(now)),
        goes: armed.goes(),
        lacks: lacks.collect(),
    };
    ClusterStatus {
        name: section.name.clone(),
        node: name(me),
        file: file_name(node.file()),
        roll: node.armed().map(roll),
        part,
        part_ms: ms(notes.part(part, now)),
        waits_for,
        attracts: node.attracts(),
        bindings,
        resting,
        nodes,
        arrived: Arrived {
            returned: notes.arrived.returned,
            dropped: notes.arrived.dropped,
            forged: notes.arrived.forged,
        },
        ..ClusterStatus::default()
    }
}

fn of_other(
    node: &Node,
    id: NodeId,
    now: Moment,
    status: NodeStatus,
    notes: &mut NodeNotes,
) -> NodeStatus {
    let its = node.standing(id, now);
    if its.status.is_some() {
        // It has said hello with the same file.
        notes.differs = None;
    }
    notes.filed = match its.status {
        Some(_) => Filed::Same,
        None => its.filed,
    };
    let differs = notes
        .differs
        .or((notes.filed > Filed::Same).then_some(PARTS[NODES]));
    if its.is_connected {
        notes.refused = None;
    }
    let ours = node.engine().map(|(engine, _)| engine);
    let is_elsewhere = ours.is_some() && its.engine.is_some() && ours != its.engine;
    note_since(&mut notes.elsewhere, is_elsewhere, now);
    let is_useless = its.serves && its.usable_for.is_none();
    note_since(&mut notes.useless, is_useless, now);
    note_since(&mut notes.away, !its.is_reachable, now);
    let refused = notes.refused.filter(|(.., at)| is_recent(Some(*at), now));
    let forwarded = notes.forwarded;
    NodeStatus {
        part: its.status.map(part),
        is_connected: its.is_connected,
        is_reachable: its.is_reachable,
        takes_packets: its.takes,
        serves: its.serves,
        interface: notes.interface.clone(),
        copies: its.copies,
        copies_usable_ms: its.usable_for.map(ms),
        copies_void: its.is_void,
        unacknowledged: its.behind,
        blocks_ms: its.blocks_for.map(ms),
        differs: differs.map(str::to_owned),
        engine: its.engine.map(engine_name),
        armed: its.armed.map(file_name),
        refused: refused.map(|(why, ..)| why.name().to_owned()),
        strange: notes.strange.times,
        slow: notes.slow.times,
        voided: notes.voided.times,
        forwarded: Forwarded {
            packets: forwarded.packets,
            bytes: forwarded.bytes,
            too_big: forwarded.too_big,
            no_way: forwarded.no_way,
            hops: forwarded.hops,
            dropped: forwarded.dropped,
        },
        ..status
    }
}

fn of_engine(
    node: &Node,
    engine: diolkos_etcd::Status,
    now: Moment,
    notes: &mut Notes,
) -> EngineStatus {
    let (member, version) = engine.connected.unzip();
    EngineStatus {
        member,
        version,
        name: node.engine().map(|(name, _)| engine_name(name)),
        epoch: node.engine().map(|(_, epoch)| epoch),
        silent_ms: ms(notes.engine(engine.answered, now)),
        answered: engine.answered,
        unanswered: engine.unanswered,
        reason: engine.reason,
    }
}

fn part(status: Status) -> NodeRole {
    match status {
        Status::Starting => NodeRole::Starting,
        Status::Serving => NodeRole::Serving,
        Status::Draining => NodeRole::Draining,
        Status::Left => NodeRole::Left,
    }
}

fn note_since(since: &mut Option<Moment>, is_so: bool, now: Moment) {
    *since = match is_so {
        true => since.or(Some(now)),
        false => None,
    };
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn engine_name(name: u64) -> String {
    format!("{name:016x}")
}

/// Formats the hash of what gateways compare of a file.
pub fn file_name(file: u64) -> String {
    format!("{file:016x}")
}

fn unready(why: Unready) -> String {
    let name = match why {
        Unready::Away => "away",
        Unready::Unarmed => "unarmed",
        Unready::Otherwise => "otherwise",
        Unready::Remains => "remains",
    };
    name.to_owned()
}

/// Returns the operator's name for a part of the file that gateways compare (`diolkos_node::config::PARTS`).
fn file_part(part: &str) -> &str {
    match part {
        "format" => "the version of diolkos",
        "nodes" => "[[cluster.node]]: names, pool4, or their order",
        "sources" => {
            "cluster.name, cluster.node.pool4.sources, nat64.source_prefix_len or translator.pref64"
        }
        "lifetimes" => "nat64.timeouts",
        "times" => "the version of diolkos (its terms)",
        other => other,
    }
}

#[cfg(test)]
mod tests;
