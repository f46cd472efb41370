// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a node of a cluster stands, for people and for monitoring.

use std::fmt::Write;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::counters::Counter;

/// What a node does in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It has not joined yet, or has lost its lease.
    #[default]
    Waiting,
    /// It owns slices, or may.
    Member,
    /// It hands over its slices.
    Leaving,
    /// It has handed over its slices and takes none.
    Drained,
}

/// How a node stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Of the cluster.
    pub name: String,
    /// Of this node.
    pub node: String,
    /// What it does.
    pub part: Part,
    /// The server to which it is connected.
    pub server: Option<String>,
    /// Why it is not connected, or what is wrong.
    pub trouble: Option<String>,
    /// For how long it may open bindings without hearing from the engine, milliseconds.
    pub lease_ms: Option<u64>,
    /// Slices of the pool.
    pub slices: u32,
    /// Slices in which it may open bindings.
    pub open: u32,
    /// Slices that it is about to take or to hand over.
    pub moving: u32,
    /// Slices without an owner that is alive.
    pub unowned: u32,
    /// All nodes of the cluster's file.
    pub nodes: Vec<NodeStatus>,
    /// Bindings of other nodes that it keeps.
    pub standby_bindings: u64,
    /// Bytes that these take.
    pub standby_bytes: u64,
    /// Age of the oldest change of a binding that the others have not been told, milliseconds.
    pub lag_ms: u64,
    /// What has happened so far.
    pub counters: Vec<Counter>,
}

/// Another node, or this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where its packets are sent.
    pub address: Option<Ipv6Addr>,
    /// It renews its lease.
    pub is_alive: bool,
    /// The kernel has a route to it.
    pub is_reachable: bool,
    /// Slices that it owns.
    pub slices: u32,
    /// Packets that were forwarded to it.
    pub forwarded: u64,
}

impl Part {
    fn sentence(self) -> &'static str {
        match self {
            Part::Waiting => "is waiting: it opens no bindings",
            Part::Member => "is a member",
            Part::Leaving => "is handing over its slices",
            Part::Drained => "is drained: it owns no slices; `diolkos cluster join` takes it back",
        }
    }
}

impl ClusterStatus {
    /// Lines for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "node {} of cluster {} {}\n",
            self.node,
            self.name,
            self.part.sentence()
        );
        let mut line = |key: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key:<9} {value}");
        };
        match &self.server {
            Some(server) => line("engine", format!("connected to {server}")),
            None => line("engine", "not connected".to_owned()),
        }
        if let Some(trouble) = &self.trouble {
            line("trouble", trouble.clone());
        }
        if let Some(ms) = self.lease_ms {
            line("lease", format!("{ms} ms without the engine"));
        }
        line(
            "slices",
            format!(
                "{} open here of {}, {} moving, {} without an owner",
                self.open, self.slices, self.moving, self.unowned
            ),
        );
        line(
            "standby",
            format!(
                "{} bindings of other nodes, {} KiB",
                self.standby_bindings,
                self.standby_bytes / 1024
            ),
        );
        line("lag", format!("{} ms", self.lag_ms));
        text += "\nnode             slices  alive  reachable   forwarded\n";
        for node in &self.nodes {
            let yes = |is| if is { "yes" } else { "no" };
            let _ = writeln!(
                text,
                "{:<16} {:>6}  {:<5}  {:<9} {:>11}",
                node.name,
                node.slices,
                yes(node.is_alive),
                yes(node.is_reachable),
                node.forwarded
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_wrong() {
        let status = ClusterStatus {
            name: "lab".to_owned(),
            node: "gw1".to_owned(),
            trouble: Some("192.0.2.1:4222 refuses the connection".to_owned()),
            slices: 16,
            unowned: 16,
            nodes: vec![NodeStatus {
                name: "gw2".to_owned(),
                is_reachable: true,
                forwarded: 7,
                ..NodeStatus::default()
            }],
            ..ClusterStatus::default()
        };
        let table = status.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "node gw1 of cluster lab is waiting: it opens no bindings",
                "engine    not connected",
                "trouble   192.0.2.1:4222 refuses the connection",
                "slices    0 open here of 16, 0 moving, 16 without an owner",
            ]
        );
        let row: Vec<&str> = lines[lines.len() - 1].split_whitespace().collect();
        assert_eq!(row, ["gw2", "0", "no", "yes", "7"]);
    }
}
