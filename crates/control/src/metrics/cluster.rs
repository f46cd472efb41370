// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics of a cluster node. Figures about other nodes are labelled with their names; a cluster file has 32 nodes at most.

use prometheus_client::registry::Unit;

use super::family::{Family, Value};
use diolkos_figures::cluster_status::{ClusterStatus, NodeRole, NodeStatus};

/// All families.
pub fn families(status: &ClusterStatus) -> Vec<Family> {
    let mut families = own(status);
    families.extend(of_nodes(status));
    families.extend(counted(status));
    families
}

/// Figures of this node and its engine.
fn own(status: &ClusterStatus) -> Vec<Family> {
    let mut part = Family::new(
        "diolkos_cluster_part",
        "What this node does in its cluster: 1 for one of the parts.",
    );
    for its in NodeRole::ALL {
        let is_it = u64::from(its == status.part);
        part.add(&[("part", its.name())], Value::Gauge(is_it));
    }
    let requests = Family::new(
        "diolkos_cluster_engine_requests",
        "Requests to the engine, by result.",
    );
    let engine = &status.engine;
    vec![
        part,
        Family::gauge(
            "diolkos_cluster_attracts",
            "Whether this node attracts packets by its routes: 1 or 0.",
            status.attracts.into(),
        ),
        Family::gauge(
            "diolkos_cluster_bindings",
            "Bindings of this node, which others copy.",
            status.bindings.into(),
        ),
        Family::gauge(
            "diolkos_cluster_resting_ports",
            "Ports whose bindings ended, and that no other subscriber may have yet.",
            status.resting.into(),
        ),
        seconds(
            "diolkos_cluster_engine_silent",
            "For how long the engine has not answered. Two seconds are usual.",
        )
        .with(&[], moment(engine.silent_ms)),
        requests
            .with(&[("result", "answered")], Value::Counter(engine.answered))
            .with(
                &[("result", "unanswered")],
                Value::Counter(engine.unanswered),
            ),
    ]
}

/// Figures of the other nodes.
fn of_nodes(status: &ClusterStatus) -> Vec<Family> {
    let each = |family: Family, value: &dyn Fn(&NodeStatus) -> Value| {
        let nodes = status.nodes.iter();
        nodes.fold(family, |family, its| {
            family.with(&[("node", &its.name)], value(its))
        })
    };
    let flag = |name, help, is_so: fn(&NodeStatus) -> bool| {
        each(Family::new(name, help), &|its| {
            Value::Gauge(is_so(its).into())
        })
    };
    vec![
        flag(
            "diolkos_cluster_node_connected",
            "Whether a connection with the node is up: 1 or 0.",
            |its| its.is_connected,
        ),
        flag(
            "diolkos_cluster_node_reachable",
            "Whether the node has answered within the last second: 1 or 0.",
            |its| its.is_reachable,
        ),
        flag(
            "diolkos_cluster_node_serves",
            "Whether the node opens bindings for new subscribers: 1 or 0.",
            |its| its.serves,
        ),
        flag(
            "diolkos_cluster_node_has_way",
            "Whether a link leads to the node, by which packets can be sent to it: 1 or 0.",
            |its| its.interface.is_some(),
        ),
        each(
            Family::new(
                "diolkos_cluster_node_copies",
                "Copies of the node's bindings that this one has.",
            ),
            &|its| Value::Gauge(its.copies.into()),
        ),
        each(
            seconds(
                "diolkos_cluster_node_copies_usable",
                "For how long these copies may be used if the node goes away now; 0: not at all.",
            ),
            &|its| moment(its.copies_usable_ms.unwrap_or_default()),
        ),
        each(
            Family::new(
                "diolkos_cluster_node_unacknowledged_changes",
                "Changes of this node's bindings that the node has not acknowledged.",
            ),
            &|its| Value::Gauge(its.unacknowledged.unwrap_or_default()),
        ),
        each(
            seconds(
                "diolkos_cluster_node_blocks",
                "For how long ports have waited for the node's acknowledgement.",
            ),
            &|its| moment(its.blocks_ms.unwrap_or_default()),
        ),
    ]
}

/// Counters.
fn counted(status: &ClusterStatus) -> Vec<Family> {
    let mut packets = Family::new(
        "diolkos_cluster_forwarded_packets",
        "Packets that programs sent to the node that they belong to.",
    );
    let mut bytes = Family::new(
        "diolkos_cluster_forwarded",
        "Bytes of packets that programs sent to the node that they belong to, from the IP header on.",
    )
    .unit(Unit::Bytes);
    let mut unsent = Family::new(
        "diolkos_cluster_unforwarded_packets",
        "Packets of another node that programs did not send to it, by reason. But for no_memory, the slow path gets them.",
    );
    let arrived = Family::new(
        "diolkos_cluster_arrived_packets",
        "Packets from other nodes for which programs had no session, by what became of them. The slow path gets those that were returned.",
    );
    let arrived = [
        ("returned", status.arrived.returned),
        ("no_memory", status.arrived.dropped),
        ("forged", status.arrived.forged),
    ]
    .into_iter()
    .fold(arrived, |family, (fate, times)| {
        family.with(&[("fate", fate)], Value::Counter(times))
    });
    let mut reports = Family::new(
        "diolkos_cluster_reports",
        "What was reported of other nodes, by kind.",
    );
    let mut refused = Family::new(
        "diolkos_cluster_refused_connections",
        "Connections with other nodes that were refused, by reason.",
    );
    for its in &status.nodes {
        let (node, forwarded) = (("node", &*its.name), its.forwarded);
        packets.add(&[node], Value::Counter(forwarded.packets));
        bytes.add(&[node], Value::Counter(forwarded.bytes));
        for (reason, times) in [
            ("too_big", forwarded.too_big),
            ("no_way", forwarded.no_way),
            ("hop_limit", forwarded.hops),
            ("no_memory", forwarded.dropped),
        ] {
            unsent.add(&[node, ("reason", reason)], Value::Counter(times));
        }
        for (kind, times) in [
            ("strange", its.strange),
            ("slow", its.slow),
            ("void", its.voided),
        ] {
            reports.add(&[node, ("report", kind)], Value::Counter(times));
        }
    }
    for (reason, times) in &status.refused {
        refused.add(&[("reason", reason)], Value::Counter(*times));
    }
    vec![packets, bytes, unsent, arrived, reports, refused]
}

fn seconds(name: &'static str, help: &'static str) -> Family {
    Family::new(name, help).unit(Unit::Seconds)
}

fn moment(ms: u64) -> Value {
    Value::Moment(ms as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv6Addr;

    use super::super::family::text;
    use super::*;
    use diolkos_figures::cluster_status::{EngineStatus, Forwarded};

    #[test]
    fn a_page_has_this_node_and_each_other_one() {
        let status = ClusterStatus {
            part: NodeRole::Draining,
            resting: 3,
            engine: EngineStatus {
                silent_ms: 1500,
                unanswered: 2,
                ..EngineStatus::default()
            },
            nodes: vec![NodeStatus {
                is_reachable: true,
                copies: 7,
                copies_usable_ms: Some(5800),
                slow: 4,
                forwarded: Forwarded {
                    packets: 5,
                    bytes: 600,
                    too_big: 1,
                    ..Forwarded::default()
                },
                ..NodeStatus::new("gw2".to_owned(), Ipv6Addr::LOCALHOST)
            }],
            refused: BTreeMap::from([("untrusted".to_owned(), 9)]),
            ..ClusterStatus::default()
        };
        let page = text(families(&status));
        for line in [
            "diolkos_cluster_part{part=\"serving\"} 0",
            "diolkos_cluster_part{part=\"draining\"} 1",
            "diolkos_cluster_attracts 0",
            "diolkos_cluster_resting_ports 3",
            "diolkos_cluster_engine_silent_seconds 1.5",
            "diolkos_cluster_engine_requests_total{result=\"unanswered\"} 2",
            "diolkos_cluster_node_reachable{node=\"gw2\"} 1",
            "diolkos_cluster_node_has_way{node=\"gw2\"} 0",
            "diolkos_cluster_node_copies{node=\"gw2\"} 7",
            "diolkos_cluster_node_copies_usable_seconds{node=\"gw2\"} 5.8",
            "diolkos_cluster_node_blocks_seconds{node=\"gw2\"} 0.0",
            "diolkos_cluster_forwarded_packets_total{node=\"gw2\"} 5",
            "diolkos_cluster_forwarded_bytes_total{node=\"gw2\"} 600",
            "diolkos_cluster_unforwarded_packets_total{node=\"gw2\",reason=\"too_big\"} 1",
            "diolkos_cluster_reports_total{node=\"gw2\",report=\"slow\"} 4",
            "diolkos_cluster_refused_connections_total{reason=\"untrusted\"} 9",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line} in {page}");
        }
    }
}
