// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The findings about a running program: kind, a reason from a fixed list, and a sentence for people.

use serde::{Deserialize, Serialize};

/// The consequence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Some or all packets cannot pass: the program is not ready.
    Obstacle,
    /// Packets pass, but something else does not work.
    Trouble,
}

/// The reason. Metrics use the names as labels, so they contain no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Links, routes, forwarding or the prefix: packets have no path.
    Way,
    /// Addresses that lead to the translator are in a connected network, and no node answers for them there.
    Unannounced,
    /// The CLAT's IPv6 address is in no prefix that is known to lead here.
    AddressElsewhere,
    /// An unknown BPF program gets the uplink's packets before the CLAT's program.
    UnknownProgram,
    /// The network announces another translation prefix than the configuration.
    PrefixContradicted,
    /// Packets leave a CLAT, and none come back.
    Unanswered,
    /// Packets bypass IPsec policies.
    Ipsec,
    /// Packets bypass nftables rules.
    Netfilter,
    /// This host may choose ports that the pool has.
    Ports,
    /// Packets loop between this router and others.
    Loop,
    /// The state file cannot be written.
    StateFile,
    /// A collector of the binding log accepts no records.
    Log,
    /// Metrics cannot be served at one of their addresses.
    Metrics,
    /// The P4 switch is not there, or refuses rules or sessions.
    Switch,
    /// A cluster node does not create bindings yet.
    ClusterStarting,
    /// The engine of a cluster does not answer, or nodes use different engines.
    ClusterEngine,
    /// Another node of the cluster does not answer.
    ClusterUnreachable,
    /// The file of another node differs.
    ClusterDiffers,
    /// Packets cannot be sent to another node.
    ClusterWay,
    /// Another node does not acknowledge, so ports do not become free again.
    ClusterPorts,
    /// Another node sends messages that are not allowed, reads messages too slowly, or its bindings do not arrive.
    ClusterPeer,
    /// A reason of a newer version of the program.
    #[serde(other)]
    Other,
}

impl Reason {
    /// All reasons of this version.
    pub const ALL: [Reason; 21] = [
        Reason::Way,
        Reason::Unannounced,
        Reason::AddressElsewhere,
        Reason::UnknownProgram,
        Reason::PrefixContradicted,
        Reason::Unanswered,
        Reason::Ipsec,
        Reason::Netfilter,
        Reason::Ports,
        Reason::Loop,
        Reason::StateFile,
        Reason::Log,
        Reason::Metrics,
        Reason::Switch,
        Reason::ClusterStarting,
        Reason::ClusterEngine,
        Reason::ClusterUnreachable,
        Reason::ClusterDiffers,
        Reason::ClusterWay,
        Reason::ClusterPorts,
        Reason::ClusterPeer,
    ];

    /// The name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Way => "way",
            Reason::Unannounced => "unannounced",
            Reason::AddressElsewhere => "address_elsewhere",
            Reason::UnknownProgram => "unknown_program",
            Reason::PrefixContradicted => "prefix_contradicted",
            Reason::Unanswered => "unanswered",
            Reason::Ipsec => "ipsec",
            Reason::Netfilter => "netfilter",
            Reason::Ports => "ports",
            Reason::Loop => "loop",
            Reason::StateFile => "state_file",
            Reason::Log => "log",
            Reason::Metrics => "metrics",
            Reason::Switch => "switch",
            Reason::ClusterStarting => "cluster_starting",
            Reason::ClusterEngine => "cluster_engine",
            Reason::ClusterUnreachable => "cluster_unreachable",
            Reason::ClusterDiffers => "cluster_differs",
            Reason::ClusterWay => "cluster_way",
            Reason::ClusterPorts => "cluster_ports",
            Reason::ClusterPeer => "cluster_peer",
            Reason::Other => "other",
        }
    }
}

/// A problem of the running program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The consequence.
    pub kind: Kind,
    /// The reason, in a word.
    pub reason: Reason,
    /// The problem, its place, and what to do.
    pub text: String,
}

impl Finding {
    /// An obstacle: packets cannot pass.
    pub fn obstacle(reason: Reason, text: impl Into<String>) -> Finding {
        let (kind, text) = (Kind::Obstacle, text.into());
        Finding { kind, reason, text }
    }

    /// A problem with which packets still pass.
    pub fn trouble(reason: Reason, text: impl Into<String>) -> Finding {
        let (kind, text) = (Kind::Trouble, text.into());
        Finding { kind, reason, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_metrics_have_the_same_names() {
        for reason in Reason::ALL {
            let json = serde_json::to_value(reason).expect("a word");
            assert_eq!(json, reason.name());
        }
        let unknown: Reason = serde_json::from_str("\"of_tomorrow\"").expect("a word");
        assert_eq!(unknown, Reason::Other);
    }
}
