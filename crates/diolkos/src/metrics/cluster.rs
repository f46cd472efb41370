// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What figures of a cluster's node are called. Its counters are events of the part `cluster`.

use prometheus_client::registry::Unit;

use super::family::{Family, Value};
use crate::cluster_status::{ClusterStatus, Part};

/// All of them.
pub fn families(status: &ClusterStatus) -> Vec<Family> {
    let gauge = Family::gauge;
    let seconds = |name, help, ms: u64| {
        let family = Family::new(name, help).unit(Unit::Seconds);
        family.with(&[], Value::Moment(ms as f64 / 1000.0))
    };
    let alive = status.nodes.iter().filter(|node| node.is_alive).count();
    let reached = status.nodes.iter().filter(|node| node.is_reachable).count();
    vec![
        gauge(
            "diolkos_cluster_member",
            "Whether this node has a lease and takes part: 1 or 0.",
            u64::from(status.part == Part::Member),
        ),
        gauge(
            "diolkos_cluster_connected",
            "Whether this node is connected to the engine: 1 or 0.",
            u64::from(status.server.is_some()),
        ),
        gauge(
            "diolkos_cluster_slices",
            "Slices of the pool.",
            status.slices.into(),
        ),
        gauge(
            "diolkos_cluster_open_slices",
            "Slices in which this node may open bindings.",
            status.open.into(),
        ),
        gauge(
            "diolkos_cluster_moving_slices",
            "Slices that this node takes or hands over.",
            status.moving.into(),
        ),
        gauge(
            "diolkos_cluster_unowned_slices",
            "Slices without an owner that is alive.",
            status.unowned.into(),
        ),
        gauge(
            "diolkos_cluster_nodes",
            "Nodes of the cluster's file.",
            status.nodes.len() as u64,
        ),
        gauge(
            "diolkos_cluster_live_nodes",
            "Nodes that renew their leases.",
            alive as u64,
        ),
        gauge(
            "diolkos_cluster_reachable_nodes",
            "Nodes to which the kernel has a route, and this one.",
            reached as u64,
        ),
        gauge(
            "diolkos_cluster_standby_bindings",
            "Bindings of other nodes that this one keeps.",
            status.standby_bindings,
        ),
        gauge(
            "diolkos_cluster_standby_bytes",
            "Memory of these.",
            status.standby_bytes,
        ),
        seconds(
            "diolkos_cluster_lag",
            "Age of the oldest change of a binding that the others have not been told.",
            status.lag_ms,
        ),
        seconds(
            "diolkos_cluster_lease",
            "For how long this node may open bindings without hearing from the engine.",
            status.lease_ms.unwrap_or_default(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::family::text;
    use super::*;
    use crate::cluster_status::NodeStatus;

    #[test]
    fn a_node_without_a_lease_is_no_member() {
        let status = ClusterStatus {
            slices: 16,
            unowned: 3,
            lag_ms: 1500,
            nodes: vec![
                NodeStatus {
                    is_alive: true,
                    ..NodeStatus::default()
                },
                NodeStatus::default(),
            ],
            ..ClusterStatus::default()
        };
        let page = text(families(&status));
        for line in [
            "diolkos_cluster_member 0",
            "diolkos_cluster_slices 16",
            "diolkos_cluster_unowned_slices 3",
            "diolkos_cluster_nodes 2",
            "diolkos_cluster_live_nodes 1",
            "diolkos_cluster_lag_seconds 1.5",
            "diolkos_cluster_lease_seconds 0.0",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line} in {page}");
        }
    }
}
