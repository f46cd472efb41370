// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of changes of this node's bindings, and the ports that rest.

use std::collections::VecDeque;

use crate::message::BindingChange;
use crate::Moment;

/// The last changes, each with its number. Numbers begin at 1 with each incarnation.
#[derive(Debug, Default)]
pub struct Log {
    changes: VecDeque<BindingChange>,
    head: u64,
}

impl Log {
    /// Adds a change; returns its number. At most `most` are kept.
    pub fn push(&mut self, change: BindingChange, most: usize) -> u64 {
        if self.changes.len() >= most {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.head += 1;
        self.head
    }

    /// Returns the number of the last change.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the changes after a number; None if some of them are no longer kept.
    pub fn after(&self, number: u64) -> Option<impl Iterator<Item = &BindingChange>> {
        let lacking = self.head.checked_sub(number)? as usize;
        let first = self.changes.len().checked_sub(lacking)?;
        Some(self.changes.range(first..))
    }
}

/// A port that rests.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Its entry.
    pub at: u32,
    /// Number of this rest; if the entry has another number, a later rest has followed.
    pub rest: u32,
    /// The number of the change.
    pub change: u64,
    /// When the binding ended.
    pub since: Moment,
}

/// Resting ports in the order in which their bindings ended, which is the order in which they
/// become free.
#[derive(Debug, Default)]
pub struct Rests {
    /// Ports that another node may use for their former subscriber.
    pub used: VecDeque<Rest>,
    /// Ports that no node uses any more, and until when late packets are awaited.
    pub quiet: VecDeque<(Rest, Moment)>,
    /// Number of rests so far.
    pub count: u32,
}
