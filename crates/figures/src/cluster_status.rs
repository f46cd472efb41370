// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The status of a cluster node, for people and for monitoring.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::counters::Counter;
use crate::finding::Finding;

/// The role of a node in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It does not know yet which of its ports are free, and creates no bindings.
    #[default]
    Starting,
    /// It creates bindings.
    Serving,
    /// It keeps its bindings, and other nodes serve new subscribers.
    Draining,
    /// It no longer translates.
    Left,
}

impl NodeRole {
    /// All roles.
    pub const ALL: [NodeRole; 4] = [
        NodeRole::Starting,
        NodeRole::Serving,
        NodeRole::Draining,
        NodeRole::Left,
    ];

    /// The name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            NodeRole::Starting => "starting",
            NodeRole::Serving => "serving",
            NodeRole::Draining => "draining",
            NodeRole::Left => "left",
        }
    }
}

/// The status of a node. Times are in milliseconds, until now or from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Name of the cluster.
    pub name: String,
    /// Name of this node.
    pub node: String,
    /// The identity of its file, which nodes compare.
    #[serde(default)]
    pub file: String,
    /// The file change for which it is armed.
    #[serde(default)]
    pub roll: Option<Roll>,
    /// Its role.
    pub part: NodeRole,
    /// The time that it has had this role.
    pub part_ms: u64,
    /// While it starts: nodes that have not reported yet which of its bindings they have.
    pub waits_for: Vec<String>,
    /// Its routes attract packets.
    pub attracts: bool,
    /// The engine as this node sees it.
    pub engine: EngineStatus,
    /// Bindings of this node.
    pub bindings: u32,
    /// Ports of this node that had a binding and must not go to another subscriber yet.
    pub resting: u32,
    /// All other nodes in the cluster file.
    pub nodes: Vec<NodeStatus>,
    /// Packets from other gateways.
    #[serde(default)]
    pub arrived: Arrived,
    /// Refused connections from or to other nodes, by reason.
    pub refused: BTreeMap<String, u64>,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// A new cluster file, for which a node is armed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roll {
    /// The identity of the file.
    pub file: String,
    /// The time until it is disarmed.
    pub left_ms: u64,
    /// The node is changing to the new file, and nothing prevents that any more.
    pub goes: bool,
    /// Nodes that are not ready, with a name of [`Roll::why`].
    pub lacks: BTreeMap<String, String>,
}

impl Roll {
    /// The reason as a text for people.
    fn why(name: &str) -> &str {
        match name {
            "away" => "does not answer",
            "unarmed" => "is not armed",
            "otherwise" => "is armed for another file, or has one",
            "remains" => "is not in the new file, and runs: stop it",
            other => other,
        }
    }

    /// The nodes that are not ready, with the reasons.
    pub fn waits(&self) -> String {
        let lacks = self.lacks.iter();
        let lacks: Vec<String> = lacks
            .map(|(node, why)| format!("{node} {}", Roll::why(why)))
            .collect();
        match lacks.is_empty() {
            true => "all nodes are armed".to_owned(),
            false => lacks.join("; "),
        }
    }
}

/// The engine that stores the records of nodes: etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineStatus {
    /// The member that answers.
    pub member: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The name of the data that has this node's record; `None` before there is a record.
    pub name: Option<String>,
    /// The incarnation of the node that this process is; `None` before the engine has counted it.
    pub epoch: Option<u64>,
    /// The time since its last answer.
    pub silent_ms: u64,
    /// Answered requests.
    pub answered: u64,
    /// Unanswered requests.
    pub unanswered: u64,
    /// The last failure, as a sentence. It may be long ago.
    pub reason: Option<String>,
}

/// Another node, as this one sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// The address at which it receives other nodes' messages and its packets.
    pub address: Ipv6Addr,
    /// The role that it reports; `None` if no connection with it is up, or its file differs.
    pub part: Option<NodeRole>,
    /// A connection with it is up.
    pub is_connected: bool,
    /// It has answered recently.
    pub is_reachable: bool,
    /// Packets of its bindings are sent to it.
    pub takes_packets: bool,
    /// It creates bindings for new subscribers.
    pub serves: bool,
    /// The interface by which packets are sent to it; `None`: the route is not known.
    pub interface: Option<String>,
    /// The number of copies of its bindings on this node.
    pub copies: u32,
    /// How long these copies may be used if it does not answer from now on; `None`: they must not be used.
    pub copies_usable_ms: Option<u64>,
    /// It no longer waits for this node, so its copies here are void.
    pub copies_void: bool,
    /// Changes of this node's bindings that it has not acknowledged; `None` if it has no copies.
    pub unacknowledged: Option<u64>,
    /// How long ports of this node have waited for its acknowledgement; `None` if none waits.
    pub blocks_ms: Option<u64>,
    /// The part in which its file differed in its last hello, if it differed.
    pub differs: Option<String>,
    /// Name of the engine that it uses; `None` if it does not report one.
    pub engine: Option<String>,
    /// The file for which it is armed.
    #[serde(default)]
    pub armed: Option<String>,
    /// The reason why the last connection with it was refused, if that is recent and none is up.
    pub refused: Option<String>,
    /// How often it sent messages that are not allowed or cannot be read.
    pub strange: u64,
    /// How often it read messages too slowly and got all bindings again.
    pub slow: u64,
    /// How often this node stopped waiting for it and declared its copies void.
    pub voided: u64,
    /// Packets that were forwarded to it.
    pub forwarded: Forwarded,
}

/// The outcomes of packets that belong to another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// Sent to it by BPF programs.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Left to the slow path, because they exceed the path MTU to it.
    pub too_big: u64,
    /// Left to the slow path, because no link led to it.
    #[serde(default)]
    pub no_way: u64,
    /// Left to the slow path, because their hop limit was reached.
    #[serde(default)]
    pub hops: u64,
    /// Dropped for lack of memory.
    pub dropped: u64,
}

/// The outcomes of packets that came from other gateways, or claimed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Left to the slow path: no BPF program had a session for them.
    pub returned: u64,
    /// Dropped for lack of memory.
    pub dropped: u64,
    /// Dropped, because they began like a label of the BPF programs.
    pub forged: u64,
}

impl ClusterStatus {
    /// Counters for `diolkos show counters`. Metrics have the same counters by node.
    pub fn counters(&self) -> Vec<Counter> {
        let sum = |of: fn(&NodeStatus) -> u64| self.nodes.iter().map(of).sum::<u64>();
        let counter = |name: &str, packets, bytes| Counter {
            name: format!("cluster.{name}"),
            packets,
            bytes,
        };
        let bytes = Some(sum(|its| its.forwarded.bytes));
        vec![
            counter("forwarded", sum(|its| its.forwarded.packets), bytes),
            counter(
                "unforwarded.too_big",
                sum(|its| its.forwarded.too_big),
                None,
            ),
            counter(
                "unforwarded.no_memory",
                sum(|its| its.forwarded.dropped),
                None,
            ),
            counter("arrived.returned", self.arrived.returned, None),
            counter("arrived.no_memory", self.arrived.dropped, None),
            counter("arrived.forged", self.arrived.forged, None),
            counter("report.strange", sum(|its| its.strange), None),
            counter("report.slow", sum(|its| its.slow), None),
            counter("report.void", sum(|its| its.voided), None),
            counter("refused_connections", self.refused.values().sum(), None),
            counter("engine.unanswered", self.engine.unanswered, None),
        ]
    }
}

impl NodeStatus {
    /// A node without any known status.
    pub fn new(name: String, address: Ipv6Addr) -> NodeStatus {
        NodeStatus {
            name,
            address,
            part: None,
            is_connected: false,
            is_reachable: false,
            takes_packets: false,
            serves: false,
            interface: None,
            copies: 0,
            copies_usable_ms: None,
            copies_void: false,
            unacknowledged: None,
            blocks_ms: None,
            differs: None,
            engine: None,
            armed: None,
            refused: None,
            strange: 0,
            slow: 0,
            voided: 0,
            forwarded: Forwarded::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_and_a_newer_program_understand_what_is_optional() {
        let node = NodeStatus::new("gw2".to_owned(), Ipv6Addr::LOCALHOST);
        let mut json = serde_json::to_value(&node).expect("it is written");
        let fields = json.as_object_mut().expect("an object");
        fields.retain(|_, value| !value.is_null());
        fields.insert("of_tomorrow".to_owned(), true.into());
        assert_eq!(serde_json::from_value::<NodeStatus>(json).ok(), Some(node));
    }
}
