// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The prefixes of each size that hold most, and their use of what they may have.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use diolkos_figures::entries::{Entries, Order, TopRow};
use diolkos_nat64::session::Holding;

use super::controller::BUDGET;
use super::Controller;

/// Maximum number of lines of each size in one answer.
const LINES: usize = 1000;

/// The prefixes that hold most so far; the least of them is popped first.
type Largest = BinaryHeap<Reverse<(u64, Rank)>>;

/// Returns the first `lines` prefixes of each size, the widest size first. Packets pass in between.
pub fn top(controller: &Controller, order: Order, lines: usize) -> Entries<TopRow> {
    let lines = lines.min(LINES);
    let mut sizes: Vec<(u8, Largest)> = Vec::new();
    let mut total = 0;
    let mut next = Some(0);
    while let Some(first) = next {
        let (holdings, after) = controller.holdings_from(first, BUDGET);
        next = after;
        total += holdings.len() as u32;
        for holding in holdings {
            let len = holding.prefix_len;
            let at = match sizes.iter().position(|(its, _)| *its == len) {
                Some(at) => at,
                None => {
                    sizes.push((len, BinaryHeap::new()));
                    sizes.len() - 1
                }
            };
            let heap = &mut sizes[at].1;
            heap.push(Reverse((order.of(&holding), Rank(holding))));
            if heap.len() > lines {
                heap.pop();
            }
        }
    }
    sizes.sort_by_key(|(len, _)| *len);
    let ranked = sizes
        .into_iter()
        .flat_map(|(_, heap)| heap.into_sorted_vec());
    let rows = ranked.map(|Reverse((_, Rank(holding)))| TopRow::from(&holding));
    Entries {
        entries: rows.collect(),
        total,
    }
}

/// Orders equal holdings by prefix, the lower first.
#[derive(PartialEq, Eq)]
struct Rank(Holding);

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> std::cmp::Ordering {
        other.0.prefix.cmp(&self.0.prefix)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
