// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine: linearizable records with revisions, and its faults.

use std::collections::BTreeMap;

use diolkos_node::record::{Answer, Outcome, PeerRecord, Request};
use diolkos_node::NodeId;

type Records = BTreeMap<NodeId, (u64, Vec<u8>)>;

pub struct Engine {
    name: u64,
    revision: u64,
    records: Records,
    backup: (u64, Records),
    /// Real time until which it does not answer, because it elects a leader.
    pub away_until: u64,
}

impl Engine {
    pub fn new() -> Engine {
        Engine {
            name: 1,
            revision: 0,
            records: Records::new(),
            backup: (0, Records::new()),
            away_until: 0,
        }
    }

    pub fn execute(&mut self, node: NodeId, request: &Request) -> Answer {
        let outcome = match request {
            Request::Read(of) => Outcome::Value(self.records.get(of).cloned()),
            Request::ReadAll => {
                let others = self.records.iter().filter(|(of, _)| **of != node);
                let found = others.map(|(of, (_, bytes))| PeerRecord {
                    node: Some(*of),
                    name: String::new(),
                    bytes: bytes.clone(),
                });
                Outcome::All(found.collect())
            }
            Request::Write(expected, bytes) => {
                let known = self.records.get(&node).map_or(0, |(revision, _)| *revision);
                if known == *expected {
                    self.revision += 1;
                    self.records.insert(node, (self.revision, bytes.clone()));
                    Outcome::Written(self.revision)
                } else {
                    Outcome::Refused
                }
            }
        };
        Answer {
            engine: self.name,
            revision: self.revision,
            outcome,
        }
    }

    pub fn back_up(&mut self) {
        self.backup = (self.revision, self.records.clone());
    }

    /// Loses all data.
    pub fn wipe(&mut self) {
        (self.revision, self.records) = (0, Records::new());
        self.name += 1;
    }

    /// Restores an earlier state, under another name, as etcd does.
    pub fn restore(&mut self) {
        (self.revision, self.records) = self.backup.clone();
        self.name += 1;
    }
}
