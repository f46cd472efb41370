// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[cluster]`: several NAT64 gateways that share subscribers. All of them use the same file.

use super::error::ConfigurationError;
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use diolkos_fastpath::LINKS;
use diolkos_nat64::config::{Nat64Config, Owners, Pool4, PoolId, Pools};
use diolkos_xlat::config::ConfigError;
use ipnet::Ipv4Net;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::key::{section, Reload};
use super::objections::Objection;
use super::{AutoValues, Datapath, Mode, Settings};

/// The most nodes: each reports its bindings to all others, and messages can name this many
/// (`diolkos_node::config::MOST_NODES`).
const MOST_NODES: usize = 32;
/// The longest name of a cluster or a node: names of nodes are DNS labels in certificates.
const LONGEST_NAME: usize = 32;

section! {
    /// Several gateways.
    pub struct Cluster {
        /// Sets the cluster apart from others on the same etcd servers: lower-case letters, digits and hyphens.
        name: String = String::new(), Shared;
        /// Members of etcd, such as `"https://192.0.2.1:2379"`. Any of them will do.
        etcd: Vec<String> = Vec::new(), Rejoin;
        /// Certificates of the authorities that signed those of gateways and servers, PEM.
        ca: PathBuf = PathBuf::new(), Rejoin;
        /// This node's certificate, PEM, for the name of the node.
        certificate: PathBuf = PathBuf::new(), Rejoin;
        /// The key of that certificate, PEM.
        key: PathBuf = PathBuf::new(), Rejoin;
        /// Name at etcd; empty: etcd does not ask for one.
        user: String = String::new(), Rejoin;
        /// File with the password of `user`.
        password_file: PathBuf = PathBuf::new(), Rejoin;
        /// Speak to etcd without encryption. Gateways among each other always encrypt.
        plaintext: bool = false, Rejoin;
        /// The first packet of a binding waits, up to 50 ms, until another gateway knows the binding.
        defer: bool = false, Rejoin;
        /// TCP port at which gateways hear each other.
        port: u16 = 4664, Rejoin;
        /// The nodes, 32 at most; the same in the files of all of them.
        node: Vec<Node> = Vec::new(), Each;
    }
    not in the file {
        /// Which of them this is; empty: the one that is called like this host.
        me: String = String::new();
    }
}

/// A gateway of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name, by default its host's.
    #[schemars(extend("x-reload" = Reload::Shared.word()))]
    pub name: String,
    /// Where it hears other gateways, and where they send packets that belong to it: an address on a link between gateways.
    pub address: Ipv6Addr,
    /// Its interfaces on which other gateways, and nobody else, send. Programs forward nothing that comes by them.
    pub links: Vec<String>,
    /// The IPv4 addresses and ports that it gives away. No other node ever does. `diolkos cluster roll` at all nodes brings other
    /// addresses.
    #[schemars(extend("x-reload" = Reload::Rejoin.word()))]
    pub pool4: Vec<Pool4>,
}

impl Cluster {
    /// This node and its index, by the given name or by the name of the host.
    pub fn this_node(&self, host: &str) -> Option<(u8, &Node)> {
        let name = match self.me.is_empty() {
            true => host,
            false => &self.me,
        };
        let short = name.split('.').next().unwrap_or(name);
        let named = |wanted: &str| (0..).zip(&self.node).find(|(_, node)| node.name == wanted);
        named(name).or_else(|| named(short))
    }

    /// The node that owns an address.
    pub fn node_of(&self, addr: Ipv4Addr) -> Option<&Node> {
        let has = |node: &&Node| node.pool4.iter().any(|part| part.net.contains(&addr));
        self.node.iter().find(has)
    }

    /// The owners of all addresses, once this node is known.
    pub fn owners(&self) -> Option<Owners> {
        let (me, _) = self.this_node("")?;
        let nodes = (0..).zip(&self.node);
        let addresses = nodes.flat_map(|(at, node)| {
            let nets = node.pool4.iter().map(|pool| pool.net);
            // Two parts of one address, such as one for each protocol, are one network here.
            Ipv4Net::aggregate(&nets.collect())
                .into_iter()
                .map(move |net| (net, at))
        });
        Some(Owners {
            me,
            addresses: addresses.collect(),
            pools: self.pools(),
        })
    }

    /// The pools by source of all nodes together.
    pub fn pools(&self) -> Pools {
        let parts = self.node.iter().flat_map(|node| &node.pool4);
        Pools::of(&parts.cloned().collect::<Vec<_>>())
    }
}

/// The path, or `None` if it is empty.
pub fn given(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

/// Returns true for a label of lower-case letters, digits and, between them, hyphens.
fn is_label(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_inside = !name.starts_with('-') && !name.ends_with('-');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(fits) && is_inside
}

impl Settings {
    pub(super) fn object_to_cluster(&self, found: &mut Vec<Objection>) {
        let Some(cluster) = &self.cluster else { return };
        let mut object =
            |key: &str, message: &str| found.push(Objection::new(key, message.to_owned()));
        if self.translator.mode != Mode::Nat64 {
            object(
                "cluster",
                "only a NAT64 has state to share: remove the section, or set translator.mode = \"nat64\"",
            );
            return;
        }
        if self.translator.datapath == Datapath::Tun {
            object(
                "translator.datapath",
                "an eBPF program forwards packets between the nodes of a cluster: \"tun\" has none",
            );
        }
        if self.translator.datapath == Datapath::P4 {
            object(
                "translator.datapath",
                "a P4 switch does not forward packets between the nodes of a cluster: \"tc\" does",
            );
        }
        if self.nat64.state().is_some() {
            object(
                "nat64.state",
                "the nodes of a cluster have each other's bindings, and an old file would bring back ports that have another subscriber: remove it",
            );
        }
        if !self.nat64.pool4.is_empty() {
            object(
                "nat64.pool4",
                "in a cluster each address belongs to one node: write it under [[cluster.node.pool4]] of that node",
            );
        }
        if !is_label(&cluster.name) {
            let message = format!(
                "{:?} is no name of a cluster: write 1 to {LONGEST_NAME} lower-case letters, digits and hyphens",
                cluster.name
            );
            object("cluster.name", &message);
        }
        cluster.object_to_etcd(&mut object);
        cluster.object_to_nodes(&mut object);
        cluster.object_to_pools(&mut object);
        cluster.object_to_interfaces(&mut object);
        cluster.object_to_sources(&mut object);
        for (at, binding) in self.nat64.bindings.iter().enumerate() {
            let addr = binding.v4.addr;
            if cluster.node_of(addr).is_none() {
                let message = format!(
                    "{addr} is no node's: a static binding needs an address of cluster.node.pool4"
                );
                object(&format!("nat64.static[{at}].v4"), &message);
            }
        }
    }

    /// The settings of one node of a cluster, for tasks that need no other nodes: its addresses and static bindings. Without a
    /// cluster, the settings are returned unchanged.
    ///
    /// # Errors
    ///
    /// The node does not exist, or none is named.
    pub fn as_node(&self, name: Option<&str>) -> Result<Settings, ConfigurationError> {
        let mut alone = self.clone();
        let Some(mut cluster) = alone.cluster.take() else {
            return match name {
                None => Ok(alone),
                Some(_) => Err(ConfigurationError::NoCluster),
            };
        };
        let named = cluster.node.iter().find(|node| Some(&*node.name) == name);
        let Some(node) = named else {
            let names = cluster.node.iter().map(|node| node.name.to_string());
            return Err(ConfigurationError::WhichNode(names.collect()));
        };
        alone.nat64.pool4.clone_from(&node.pool4);
        cluster.me.clone_from(&node.name);
        let this = Settings {
            cluster: Some(cluster),
            ..self.clone()
        };
        alone.nat64.bindings = this.static_bindings();
        Ok(alone)
    }

    /// The objections of the translation for every node, since all nodes have the same file.
    pub(super) fn contradictions_of_nodes(&self, cluster: &Cluster) -> Vec<Objection> {
        // Objections to a part of the pool or a binding by its index in the file, before the parts of one node are selected.
        let parts = (0..).zip(&cluster.node).flat_map(|(node, its)| {
            let parts = its.pool4.iter().enumerate();
            parts.map(move |(at, part)| (format!("cluster.node[{node}].pool4[{at}]"), part.clone()))
        });
        let (keys, pool4): (Vec<String>, Vec<Pool4>) = parts.unzip();
        let anybody = Nat64Config {
            pool4,
            bindings: self.nat64.bindings.clone(),
            owners: None,
            deterministic: None,
            ..self.stateful(AutoValues::ANYTHING)
        };
        if let Err(error) = anybody.check() {
            let place = |at: usize| keys.get(at).cloned();
            return self.of_nodes(error, &place);
        }
        for (node, its) in cluster.node.iter().enumerate() {
            let this = Settings {
                cluster: Some(Cluster {
                    me: its.name.clone(),
                    ..cluster.clone()
                }),
                ..self.clone()
            };
            if let Err(error) = this.stateful(AutoValues::ANYTHING).check() {
                let place = |at| Some(format!("cluster.node[{node}].pool4[{at}]"));
                return self.of_nodes(error, &place);
            }
        }
        Vec::new()
    }

    /// Objections with the keys of the file. `place`: the key of a part of the pool.
    fn of_nodes(
        &self,
        error: ConfigError,
        place: &dyn Fn(usize) -> Option<String>,
    ) -> Vec<Objection> {
        let in_file = |text: &str| {
            let mut text = text.to_owned();
            // Messages name other parts as well.
            while let Some((before, rest)) = text.split_once("nat64.pool4[") {
                let Some((at, after)) = rest.split_once(']') else {
                    break;
                };
                let key = at.parse().ok().and_then(place);
                text = format!("{before}{}{after}", key.unwrap_or_default());
            }
            text.replace("nat64.pool4", "cluster.node")
        };
        let problems = error.problems.into_iter();
        let objections = problems.map(|problem| Objection {
            key: in_file(&self.key(&problem.key)),
            message: in_file(&problem.message),
        });
        objections.collect()
    }
}

impl Cluster {
    fn object_to_etcd(&self, object: &mut impl FnMut(&str, &str)) {
        if self.etcd.is_empty() {
            object("cluster.etcd", "name at least one member of etcd");
        }
        for (at, server) in self.etcd.iter().enumerate() {
            let key = format!("cluster.etcd[{at}]");
            let (scheme, address) = server.split_once("://").unwrap_or(("", server));
            let wanted = if self.plaintext { "http" } else { "https" };
            let message = match scheme {
                "http" if !self.plaintext => format!(
                    "{server:?} is not encrypted: write \"https://…\", or set cluster.plaintext = true"
                ),
                "https" if self.plaintext => format!(
                    "{server:?} is encrypted, and cluster.plaintext = true asks for \"http://…\": remove that key"
                ),
                "http" | "https" if diolkos_etcd::is_server(address.trim_end_matches('/')) => {
                    continue;
                }
                _ => format!("{server:?} is no server: write \"{wanted}://address:2379\""),
            };
            object(&key, &message);
        }
        for (path, key, what) in [
            (&self.ca, "cluster.ca", "whose certificates are believed is not said: name the certificate of your authority"),
            (&self.certificate, "cluster.certificate", "gateways know each other by certificates: name this node's"),
            (&self.key, "cluster.key", "the certificate of this node needs its key"),
        ] {
            if given(path).is_none() {
                object(key, what);
            }
        }
        if self.user.is_empty() != given(&self.password_file).is_none() {
            object(
                "cluster.user",
                "a name and a password belong together: set cluster.user and cluster.password_file",
            );
        }
        if self.port == 0 {
            object(
                "cluster.port",
                "0 is no port at which others find this node",
            );
        }
    }

    fn object_to_nodes(&self, object: &mut impl FnMut(&str, &str)) {
        if self.node.is_empty() || self.node.len() > MOST_NODES {
            let message = format!("{} nodes; a cluster has 1 to {MOST_NODES}", self.node.len());
            object("cluster.node", &message);
        }
        let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
        for (at, node) in self.node.iter().enumerate() {
            let key = |name: &str| format!("cluster.node[{at}].{name}");
            if !is_label(&node.name) || !names.insert(&node.name) {
                object(
                    &key("name"),
                    "a node needs a name of its own: lower-case letters, digits and hyphens",
                );
            }
            let a = node.address;
            if a.is_unspecified() || a.is_multicast() || a.is_loopback() || !addresses.insert(a) {
                let message = format!("{a} cannot be the address of this node alone");
                object(&key("address"), &message);
            }
            if node.links.is_empty() || node.links.len() > LINKS {
                let message = format!(
                    "name the interfaces of this node on which other gateways, and nobody else, send: 1 to {LINKS}"
                );
                object(&key("links"), &message);
            }
            if node.pool4.is_empty() {
                object(
                    &key("pool4"),
                    "a node without addresses opens no bindings: give it one at least",
                );
            }
        }
        if !self.me.is_empty() && self.this_node("").is_none() {
            let message = format!("no node is called {:?}: check --node", self.me);
            object("cluster.node", &message);
        }
    }

    fn object_to_interfaces(&self, object: &mut impl FnMut(&str, &str)) {
        for (at, node) in self.node.iter().enumerate() {
            if node.pool4.iter().any(|part| part.interface.is_some()) {
                let message =
                    "gateways of a cluster have addresses that only they have: remove `interface`";
                object(&format!("cluster.node[{at}].pool4"), message);
            }
        }
    }

    /// Any node may become the home of any host, so each pool needs addresses at each of them.
    fn object_to_sources(&self, object: &mut impl FnMut(&str, &str)) {
        let pools = self.pools();
        for pool in 0..pools.count() as PoolId {
            let has = |node: &Node| {
                let mut addresses = node.pool4.iter().map(|part| part.net.network());
                addresses.any(|address| pools.of_address(address) == Some(pool))
            };
            let Some(one) = self.node.iter().find(|node| has(node)) else {
                continue;
            };
            let lacking = self.node.iter().enumerate();
            for (at, _) in lacking.filter(|(_, node)| !node.pool4.is_empty() && !has(node)) {
                let sources = pools.sources(pool);
                let entry = match sources {
                    [] => "without sources".to_owned(),
                    _ => format!("with sources = {sources:?}"),
                };
                let message = format!(
                    "it has no entry {entry}, and {:?} has: give it an address for these hosts, who may get any node as their home",
                    one.name
                );
                object(&format!("cluster.node[{at}].pool4"), &message);
            }
        }
    }

    /// An address belongs to one node, with all its ports, because packets find the owner by the address.
    fn object_to_pools(&self, object: &mut impl FnMut(&str, &str)) {
        let mut nets: Vec<(Ipv4Net, usize)> = Vec::new();
        for (at, node) in self.node.iter().enumerate() {
            nets.extend(node.pool4.iter().map(|pool| (pool.net, at)));
        }
        nets.sort_unstable_by_key(|(net, _)| (net.network(), net.prefix_len()));
        // The last address of the preceding networks, and its owner.
        let mut last: Option<(Ipv4Addr, usize)> = None;
        for (net, at) in nets {
            if let Some((_, other)) =
                last.filter(|&(end, other)| net.network() <= end && other != at)
            {
                let message = format!(
                    "{} belongs to {:?} as well: an address has one node",
                    net.network(),
                    self.node[other].name
                );
                return object(&format!("cluster.node[{at}].pool4"), &message);
            }
            if last.is_none_or(|(end, _)| net.broadcast() > end) {
                last = Some((net.broadcast(), at));
            }
        }
    }
}
