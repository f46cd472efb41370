// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A snapshot of a slice whose parts are coming in.

use crate::message::MAX_PARTS;
use crate::ownership::Title;

const WORDS: usize = MAX_PARTS as usize / 64;

/// Which parts have come, and which bindings were there before.
#[derive(Debug)]
pub struct Snapshot {
    pub title: Title,
    pub number: u32,
    came: [u64; WORDS],
    /// How many parts there are, once the last one has come.
    parts: Option<u16>,
    /// In the slice's list, from this entry on to the end, no message has had an entry since the snapshot began.
    before: u32,
}

impl Snapshot {
    /// `first`: of the slice's list, now.
    pub fn new(title: Title, number: u32, first: u32) -> Snapshot {
        Snapshot {
            title,
            number,
            came: [0; WORDS],
            parts: None,
            before: first,
        }
    }

    /// An entry leaves its place in the list, in front of `next`.
    pub fn leaves(&mut self, at: u32, next: u32) {
        if self.before == at {
            self.before = next;
        }
    }

    /// The entry of the last message before the snapshot began; no message has had it, or those after it in the list, since.
    pub fn newest_before(&self) -> u32 {
        self.before
    }

    /// Notes a part; true if that was the one that still lacked. A part that comes twice changes nothing.
    pub fn heard(&mut self, part: u16, is_last: bool) -> bool {
        let part = part.min(MAX_PARTS - 1);
        self.came[usize::from(part) / 64] |= 1 << (part % 64);
        if is_last {
            self.parts = Some(part + 1);
        }
        let came: u32 = self.came.iter().map(|word| word.count_ones()).sum();
        self.parts.is_some_and(|parts| came >= u32::from(parts))
    }
}
