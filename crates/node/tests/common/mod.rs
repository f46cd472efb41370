// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of a small cluster, for tests.

use diolkos_node::config::{Bounds, Member, Timing};
use diolkos_node::{Config, NodeId};

/// Returns the configuration of one of these nodes; each has a name, and networks separated by
/// spaces.
pub fn file<S: AsRef<str>>(me: usize, nodes: impl IntoIterator<Item = (S, S)>) -> Config {
    let nets = |pool: S| {
        let nets = pool.as_ref().split_whitespace();
        nets.map(|net| net.parse().expect("a network")).collect()
    };
    let members = nodes.into_iter().map(|(name, pool)| Member {
        name: name.as_ref().to_owned(),
        pool4: nets(pool),
    });
    Config {
        me: NodeId(me as u8),
        members: members.collect(),
        source_prefix_len: 64,
        key: [1, 2],
        pools: Vec::new(),
        pref64: vec!["64:ff9b::/96".parse().expect("a network")],
        lifetimes_s: vec![300, 7440],
        timing: Timing::default(),
        defer: false,
        bounds: Bounds {
            changes: 100,
            resting: 100,
        },
    }
}
