// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[nat64]`: the pool, bindings, filtering, timeouts and limits of a stateful NAT64 (RFC 6146).

use std::path::{Path, PathBuf};

use diolkos_nat64::config::{
    Binding, Deterministic, Filtering, Limits, Nat64Config, Pool4, PortBlocks, Timeouts, MAX_SITES,
};
use diolkos_xlat::config::auto::number;
use ipnet::{Ipv4Net, Ipv6Net};

use super::key::section;
use super::{AutoValues, Cluster, Networks, Pcp, Settings};

section! {
    /// A stateful NAT64.
    pub struct Nat64 {
        /// IPv4 prefixes that lead to the translator; auto: `pool4` and the addresses of `static`.
        routes4: Networks<Ipv4Net> = Networks::Auto, Live;
        /// IPv6 prefixes that lead to it; auto: `translator.pref64`.
        routes6: Networks<Ipv6Net> = Networks::Auto, Live;
        /// Preference of these routes; a route to the same prefix with a lower metric wins.
        metric: u32 = 1024, Restart;
        /// Which packets from the IPv4 side a binding lets in (RFC 4787 section 5).
        filtering: Filtering = Filtering::default(), Live;
        /// Give a node the port that it uses itself, if it is free.
        port_preservation: bool = false, Live;
        /// Give a source ports in blocks of so many, a power of two from 64 to 4096, so that a log needs a line for each block only;
        /// 0: port by port.
        ports_per_block: u16 = 0, Live;
        /// Blocks of ports that one source can have.
        max_blocks_per_source: u16 = 8, Live;
        /// Sessions in total. With `tc`, each takes 32 bytes of the kernel's memory from the start, and 145 (UDP) to 270 more while it
        /// is in use.
        max_sessions: u32 = Limits::default().sessions, Restart;
        /// Bindings in total. With `tc`, each takes 16 bytes of the kernel's memory from the start, and about 100 more while UDP uses
        /// it; the program takes 150 for one with a session, and 70 for each node.
        max_bindings: u32 = Limits::default().bindings, Restart;
        /// Sessions of one source, half of which the IPv4 side may open; auto: shares alone decide.
        #[serde(with = "number")]
        #[schemars(schema_with = "number::schema")]
        max_sessions_per_source: Option<u32> = None, Live;
        /// Bindings of one source; auto: shares alone decide.
        #[serde(with = "number")]
        #[schemars(schema_with = "number::schema")]
        max_bindings_per_source: Option<u32> = None, Live;
        /// Bits of the IPv6 prefix that is one source.
        source_prefix_len: u8 = Limits::default().source_prefix_len, Shared;
        /// Bits of the wider prefixes that are one site, two at most; `[]`: none.
        site_prefix_lens: Vec<u8> = Limits::default().site_prefix_lens.to_vec(), Live;
        /// Sessions that the node of one IPv6 address may open a second (RFC 6888 REQ-5), by packets of its own; auto: no limit.
        #[serde(with = "number")]
        #[schemars(schema_with = "number::schema")]
        new_sessions_per_host: Option<u32> = None, Live;
        /// The same for the nodes of one source together.
        #[serde(with = "number")]
        #[schemars(schema_with = "number::schema")]
        new_sessions_per_source: Option<u32> = None, Live;
        /// The same for the nodes of one site together: of the longest of `site_prefix_lens`.
        #[serde(with = "number")]
        #[schemars(schema_with = "number::schema")]
        new_sessions_per_site: Option<u32> = None, Live;
        /// Seconds of these rates that may be used at once, 1 to 60: the size of the burst.
        new_sessions_burst: u8 = Limits::default().new_sessions_burst, Live;
        /// Percent of the sessions, the bindings and the ports that the others leave, for one IPv6 address; 100: no
        /// limit.
        host_share: u8 = Limits::default().host_share, Live;
        /// The same for one source.
        source_share: u8 = Limits::default().source_share, Live;
        /// The same for one site.
        site_share: u8 = Limits::default().site_share, Live;
        /// Percent of the sessions that nodes leave, which the IPv4 side may open.
        outside_share: u8 = Limits::default().outside_share, Live;
        /// Raise an alarm when so many percent of a table, of the pool or of a share are in use; 0: never.
        alarm_percent: u8 = 80, Live;
        /// Where sessions are kept while the program does not run; empty: nowhere.
        state: PathBuf = PathBuf::new(), Restart;
        /// How often that file is written while the program runs, seconds. What the operator changes is written at once.
        state_interval: u64 = 60, Restart;
        /// How long sessions live without a packet, seconds. RFC 6146 section 4 has minima: 120 for `udp`, and the default of each
        /// other timeout but `port_block`.
        timeouts: Timeouts = Timeouts::default(), Live;
        /// Fixed ports for each source, so that no log is needed (RFC 7422); without it, ports are dynamic.
        #[serde(skip_serializing_if = "Option::is_none")]
        deterministic: Option<Deterministic> = None, Live;
        /// Nodes ask for bindings themselves (PCP, RFC 6887); without it, nobody listens.
        #[serde(skip_serializing_if = "Option::is_none")]
        pcp: Option<Pcp> = None, Each;
        /// The IPv4 addresses and ports of the nodes: at least one, or a static binding.
        pool4: Vec<Pool4> = Vec::new(), Live;
        /// Bindings of the operator, in both directions.
        #[serde(rename = "static")]
        bindings: Vec<Binding> = Vec::new(), Live;
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
    pub fn stateful(&self, found: AutoValues) -> Nat64Config {
        let n = &self.nat64;
        Nat64Config {
            translator: self.translation(found),
            pool4: self.pool4().to_vec(),
            outside: found.outside,
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
                new_sessions_per_host: n.new_sessions_per_host,
                new_sessions_per_source: n.new_sessions_per_source,
                new_sessions_per_site: n.new_sessions_per_site,
                new_sessions_burst: n.new_sessions_burst,
                host_share: n.host_share,
                source_share: n.source_share,
                site_share: n.site_share,
                outside_share: n.outside_share,
                ..Limits::default()
            },
        }
    }
}
