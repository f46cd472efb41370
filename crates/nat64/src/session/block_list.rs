// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of port blocks that sources own ([`super::blocks`] allocates them).

use super::clock::Millis;
use crate::config::{Nat64Config, PortBlocks};
use crate::key::Keys;
use crate::pool::BlockId;
use std::collections::HashMap;
use std::time::Duration;

/// All owned blocks.
#[derive(Debug)]
pub struct Blocks {
    pub rules: PortBlocks,
    /// Time for which a block stays with its source after its last use.
    pub idle: Duration,
    /// In no order.
    pub owned: Vec<Owned>,
    pub by_place: HashMap<BlockId, u32, Keys>,
    /// Sorted by age, the oldest first.
    by_source: HashMap<u128, Vec<BlockId>, Keys>,
    pub next_look: usize,
}

/// An owned block.
#[derive(Debug)]
pub struct Owned {
    pub place: BlockId,
    /// The prefix of its source.
    pub source: u128,
    /// Index in [`super::limit::Sources`].
    pub part: u32,
    /// Time since which no port is bound or lent, as of the last check.
    pub idle_since: Option<Millis>,
}

impl Blocks {
    /// Creates an empty list. None if the configuration gives no blocks to sources.
    pub fn of(config: &Nat64Config, keys: Keys) -> Option<Blocks> {
        // With fixed blocks only, no source gets another block.
        let fixed = || PortBlocks {
            ports: 64,
            per_source: 0,
            source_prefix_len: config.limits.source_prefix_len,
        };
        let rules = config
            .blocks
            .or_else(|| config.deterministic.as_ref().map(|_| fixed()))?;
        Some(Blocks {
            rules,
            idle: config
                .blocks
                .map_or(Duration::ZERO, |_| config.timeouts.port_block),
            owned: Vec::new(),
            by_place: HashMap::with_hasher(keys),
            by_source: HashMap::with_hasher(keys),
            next_look: 0,
        })
    }

    /// The blocks of a source, without its fixed one.
    pub fn of_source(&self, source: u128) -> &[BlockId] {
        self.by_source.get(&source).map_or(&[], Vec::as_slice)
    }

    /// Adds a block to a source.
    pub fn add(&mut self, place: BlockId, source: u128, part: u32) {
        self.by_place.insert(place, self.owned.len() as u32);
        self.by_source.entry(source).or_default().push(place);
        self.owned.push(Owned {
            place,
            source,
            part,
            idle_since: None,
        });
    }

    /// Removes a block from its owner.
    pub fn remove(&mut self, at: usize) -> Owned {
        let gone = self.owned.swap_remove(at);
        self.by_place.remove(&gone.place);
        if let Some(moved) = self.owned.get(at) {
            self.by_place.insert(moved.place, at as u32);
        }
        if let Some(its) = self.by_source.get_mut(&gone.source) {
            its.retain(|place| *place != gone.place);
            if its.is_empty() {
                self.by_source.remove(&gone.source);
            }
        }
        gone
    }

    /// Records that a port of a block is in use, so the block is not idle.
    pub fn note_used(&mut self, place: BlockId) {
        if let Some(&at) = self.by_place.get(&place) {
            self.owned[at as usize].idle_since = None;
        }
    }
}
