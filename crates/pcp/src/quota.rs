// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many mappings there may be: in all, of a source, and the shares of hosts, sources and sites in what the others leave, by
//! the rule of the tables ([`Level::limit`]).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use diolkos_nat64::config::{Level, LevelKind, Limits};

/// Why there is no room for one more mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// There are as many as there may be.
    All,
    /// A prefix of the node has its part.
    Part,
}

/// The mappings of each prefix that has some.
#[derive(Debug)]
pub struct Quota {
    levels: Vec<Level>,
    most: u32,
    of_source: u32,
    all: u32,
    /// By the place of the level and the prefix.
    counts: BTreeMap<(usize, u128), u32>,
}

impl Quota {
    /// Without mappings. `most`: in all; `of_source`: of one source.
    pub fn new(limits: &Limits, most: u32, of_source: u32) -> Quota {
        Quota {
            levels: limits.levels().collect(),
            most,
            of_source,
            all: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Number of all mappings.
    pub fn all(&self) -> u32 {
        self.all
    }

    /// Checks whether a node may have one more.
    pub fn room(&self, node: Ipv6Addr) -> Result<(), Full> {
        let mut free = u64::from(self.most.saturating_sub(self.all));
        if free == 0 {
            return Err(Full::All);
        }
        for (at, level) in self.levels.iter().enumerate() {
            let key = (at, level.prefix_of(node));
            let used = u64::from(self.counts.get(&key).copied().unwrap_or(0));
            let mut limit = level.limit(used, free);
            if level.kind == LevelKind::Source {
                limit = limit.min(self.of_source.into());
            }
            if used >= limit {
                return Err(Full::Part);
            }
            free = free.min(limit - used);
        }
        Ok(())
    }

    /// Counts a new mapping of a node.
    pub fn add(&mut self, node: Ipv6Addr) {
        self.all += 1;
        for (at, level) in self.levels.iter().enumerate() {
            *self.counts.entry((at, level.prefix_of(node))).or_default() += 1;
        }
    }

    /// Counts a mapping of a node that has ended.
    pub fn remove(&mut self, node: Ipv6Addr) {
        self.all -= 1;
        for (at, level) in self.levels.iter().enumerate() {
            let key = (at, level.prefix_of(node));
            if let Some(count) = self.counts.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&key);
                }
            }
        }
    }
}
