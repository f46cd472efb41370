// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the worker tells of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diolkos_sys::fastpath::Forwarded;

use super::rank::Rank;
use super::worker::Worker;
use super::View;
use crate::cluster_status::{ClusterStatus, NodeStatus, Part};
use crate::counters::Counter;

impl Worker {
    pub(super) fn view(&self, now: Duration) -> View {
        let slices = 0..self.slices.len() as u32;
        let mut of_node: BTreeMap<u16, u32> = BTreeMap::new();
        let (mut open, mut unowned) = (0, 0);
        let mut owned = BTreeSet::new();
        for slice in slices {
            match self.ownership.owner(slice) {
                Some(owner) => *of_node.entry(owner.0).or_default() += 1,
                None => unowned += 1,
            }
            if self.ownership.may_open(now, slice) {
                open += 1;
            }
            let leads = self.ownership.owner(slice) == Some(self.me) && self.runs(now);
            if let Some(slice) = self.slices.get(slice).filter(|_| leads) {
                owned.insert(slice.addr);
            }
        }
        let moving = self.ownership.acquiring(now).count() + self.ownership.closing().count();
        let standby = self.tables.standby_figures();
        let nodes = self.nodes.iter().map(|node| NodeStatus {
            name: node.name.clone(),
            address: Some(node.address),
            is_alive: self.ownership.is_alive(diolkos_cluster::NodeId(node.id)),
            is_reachable: node.id == self.me.0
                || self.steering.is_reached(diolkos_cluster::NodeId(node.id)),
            slices: of_node.get(&node.id).copied().unwrap_or_default(),
            forwarded: self.steering.forwarded(node.id).packets,
        });
        let nodes: Vec<NodeStatus> = nodes.collect();
        let me = self.nodes.iter().find(|node| node.id == self.me.0);
        View {
            status: ClusterStatus {
                name: self.name.clone(),
                node: me.map_or_else(String::new, |node| node.name.clone()),
                part: self.part(now),
                server: self.server.clone(),
                trouble: self.trouble.as_ref().map(|trouble| trouble.why.clone()),
                lease_ms: self.lease_left(now),
                slices: self.slices.len() as u32,
                open,
                moving: moving as u32,
                unowned,
                nodes,
                standby_bindings: standby.bindings,
                standby_bytes: standby.bytes,
                lag_ms: self.tables.lag(now).as_millis() as u64,
                counters: self.counters(),
            },
            owned,
            rank: self.rank(),
        }
    }

    /// It should get packets if it takes part and has once been a member.
    fn rank(&self) -> Rank {
        match self.takes_part && !self.is_cut_off && self.has_been_member {
            false => Rank::Withdrawn,
            true if self.absence.is_long() => Rank::Reserve,
            true => Rank::Preferred,
        }
    }

    fn part(&self, now: Duration) -> Part {
        match (
            self.takes_part && !self.is_cut_off,
            self.ownership.has_left(),
        ) {
            (false, true) => Part::Drained,
            (false, false) => Part::Leaving,
            (true, _) if self.runs(now) => Part::Member,
            (true, _) => Part::Waiting,
        }
    }

    fn runs(&self, now: Duration) -> bool {
        self.ownership.lease_ends().is_some_and(|ends| now < ends)
    }

    fn lease_left(&self, now: Duration) -> Option<u64> {
        let left = self.ownership.lease_ends()?.checked_sub(now)?;
        Some(left.as_millis() as u64)
    }

    fn counters(&self) -> Vec<Counter> {
        let of_nodes = self.nodes.iter();
        let forwarded: Vec<Forwarded> = of_nodes.map(|n| self.steering.forwarded(n.id)).collect();
        let counts = &self.counts;
        let of_tables = self.tables.counts();
        let own = [
            ("forwarded", forwarded.iter().map(|f| f.packets).sum()),
            ("forward_dropped", forwarded.iter().map(|f| f.dropped).sum()),
            (
                "forward_returned",
                forwarded.iter().map(|f| f.returned).sum(),
            ),
            ("strangers", counts.strangers),
            ("refused_writes", counts.refused_writes),
            ("connection_lost", counts.losses),
            ("engine_reset", counts.resets),
            ("lease_lapsed", counts.lapses),
        ];
        own.into_iter()
            .chain(of_tables)
            .map(|(name, packets)| Counter {
                name: format!("cluster.{name}"),
                packets,
                bytes: None,
            })
            .collect()
    }
}
