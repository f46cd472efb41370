// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::net::Ipv6Addr;

use diolkos_fastpath::Gateway as Hop;
use diolkos_mesh::Refused;
use diolkos_node::config::{Bounds, Config, Member, Timing};
use diolkos_node::{Event, Report};

use super::*;
use diolkos_config::Node as Named;
use diolkos_control::translator::{FindingKind, Reason};
use diolkos_figures::cluster_status::NodeRole;

const GW2: NodeId = NodeId(1);

/// A gateway of two that has just started, and its status.
struct Lab {
    section: Cluster,
    node: Node,
    notes: Notes,
}

impl Lab {
    fn new() -> Lab {
        let names = ["gw1", "gw2"];
        let named = names.map(|name| Named {
            name: name.to_owned(),
            address: Ipv6Addr::LOCALHOST,
            links: Vec::new(),
            pool4: Vec::new(),
        });
        let members = ["192.0.2.0/29", "192.0.2.8/29"].map(|net| net.parse().expect("a network"));
        let members = names.iter().zip(members).map(|(name, net)| Member {
            name: (*name).to_owned(),
            pool4: vec![net],
        });
        let config = Config {
            me: NodeId(0),
            members: members.collect(),
            source_prefix_len: 64,
            key: [1, 2],
            pools: Vec::new(),
            pref64: Vec::new(),
            lifetimes_s: Vec::new(),
            timing: Timing::default(),
            defer: false,
            bounds: Bounds {
                changes: 10,
                resting: 10,
            },
        };
        Lab {
            section: Cluster {
                name: "city".to_owned(),
                node: named.into(),
                ..Cluster::default()
            },
            node: Node::new(config, 7, [3, 4], at(0)).expect("it is right"),
            notes: Notes::of_nodes(names, at(0)),
        }
    }

    /// Returns the status without connections, when etcd has answered `answered` requests.
    fn look(&mut self, now: Moment, answered: u64) -> ClusterStatus {
        let engine = diolkos_etcd::Status {
            answered,
            reason: Some("gone".to_owned()),
            ..diolkos_etcd::Status::default()
        };
        let mut status = of_node(&self.section, &self.node, now, &mut self.notes);
        status.engine = of_engine(&self.node, engine, now, &mut self.notes);
        status.findings = findings(&status, &self.notes, now);
        status
    }
}

fn at(s: u64) -> Moment {
    Duration::from_secs(s)
}

fn reasons(status: &ClusterStatus) -> Vec<Reason> {
    status.findings.iter().map(|its| its.reason).collect()
}

#[test]
fn a_node_that_starts_says_for_whom_it_waits() {
    let mut lab = Lab::new();
    let status = lab.look(at(2), 1);
    assert_eq!((&*status.name, &*status.node), ("city", "gw1"));
    assert_eq!((status.part, status.part_ms), (NodeRole::Starting, 2000));
    assert_eq!(status.waits_for, ["gw2"]);
    assert!(!status.attracts);
    let names: Vec<&str> = status.nodes.iter().map(|its| &*its.name).collect();
    assert_eq!(names, ["gw2"]);
    let [only] = &status.findings[..] else {
        panic!("{:?}", status.findings)
    };
    assert_eq!(only.kind, FindingKind::Obstacle);
    assert!(only.text.contains("waits until gw2 has said"), "{only:?}");
}

#[test]
fn who_is_away_is_a_trouble_after_a_while_with_its_cause() {
    let mut lab = Lab::new();
    lab.look(at(0), 1);
    let status = lab.look(at(3), 2);
    assert_eq!(
        reasons(&status),
        [Reason::ClusterStarting, Reason::ClusterUnreachable]
    );
    let text = &status.findings[1].text;
    assert!(text.contains("no link leads to ::1: bring up"), "{text}");
    let hop = Hop {
        ifindex: 1,
        next_hop: Ipv6Addr::LOCALHOST,
        mtu: 1500,
    };
    lab.notes.reach(GW2, Some(hop));
    let status = lab.look(at(4), 3);
    assert_eq!(status.nodes[0].interface.as_deref(), Some("lo"));
    let text = &status.findings[1].text;
    assert!(text.contains("see whether it runs"), "{text}");

    let now = diolkos_sys::clock::kernel_boottime();
    lab.notes.refused(&Refused {
        why: Refusal::Expired,
        address: Ipv6Addr::LOCALHOST.into(),
        peer: Some(GW2),
        times: 1,
    });
    let status = lab.look(now, 4);
    let text = &status.findings[1].text;
    assert!(
        text.contains("(expired): replace the certificate"),
        "{text}"
    );
    assert_eq!(status.nodes[0].refused.as_deref(), Some("expired"));
    let later = lab.look(now + notes::RECENT + at(1), 5);
    assert_eq!(later.nodes[0].refused, None);
}

#[test]
fn another_file_is_named_by_its_part_until_it_is_the_same() {
    let mut lab = Lab::new();
    lab.look(at(0), 1);
    lab.notes.note(Report::Differs(GW2, "lifetimes"));
    let status = lab.look(at(5), 2);
    assert_eq!(
        reasons(&status),
        [Reason::ClusterStarting, Reason::ClusterDiffers]
    );
    assert!(status.findings[1].text.contains("nat64.timeouts"));
    assert_eq!(status.nodes[0].differs.as_deref(), Some("lifetimes"));

    // It connects, and says hello with the same file.
    let mut out = Vec::new();
    let room = 1 << 20;
    lab.node.handle(
        at(6),
        Event::Connected {
            peer: GW2,
            connection: 1,
            room,
        },
        &mut out,
    );
    let hello = out.iter().find_map(|action| match action {
        diolkos_node::Action::Send { bytes, .. } => Some(bytes.clone()),
        _ => None,
    });
    let bytes = &hello.expect("it says hello")[..];
    lab.node.handle(
        at(6),
        Event::Message {
            peer: GW2,
            connection: 1,
            bytes,
        },
        &mut out,
    );
    let status = lab.look(at(6), 3);
    assert_eq!(
        (status.nodes[0].differs.as_deref(), status.waits_for.len()),
        (None, 0)
    );
    assert_eq!(status.nodes[0].part, Some(NodeRole::Starting));
}

#[test]
fn an_engine_that_is_silent_is_a_trouble_with_its_reason() {
    let mut lab = Lab::new();
    assert_eq!(lab.look(at(7), 0).engine.silent_ms, 7000);
    let status = lab.look(at(8), 0);
    let found = status
        .findings
        .iter()
        .find(|its| its.reason == Reason::ClusterEngine);
    let text = found.map(|its| &*its.text).unwrap_or_default();
    assert!(
        text.starts_with("no member of etcd answers: gone;"),
        "{text}"
    );
    let status = lab.look(at(9), 1);
    assert_eq!(status.engine.silent_ms, 0);
    assert!(!reasons(&status).contains(&Reason::ClusterEngine));
}

#[test]
fn every_part_that_nodes_compare_has_a_name_for_people() {
    for part in diolkos_node::config::PARTS {
        assert_ne!(file_part(part), part);
    }
}
