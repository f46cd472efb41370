// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[nat64]`: the pool, bindings, filtering, timeouts and limits of a stateful NAT64 (RFC 6146).

use std::path::{Path, PathBuf};

use diolkos_nat64::config::{
    Binding, Deterministic, Filtering, Limits, Nat64Config, Pool4, PortBlocks, Timeouts, MAX_SITES,
};
use diolkos_xlat::config::auto::number;
use ipnet::{Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cluster, Found, Networks, Settings};

/// A stateful NAT64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Nat64 {
    /// IPv4 prefixes that lead to the translator; auto: `pool4` and the addresses of `static`.
    pub routes4: Networks<Ipv4Net>,
    /// IPv6 prefixes that lead to it; auto: `translator.pref64`.
    pub routes6: Networks<Ipv6Net>,
    /// Preference of these routes; a route to the same prefix with a lower metric wins.
    pub metric: u32,
    /// Which packets from the IPv4 side a binding lets in (RFC 4787 section 5).
    pub filtering: Filtering,
    /// Give a node the port that it uses itself, if it is free.
    pub port_preservation: bool,
    /// Give a source ports in blocks of so many, 64 to 4096, so that a log needs a line for each block only; 0: port by port.
    pub ports_per_block: u16,
    /// Blocks of ports that one source can have.
    pub max_blocks_per_source: u16,
    /// Sessions in total.
    pub max_sessions: u32,
    /// Bindings in total.
    pub max_bindings: u32,
    /// Sessions of one source; auto: shares alone decide.
    #[serde(with = "number")]
    #[schemars(schema_with = "number::schema")]
    pub max_sessions_per_source: Option<u32>,
    /// Bindings of one source; auto: shares alone decide.
    #[serde(with = "number")]
    #[schemars(schema_with = "number::schema")]
    pub max_bindings_per_source: Option<u32>,
    /// Bits of the IPv6 prefix that is one source.
    pub source_prefix_len: u8,
    /// Bits of the wider prefixes that are one site, two at most.
    pub site_prefix_lens: Vec<u8>,
    /// Percent of the sessions, the bindings and the ports that the others leave, for one IPv6 address.
    pub host_share: u8,
    /// The same for one source.
    pub source_share: u8,
    /// The same for one site.
    pub site_share: u8,
    /// Percent of the sessions that the IPv4 side may open.
    pub outside_share: u8,
    /// Raise an alarm when so many percent of a table, of the pool or of a share are in use; 0: never.
    pub alarm_percent: u8,
    /// Where sessions are kept while the program does not run; empty: nowhere.
    pub state: PathBuf,
    /// How often that file is written while the program runs, seconds. What the operator changes is written at once.
    pub state_interval: u64,
    /// How long sessions live without a packet.
    pub timeouts: Timeouts,
    /// Fixed ports for each source, so that no log is needed (RFC 7422); without it, ports are dynamic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<Deterministic>,
    /// The IPv4 addresses and ports of the nodes.
    pub pool4: Vec<Pool4>,
    /// Bindings of the operator, in both directions.
    #[serde(rename = "static")]
    pub bindings: Vec<Binding>,
}

impl Default for Nat64 {
    fn default() -> Nat64 {
        let limits = Limits::default();
        Nat64 {
            routes4: Networks::Auto,
            routes6: Networks::Auto,
            metric: 1024,
            filtering: Filtering::default(),
            port_preservation: false,
            ports_per_block: 0,
            max_blocks_per_source: 8,
            max_sessions: limits.sessions,
            max_bindings: limits.bindings,
            max_sessions_per_source: None,
            max_bindings_per_source: None,
            source_prefix_len: limits.source_prefix_len,
            site_prefix_lens: limits.site_prefix_lens.to_vec(),
            host_share: limits.host_share,
            source_share: limits.source_share,
            site_share: limits.site_share,
            outside_share: limits.outside_share,
            alarm_percent: 80,
            state: PathBuf::new(),
            state_interval: 60,
            timeouts: Timeouts::default(),
            deterministic: None,
            pool4: Vec::new(),
            bindings: Vec::new(),
        }
    }
}

impl Nat64 {
    /// The file that keeps the sessions while the program does not run, if one is configured.
    pub fn state(&self) -> Option<&Path> {
        Some(self.state.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// The supported number of lengths; there is an objection to more.
    fn site_prefix_lens(&self) -> [u8; MAX_SITES] {
        let mut lens = self.site_prefix_lens.iter();
        [(); MAX_SITES].map(|()| lens.next().copied().unwrap_or(0))
    }
}

impl Settings {
    /// The addresses whose ports this translator allocates. In a cluster, those of this node, once it is known.
    pub fn pool4(&self) -> &[Pool4] {
        match &self.cluster {
            Some(cluster) => cluster.this_node("").map_or(&[], |(_, node)| &node.pool4),
            None => &self.nat64.pool4,
        }
    }

    /// The operator's bindings, without those for addresses of other cluster nodes.
    pub(super) fn static_bindings(&self) -> Vec<Binding> {
        let owners = self.cluster.as_ref().and_then(Cluster::owners);
        let is_mine = |binding: &&Binding| match &owners {
            Some(owners) => owners.of(binding.v4.addr) == Some(owners.me),
            None => true,
        };
        let bindings = self.nat64.bindings.iter().filter(is_mine);
        bindings.copied().collect()
    }

    /// The configuration for the stateful translator.
    pub fn stateful(&self, found: Found) -> Nat64Config {
        let n = &self.nat64;
        Nat64Config {
            translator: self.translation(found),
            pool4: self.pool4().to_vec(),
            bindings: self.static_bindings(),
            blocks: (n.ports_per_block > 0).then_some(PortBlocks {
                ports: n.ports_per_block,
                per_source: n.max_blocks_per_source,
                source_prefix_len: n.source_prefix_len,
            }),
            deterministic: n.deterministic.clone(),
            owners: self.cluster.as_ref().and_then(Cluster::owners),
            filtering: n.filtering,
            port_preservation: n.port_preservation,
            timeouts: n.timeouts,
            limits: Limits {
                sessions: n.max_sessions,
                bindings: n.max_bindings,
                sessions_per_source: n.max_sessions_per_source.unwrap_or(u32::MAX),
                bindings_per_source: n.max_bindings_per_source.unwrap_or(u32::MAX),
                source_prefix_len: n.source_prefix_len,
                site_prefix_lens: n.site_prefix_lens(),
                host_share: n.host_share,
                source_share: n.source_share,
                site_share: n.site_share,
                outside_share: n.outside_share,
                ..Limits::default()
            },
        }
    }
}
