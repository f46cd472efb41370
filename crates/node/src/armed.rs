// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file to which a node is ready to change together with all others.

use crate::config::NodeId;
use crate::Moment;

/// The file that this node is armed for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Armed {
    /// The file ([`crate::Config::file`]).
    pub file: u64,
    /// The node is disarmed at this time, unless it changes before.
    pub until: Moment,
    /// Nodes of this one's file that are not in the new one.
    pub without: Vec<NodeId>,
    /// Since when all others are ready.
    pub(crate) since: Option<Moment>,
    /// True if it is changing.
    pub(crate) goes: bool,
}

impl Armed {
    /// Creates the state for a file; `without` are the nodes of the current file that are not in it.
    pub fn new(file: u64, until: Moment, without: Vec<NodeId>) -> Armed {
        Armed {
            file,
            until,
            without,
            since: None,
            goes: false,
        }
    }

    /// Returns true if it is changing, which nothing can stop.
    pub fn goes(&self) -> bool {
        self.goes
    }
}
