// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The status of a node of a cluster as lines of text for people.

use std::fmt::Write;
use std::time::Duration;

use crate::cluster_status::{ClusterStatus, EngineStatus, NodeRole, NodeStatus};
use crate::finding::Kind as FindingKind;

impl ClusterStatus {
    /// The status as lines of text for people.
    pub fn table(&self) -> String {
        let attracts = match self.attracts {
            true => "attracts packets",
            false => "does not attract packets",
        };
        let mut text = format!(
            "node {} of cluster {}: {} for {}, {attracts}\n",
            self.node,
            self.name,
            self.part.name(),
            time(self.part_ms),
        );
        let mut line = |key: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key:<9} {value}");
        };
        if !self.waits_for.is_empty() {
            line("waits for", self.waits_for.join(", "));
        }
        line("file", self.file.clone());
        if let Some(roll) = &self.roll {
            let time = time(roll.left_ms);
            let text = match roll.goes {
                true => format!("goes over to the file {}", roll.file),
                false => format!(
                    "armed for the file {} for {time}: {}",
                    roll.file,
                    roll.waits()
                ),
            };
            line("roll", text);
        }
        let armed = self.nodes.iter();
        let armed = armed.filter_map(|its| Some((&its.name, its.armed.as_ref()?)));
        for (name, file) in armed {
            line("armed", format!("{name} for the file {file}"));
        }
        line("engine", self.engine.line());
        let copies: u64 = self.nodes.iter().map(|node| u64::from(node.copies)).sum();
        line(
            "bindings",
            format!(
                "{} here, {} ports rest, {copies} copies of other nodes",
                self.bindings, self.resting
            ),
        );
        if !self.refused.is_empty() {
            let refused = self
                .refused
                .iter()
                .map(|(why, times)| format!("{times} {why}"));
            let refused: Vec<String> = refused.collect();
            line("refused", format!("connections: {}", refused.join(", ")));
        }
        if !self.nodes.is_empty() {
            text += "\nnode             part      reachable  way            copies   usable  unacknowledged   forwarded\n";
        }
        for node in &self.nodes {
            let _ = writeln!(
                text,
                "{:<16} {:<9} {:<10} {:<12} {:>8} {:>8} {:>15} {:>11}",
                node.name,
                node.part.map_or("-", NodeRole::name),
                if node.is_reachable { "yes" } else { "no" },
                node.interface.as_deref().unwrap_or("-"),
                node.copies,
                node.usable(),
                node.unacknowledged
                    .map_or("-".to_owned(), |n| n.to_string()),
                node.forwarded.packets,
            );
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for finding in &self.findings {
            let kind = match finding.kind {
                FindingKind::Obstacle => "obstacle",
                FindingKind::Trouble => "trouble",
            };
            let _ = writeln!(text, "{kind:<9} {}", finding.text);
        }
        text
    }
}

impl EngineStatus {
    fn line(&self) -> String {
        let version = self.version.as_deref().unwrap_or("of unknown version");
        let mut line = match &self.member {
            Some(member) => format!("etcd {version} at {member}"),
            None => format!("no answer for {}", time(self.silent_ms)),
        };
        match (&self.name, self.epoch) {
            (Some(name), Some(epoch)) => {
                let _ = write!(line, ", data {name}, incarnation {epoch}");
            }
            _ => line += ", has no record of this process yet",
        }
        line
    }
}

impl NodeStatus {
    fn usable(&self) -> String {
        match self.copies_usable_ms {
            _ if self.copies_void => "void".to_owned(),
            Some(ms) => time(ms),
            None => "no".to_owned(),
        }
    }
}

/// A time for people: to the millisecond below a second, and to the second above.
fn time(ms: u64) -> String {
    let time = Duration::from_millis(ms);
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => humantime::format_duration(Duration::from_secs(time.as_secs())).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv6Addr;

    use super::*;
    use crate::cluster_status::Roll;
    use crate::finding::{Finding, Reason};

    #[test]
    fn the_table_says_what_is_wrong() {
        let status = ClusterStatus {
            name: "lab".to_owned(),
            node: "gw1".to_owned(),
            part_ms: 2400,
            waits_for: vec!["gw2".to_owned()],
            file: "00ff".to_owned(),
            roll: Some(Roll {
                file: "00aa".to_owned(),
                left_ms: 9000,
                goes: false,
                lacks: BTreeMap::from([("gw2".to_owned(), "unarmed".to_owned())]),
            }),
            bindings: 5,
            nodes: vec![NodeStatus {
                copies: 7,
                copies_usable_ms: Some(5800),
                unacknowledged: Some(3),
                interface: Some("gw0".to_owned()),
                ..NodeStatus::new("gw2".to_owned(), Ipv6Addr::LOCALHOST)
            }],
            refused: BTreeMap::from([("untrusted".to_owned(), 2)]),
            findings: vec![Finding::obstacle(Reason::ClusterStarting, "it waits")],
            ..ClusterStatus::default()
        };
        let table = status.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[..7],
            [
                "node gw1 of cluster lab: starting for 2s, does not attract packets",
                "waits for gw2",
                "file      00ff",
                "roll      armed for the file 00aa for 9s: gw2 is not armed",
                "engine    no answer for 0 ms, has no record of this process yet",
                "bindings  5 here, 0 ports rest, 7 copies of other nodes",
                "refused   connections: 2 untrusted",
            ]
        );
        let row: Vec<&str> = lines[9].split_whitespace().collect();
        assert_eq!(row, ["gw2", "-", "no", "gw0", "7", "5s", "3", "0"]);
        assert_eq!(lines[11], "obstacle  it waits");
    }
}
