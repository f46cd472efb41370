// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of blocks of ports that sources were given ([`super::blocks`] gives them).

use super::clock::Millis;
use super::key::Keys;
use crate::config::{Nat64Config, PortBlocks};
use crate::pool::Place;
use std::collections::HashMap;
use std::time::Duration;

/// All blocks that somebody has.
#[derive(Debug)]
pub struct Blocks {
    pub rules: PortBlocks,
    /// For so long after its last use a block stays with its source.
    pub idle: Duration,
    /// In no order.
    pub owned: Vec<Owned>,
    pub by_place: HashMap<Place, u32, Keys>,
    /// The oldest first.
    by_source: HashMap<u128, Vec<Place>, Keys>,
    pub next_look: usize,
}

/// A block that somebody has.
#[derive(Debug)]
pub struct Owned {
    pub place: Place,
    /// Whose it is.
    pub source: u128,
    /// In [`super::limit::Sources`].
    pub part: u32,
    /// Since when no port of it is bound or lent, as far as anybody has looked.
    pub idle_since: Option<Millis>,
}

impl Blocks {
    /// None yet; and none at all if the configuration gives nobody blocks.
    pub fn of(config: &Nat64Config, keys: Keys) -> Option<Blocks> {
        // Fixed blocks alone: nobody gets another one.
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

    /// Those of a source, without the fixed one.
    pub fn of_source(&self, source: u128) -> &[Place] {
        self.by_source.get(&source).map_or(&[], Vec::as_slice)
    }

    /// A source has one more.
    pub fn add(&mut self, place: Place, source: u128, part: u32) {
        self.by_place.insert(place, self.owned.len() as u32);
        self.by_source.entry(source).or_default().push(place);
        self.owned.push(Owned {
            place,
            source,
            part,
            idle_since: None,
        });
    }

    /// One has no owner any more.
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

    /// A port of a block is in use. Returns its number, and since when none was.
    pub fn note_used(&mut self, place: Place) {
        if let Some(&at) = self.by_place.get(&place) {
            self.owned[at as usize].idle_since = None;
        }
    }
}
