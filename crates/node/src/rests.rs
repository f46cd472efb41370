// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has changed in this node's bindings, and the ports that rest.

use std::collections::VecDeque;

use crate::message::Change;
use crate::Moment;

/// The last changes, each with its number. They begin at 1 with each incarnation.
#[derive(Debug, Default)]
pub struct Log {
    changes: VecDeque<Change>,
    head: u64,
}

impl Log {
    /// Adds one; returns its number. At most `most` are kept.
    pub fn push(&mut self, change: Change, most: usize) -> u64 {
        if self.changes.len() >= most {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.head += 1;
        self.head
    }

    /// The number of the last one.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Those after a number; None if some of them are no longer kept.
    pub fn after(&self, number: u64) -> Option<impl Iterator<Item = &Change>> {
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
    /// Which rest of all it is; another one has followed if the entry has another number.
    pub rest: u32,
    /// The number of the change.
    pub change: u64,
    /// When the binding ended.
    pub since: Moment,
}

/// Resting ports in the order of their ends, which is the order in which they become free.
#[derive(Debug, Default)]
pub struct Rests {
    /// Another node may use them for their former subscriber.
    pub used: VecDeque<Rest>,
    /// Nobody does any more, and until when late packets are waited for.
    pub quiet: VecDeque<(Rest, Moment)>,
    /// How many there have been.
    pub count: u32,
}
