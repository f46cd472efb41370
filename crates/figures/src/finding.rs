// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a running program: its kind, a reason from a fixed list, and a sentence for people.

use serde::{Deserialize, Serialize};

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Packets, or some of them, cannot pass: the program is not ready.
    Obstacle,
    /// Packets pass, but something else does not work.
    Trouble,
}

/// Why. Metrics have these names as labels, so they say nothing of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Links, routes, forwarding or the prefix: packets have no way.
    Way,
    /// Addresses that lead to the translator lie in a connected network, and nobody answers for them there.
    Unannounced,
    /// The CLAT's IPv6 address lies in no prefix that is known to lead here.
    AddressElsewhere,
    /// An unknown BPF program gets the uplink's packets before that of the CLAT.
    UnknownProgram,
    /// The network says another translation prefix than the configuration.
    PrefixContradicted,
    /// Packets leave a CLAT, and nothing comes back.
    Unanswered,
    /// Packets bypass IPsec policies.
    Ipsec,
    /// Packets bypass rules of nftables.
    Netfilter,
    /// Packets go round between this router and others.
    Loop,
    /// The state file cannot be written.
    StateFile,
    /// A collector of the log of bindings takes no records.
    Log,
    /// Metrics cannot be served at one of their places.
    Metrics,
    /// A node of a cluster does not open bindings yet.
    ClusterStarting,
    /// The engine of a cluster does not answer, or nodes use different ones.
    ClusterEngine,
    /// Another node of the cluster does not answer.
    ClusterUnreachable,
    /// The file of another node differs.
    ClusterDiffers,
    /// Packets cannot be sent to another node.
    ClusterWay,
    /// Another node does not acknowledge, so ports are not free again.
    ClusterPorts,
    /// Another node says what it may not say, takes messages too slowly, or its bindings do not come in.
    ClusterPeer,
    /// A newer version of the program has sent it.
    #[serde(other)]
    Other,
}

impl Reason {
    /// All that a program of this version has.
    pub const ALL: [Reason; 19] = [
        Reason::Way,
        Reason::Unannounced,
        Reason::AddressElsewhere,
        Reason::UnknownProgram,
        Reason::PrefixContradicted,
        Reason::Unanswered,
        Reason::Ipsec,
        Reason::Netfilter,
        Reason::Loop,
        Reason::StateFile,
        Reason::Log,
        Reason::Metrics,
        Reason::ClusterStarting,
        Reason::ClusterEngine,
        Reason::ClusterUnreachable,
        Reason::ClusterDiffers,
        Reason::ClusterWay,
        Reason::ClusterPorts,
        Reason::ClusterPeer,
    ];

    /// The name that JSON and metrics have.
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
            Reason::Loop => "loop",
            Reason::StateFile => "state_file",
            Reason::Log => "log",
            Reason::Metrics => "metrics",
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

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// What follows from it.
    pub kind: Kind,
    /// Why, in a word.
    pub reason: Reason,
    /// What is wrong, where, and what to do.
    pub text: String,
}

impl Finding {
    /// Packets cannot pass.
    pub fn obstacle(reason: Reason, text: impl Into<String>) -> Finding {
        let (kind, text) = (Kind::Obstacle, text.into());
        Finding { kind, reason, text }
    }

    /// Packets pass.
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
