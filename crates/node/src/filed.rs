// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that the records of other nodes name, and the progress of this node's admission.

use crate::config::NodeId;
use crate::record::{PeerRecord, Record, RecordRole};
use crate::Moment;
use std::cmp::Reverse;

/// Maximum number of remembered nodes that this node's file does not name.
const STRANGERS: usize = 64;

/// The file of another node, by its record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Filed {
    /// There is no record, or the node has left.
    #[default]
    Nothing,
    /// It has this node's file.
    Same,
    /// It starts by a file that assigns addresses differently.
    Starts,
    /// It serves by such a file, or did when it was killed.
    Serves,
    /// It does not mention a file: another version has written it.
    Unknown,
}

impl Filed {
    /// Returns true if the node may use any address, because it has another file.
    pub(crate) fn opposes(self) -> bool {
        matches!(self, Filed::Serves | Filed::Unknown)
    }
}

/// The state of the admission.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Since when this node takes part.
    pub since: Option<Moment>,
    /// The pending read of all records, and when it was begun.
    pub asked: Option<(u64, Moment)>,
    /// The last read that was answered: its engine, and when it was begun.
    pub listed: Option<(u64, Moment)>,
    /// When the engine last answered.
    pub heard: Moment,
    /// The records, by node.
    records: Vec<Filed>,
    /// The records of nodes that this node's file does not name.
    pub strangers: Vec<(String, Filed)>,
    /// True if there has been a record of such a node, also of one that has left.
    pub has_met_strangers: bool,
    /// When this node first sought admission.
    pub sought: Option<Moment>,
}

impl Admission {
    /// Returns what a node's record says.
    pub fn of(&self, node: NodeId) -> Filed {
        self.records.get(node.index()).copied().unwrap_or_default()
    }

    /// Takes over the records that the engine has; `file` is this node's.
    pub fn read(&mut self, found: &[PeerRecord], file: u64) {
        (self.records, self.strangers) = (Vec::new(), Vec::new());
        for its in found {
            let filed = match Record::decode(&its.bytes).map(|record| (record.file, record.part)) {
                None | Some((None, _)) => Filed::Unknown,
                Some((_, RecordRole::Left)) => Filed::Nothing,
                Some((Some(its), _)) if its == file => Filed::Same,
                Some((_, RecordRole::Starting)) => Filed::Starts,
                Some((_, RecordRole::Serving)) => Filed::Serves,
            };
            // One that has left may have done so just now.
            self.has_met_strangers |= its.node.is_none() && filed != Filed::Same;
            match its.node {
                Some(node) => {
                    let count = self.records.len().max(node.index() + 1);
                    self.records.resize(count, Filed::Nothing);
                    self.records[node.index()] = filed;
                }
                None if filed > Filed::Same => self.strangers.push((its.name.clone(), filed)),
                None => {}
            }
        }
        // Those that serve count first.
        self.strangers.sort_by_key(|(_, filed)| Reverse(*filed));
        self.strangers.truncate(STRANGERS);
    }
}
