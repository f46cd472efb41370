// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `diolkos cluster`: queries and controls a cluster node, and lists or removes the cluster's data in etcd.

use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use diolkos_etcd::ClusterData;
use diolkos_node::record::{Record, RecordRole};
use diolkos_node::NodeId;

use super::output::{json, print};
use crate::cli;
use crate::error;
use diolkos_cluster::engine;
use diolkos_config as config;
use diolkos_control::translator::{self, Answer, Request};
use diolkos_figures::cluster_status::{ClusterStatus, NodeRole};
use diolkos_service::failure::Failure;

mod roll;

use roll::roll;

/// Interval between status queries while a node drains.
const BREATH: Duration = Duration::from_millis(100);
/// The other nodes learn of the change within a fifth of a second.
const KNOWN_MS: u64 = 500;

/// Sends the request, and prints the answer.
pub fn run(options: cli::Cluster) -> Result<(), Failure> {
    match options {
        cli::Cluster::Status {
            json: as_json,
            device,
        } => {
            let status = status(&device)?;
            print(match as_json {
                true => json(&status),
                false => status.table(),
            })?;
            match status.findings.is_empty() {
                true => Ok(()),
                false => Err(error::not_ready()),
            }
        }
        cli::Cluster::Drain { timeout, device } => drain(&device, Duration::from_secs(timeout)),
        cli::Cluster::Join { device } => order(&device, Request::Join),
        cli::Cluster::Roll {
            cancel: true,
            device,
            ..
        } => order(&device, Request::CancelRoll),
        cli::Cluster::Roll {
            timeout, device, ..
        } => roll(&device, timeout),
        cli::Cluster::Reset(options) => reset(&options),
    }
}

fn drain(device: &str, timeout: Duration) -> Result<(), Failure> {
    order(device, Request::Drain)?;
    let begun = Instant::now();
    loop {
        let status = status(device)?;
        if is_drained(&status) {
            return print(farewell(&status));
        }
        if begun.elapsed() > timeout {
            return Err(error::run_time(format!(
                "after {} s the node is {}{}; it goes on: `diolkos cluster status` says how it stands",
                timeout.as_secs(),
                status.part.name(),
                match status.attracts {
                    true => " and attracts packets",
                    false => "",
                }
            )));
        }
        sleep(BREATH);
    }
}

fn is_drained(status: &ClusterStatus) -> bool {
    status.part == NodeRole::Draining && status.part_ms >= KNOWN_MS && !status.attracts
}

/// The bindings that are left at a drained node, in words.
fn farewell(status: &ClusterStatus) -> String {
    let mut text = format!(
        "{} bindings are left here: they go on until they end, or until the node stops\n",
        status.bindings
    );
    if !status.nodes.iter().any(|its| its.serves) {
        text += "no other node serves: new subscribers still come here, if any packets do\n";
    }
    text
}

/// Runs without a running diolkos.
fn reset(options: &cli::Reset) -> Result<(), Failure> {
    let mut settings = config::load(&options.config, |settings| {
        if let (Some(node), Some(cluster)) = (&options.node, &mut settings.cluster) {
            cluster.me.clone_from(node);
        }
    })?;
    let engine = engine(&mut settings)?;
    let failed = |why| error::run_time(format!("etcd: {why}"));
    let found = diolkos_etcd::inspect(&engine).map_err(failed)?;
    print(listed(&found, &engine.cluster, &engine.nodes))?;
    if !options.yes {
        return Err(error::usage(
            "nothing was removed; say --yes to remove all of it. Nodes that run write it anew. Flows of nodes that are away stop",
        ));
    }
    let removed = diolkos_etcd::reset(&engine).map_err(failed)?;
    print(format!("removed {removed} keys\n"))
}

/// The cluster's data in etcd, one key on each line.
fn listed(found: &ClusterData, cluster: &str, nodes: &[String]) -> String {
    let data = match &found.name {
        Ok(name) => format!("data {name}"),
        Err(why) => why.clone(),
    };
    let mut text = format!(
        "etcd {} has of cluster {cluster} ({data}):\n",
        found.version
    );
    for (key, revision, value) in &found.entries {
        let record = match Record::decode(value) {
            Some(record) => told(&record, nodes),
            None => format!("{} bytes of another format", value.len()),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {key}, revision {revision}: {record}");
    }
    if found.entries.is_empty() {
        text += "  nothing of any node\n";
    }
    text
}

fn told(record: &Record, nodes: &[String]) -> String {
    let mut text = format!("incarnation {}", record.epoch);
    text += match (record.file, record.part) {
        (None, _) => ", without its file",
        (_, RecordRole::Starting) => ", starting",
        (_, RecordRole::Serving) => ", serving",
        (_, RecordRole::Left) => ", left",
    };
    if let Some(file) = record.file {
        // Writing to a string cannot fail.
        let _ = write!(text, ", file {file:016x}");
    }
    for (at, name) in (0..).zip(nodes) {
        let mark = record.void_of(NodeId(at));
        if mark.epoch > 0 {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                ", copies at {name} void up to snapshot {} of incarnation {}",
                mark.serial, mark.epoch
            );
        }
    }
    text
}

fn status(device: &str) -> Result<ClusterStatus, Failure> {
    match translator::ask(device, Request::Cluster)? {
        Answer::Cluster(status) => Ok(*status),
        other => Err(translator::unexpected(&other).into()),
    }
}

fn order(device: &str, request: Request) -> Result<(), Failure> {
    match translator::ask(device, request)? {
        Answer::Done => Ok(()),
        other => Err(translator::unexpected(&other).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use diolkos_node::message::Mark;

    use super::*;
    use diolkos_figures::cluster_status::NodeStatus;

    #[test]
    fn a_node_is_drained_when_the_others_have_heard_of_it() {
        let mut status = ClusterStatus {
            part: NodeRole::Draining,
            part_ms: 499,
            bindings: 12,
            ..ClusterStatus::default()
        };
        assert!(!is_drained(&status));
        status.part_ms = 500;
        assert!(is_drained(&status));
        status.attracts = true;
        assert!(!is_drained(&status));
        assert!(farewell(&status).contains("no other node serves"));
        status.nodes.push(NodeStatus {
            serves: true,
            ..NodeStatus::new("gw2".to_owned(), Ipv6Addr::LOCALHOST)
        });
        assert!(farewell(&status).starts_with("12 bindings are left here"));
        assert!(!farewell(&status).contains("no other node"));
    }

    #[test]
    fn what_etcd_has_is_listed_before_it_goes() {
        let record = Record {
            incarnation: 7,
            epoch: 3,
            file: Some(0xfe),
            part: RecordRole::Serving,
            void: vec![
                Mark::default(),
                Mark {
                    epoch: 2,
                    serial: 5,
                },
            ],
        };
        let key = |name: &str| format!("/diolkos/city/node/{name}/record");
        let found = ClusterData {
            version: "3.5.21".to_owned(),
            name: Ok("7b".to_owned()),
            entries: vec![(key("gw1"), 9, record.encode()), (key("gw2"), 10, vec![9])],
        };
        let nodes = ["gw1", "gw2"].map(str::to_owned);
        assert_eq!(
            listed(&found, "city", &nodes),
            "etcd 3.5.21 has of cluster city (data 7b):\n  \
             /diolkos/city/node/gw1/record, revision 9: incarnation 3, serving, file 00000000000000fe, copies at gw2 void up to snapshot 5 of incarnation 2\n  \
             /diolkos/city/node/gw2/record, revision 10: 1 bytes of another format\n"
        );
        let nothing = ClusterData {
            name: Err("the engine has no name yet".to_owned()),
            entries: Vec::new(),
            ..found
        };
        let listed = listed(&nothing, "city", &nodes);
        assert!(listed.ends_with("(the engine has no name yet):\n  nothing of any node\n"));
    }
}
