// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The problems of a gateway in a cluster, in words that an operator can act on. The texts contain no figures that
//! change all the time, since each new text is a new line in the log.

use std::time::Duration;

use diolkos_mesh::Refusal;
use diolkos_node::config::{NODES, PARTS};
use diolkos_node::{Filed, Moment};

use super::file_part;
use super::notes::{is_recent, NodeNotes, Notes};
use diolkos_control::translator::{Finding, Reason};
use diolkos_figures::cluster_status::{ClusterStatus, NodeRole, NodeStatus};

/// Gateways that have just started, and connections that have just ended, are not yet reported.
const AWAY: Duration = Duration::from_secs(3);
/// A gateway reads its record every two seconds, and asks again after three.
const SILENT_MS: u64 = 8000;
/// After etcd's data has been wiped, gateways change to the new cluster one after the other.
const ELSEWHERE: Duration = Duration::from_secs(15);
/// All bindings of a gateway have to be received after each connection.
const USELESS: Duration = Duration::from_secs(20);
/// Acknowledgements come five times a second.
const BLOCKED_MS: u64 = 5000;

/// Returns all problems.
pub(super) fn findings(status: &ClusterStatus, notes: &Notes, now: Moment) -> Vec<Finding> {
    let mut found = Vec::new();
    if status.part == NodeRole::Starting {
        found.push(starting(status, notes));
    }
    if status.engine.silent_ms >= SILENT_MS {
        let reason = status.engine.reason.as_deref();
        let text = format!(
            "no member of etcd answers: {}; known flows and new ones go on, but if another node goes away, its flows stop after a few seconds",
            reason.unwrap_or("no reason is known")
        );
        found.push(Finding::trouble(Reason::ClusterEngine, text));
    }
    for its in &status.nodes {
        if let Some(notes) = notes.named(&its.name) {
            of_other(its, notes, now, &mut found);
        }
    }
    let strangers = notes.strangers.iter();
    let strangers = strangers.filter_map(|(name, filed)| recorded(name, *filed, true));
    found.extend(strangers.map(|text| Finding::trouble(Reason::ClusterDiffers, text)));
    found
}

/// Describes what a gateway's record means, if it does not say that the gateway has this one's file, and what to do.
fn recorded(name: &str, filed: Filed, is_stranger: bool) -> Option<String> {
    let says = match filed {
        Filed::Nothing | Filed::Same => return None,
        Filed::Starts => {
            "says that it starts by another file (names, pool4 or order of [[cluster.node]])"
        }
        Filed::Serves => {
            "says that it serves by another file (names, pool4 or order of [[cluster.node]])"
        }
        Filed::Unknown => "was written by another version, and names no file",
    };
    let then = match is_stranger {
        true => "this node's file does not name it: give all nodes the same file",
        false => "give it this node's file and start it",
    };
    Some(format!(
        "the record of {name} in etcd {says}, so a node that starts opens no bindings; {then}. If it has stopped for good, `diolkos cluster reset --yes` removes all records"
    ))
}

fn starting(status: &ClusterStatus, notes: &Notes) -> Finding {
    let mut all = status.nodes.iter().map(|its| &its.name);
    let differs = all.find(|name| {
        notes
            .named(name)
            .is_some_and(|its| its.differs == Some(PARTS[NODES]) || its.filed > Filed::Same)
    });
    let strangers = notes.strangers.iter().map(|(name, _)| name);
    let differs = differs.or(strangers.into_iter().next());
    let text = match &status.waits_for[..] {
        _ if differs.is_some() => format!(
            "this node opens no bindings: by the file of {} an address may be another node's; give all nodes the same file",
            differs.map_or("another node", String::as_str)
        ),
        [] => "this node opens no bindings yet: its ports rest for a second, or etcd has not yet noted that it serves".to_owned(),
        waits_for => format!(
            "this node opens no bindings yet: it waits until {} has said which bindings it knows, or has not done so for long; after `cluster roll`, until all have the new file",
            waits_for.join(" and ")
        ),
    };
    Finding::obstacle(Reason::ClusterStarting, text)
}

fn of_other(its: &NodeStatus, notes: &NodeNotes, now: Moment, found: &mut Vec<Finding>) {
    let mut trouble = |reason, text| found.push(Finding::trouble(reason, text));
    let name = &its.name;
    let is_over = |since: Option<Moment>, after| since.is_some_and(|since| now >= since + after);
    if let Some(part) = notes.differs {
        let text = format!(
            "the configuration of {name} differs from this node's in {}: give both the same file (and the same version)",
            file_part(part)
        );
        trouble(Reason::ClusterDiffers, text);
    } else if let Some(text) = recorded(name, notes.filed, false) {
        trouble(Reason::ClusterDiffers, text);
    } else if is_over(notes.away, AWAY) {
        trouble(Reason::ClusterUnreachable, unreachable(its, notes, now));
    }
    if is_over(notes.elsewhere, ELSEWHERE) {
        let text = format!(
            "{name} keeps its record in another etcd than this node: name the same members in both files, and see that they are one etcd cluster"
        );
        trouble(Reason::ClusterEngine, text);
    }
    if is_over(notes.useless, USELESS) {
        let text = format!(
            "copies of the bindings of {name} may not be used, so its flows would end if it went away: look at its load and at the link"
        );
        trouble(Reason::ClusterPeer, text);
    }
    if its.takes_packets && its.interface.is_none() {
        let text = format!(
            "packets for {name} are dropped, since no link leads to {}: bring up the interface between the gateways",
            its.address
        );
        trouble(Reason::ClusterWay, text);
    }
    if its.blocks_ms.is_some_and(|ms| ms >= BLOCKED_MS) {
        let text = format!(
            "{name} does not acknowledge, so ports whose bindings ended rest until it does, or until ports are short: start it, or remove it from all files"
        );
        trouble(Reason::ClusterPorts, text);
    }
    if notes.strange.is_recent(now) {
        let text = format!(
            "{name} sends what it may not send, or what cannot be read: if it has the same version, replace its certificate and key"
        );
        trouble(Reason::ClusterPeer, text);
    }
    if notes.slow.is_recent(now) {
        let text = format!("{name} takes messages too slowly: look at its load and at the link");
        trouble(Reason::ClusterPeer, text);
    }
}

fn unreachable(its: &NodeStatus, notes: &NodeNotes, now: Moment) -> String {
    let (name, address) = (&its.name, its.address);
    let refused = notes.refused.filter(|(.., at)| is_recent(Some(*at), now));
    let why = match refused {
        Some((why, from, _)) => format!(
            "connections with {from} are refused ({}): {}",
            why.name(),
            advice(why)
        ),
        None if its.interface.is_none() => {
            format!("no link leads to {address}: bring up the interface between the gateways")
        }
        None if its.is_connected => {
            "it has a connection, but says nothing: look at its log".to_owned()
        }
        None => format!("see whether it runs, and whether {address} and its port can be reached"),
    };
    format!("{name} does not answer; its flows go on by copies as far as that is safe; {why}")
}

/// Returns what to do. `docs/gateways-tls.md` says more.
fn advice(why: Refusal) -> &'static str {
    match why {
        Refusal::Untrusted => "compare cluster.ca of both gateways",
        Refusal::Expired => "replace the certificate, and see that both clocks are right",
        Refusal::NotYet => "set the clocks of both gateways right",
        Refusal::Unknown => "its certificate needs the name that [[cluster.node]] has",
        Refusal::Several => "each gateway needs a certificate of its own",
        Refusal::Myself => "two gateways have one certificate or one name",
        Refusal::Elsewhere => {
            "the certificate is another node's than the address: compare both with [[cluster.node]]"
        }
        Refusal::NoCertificate | Refusal::Certificate => {
            "make its certificate as docs/gateways-tls.md says"
        }
        Refusal::ByPeer => "that gateway refuses this one's certificate: its log says why",
        Refusal::Stranger
        | Refusal::Crowded
        | Refusal::Slow
        | Refusal::Broken
        | Refusal::Protocol => "see which program connects from there",
    }
}
