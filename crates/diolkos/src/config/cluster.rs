// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[cluster]`: several gateways that share a NAT64's pool. One file serves all of them.

use std::collections::HashSet;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::objections::Objection;
use super::{Datapath, Mode, Settings};

/// Nodes; the program that forwards has room for as many.
const MOST_NODES: usize = 1023;
/// The longest name of a cluster: it is part of the names of a bucket and of subjects.
const LONGEST_NAME: usize = 32;

/// Seconds: three renewals, and what users wait for.
const LEASE: RangeInclusive<u64> = 3..=60;

/// Several gateways with one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// Sets the cluster apart from others on the same NATS servers: lower-case letters, digits and hyphens.
    pub name: String,
    /// NATS servers with JetStream, such as `"tls://192.0.2.1:4222"`. Any of them will do.
    pub servers: Vec<String>,
    /// The certificate of the authority that signed the servers' certificates, PEM.
    pub ca: PathBuf,
    /// This node's certificate, PEM; empty: it has none and needs `user`.
    pub certificate: PathBuf,
    /// The key of that certificate, PEM.
    pub key: PathBuf,
    /// Name at the servers; empty: the certificate says who this is.
    pub user: String,
    /// File with the password of `user`.
    pub password_file: PathBuf,
    /// Speak to the servers without encryption. An attacker who can read or change these packets controls the cluster.
    pub plaintext: bool,
    /// File with a secret of the cluster, 64 hexadecimal digits, the same on all nodes (`openssl rand -hex 32`).
    pub secret_file: PathBuf,
    /// Ports of a slice, a multiple of 64. With the default a slice is a whole address.
    pub ports_per_slice: u16,
    /// How long a node opens bindings without hearing from the servers, 3 to 60 seconds. As long takes it until another node opens
    /// bindings in the slices of one that has died. NATS elects a leader within 9 seconds: a shorter lease ends meanwhile.
    pub lease: u64,
    /// NATS servers that keep each entry: 1, 3 or 5.
    pub replicas: u8,
    /// Bindings of other nodes that this one keeps in case it inherits them.
    pub max_standby_bindings: u32,
    /// The nodes.
    pub node: Vec<Node>,
    /// Which of them this is; empty: the one that is called like this host.
    #[serde(skip)]
    pub me: String,
    /// Key of the hash that gives a source its slice, from the secret file; zeros before that was read.
    #[serde(skip)]
    pub slice_key: [u64; 2],
}

/// A gateway of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name, by default its host's.
    pub name: String,
    /// A number of its own, 1 to 1023, which stays the same as long as the node does.
    pub id: u16,
    /// Where other nodes send packets that belong to it: an address on a common link, or one to which a route with a gateway
    /// on such a link leads.
    pub address: Ipv6Addr,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            name: String::new(),
            servers: Vec::new(),
            ca: PathBuf::new(),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            user: String::new(),
            password_file: PathBuf::new(),
            plaintext: false,
            secret_file: PathBuf::new(),
            ports_per_slice: 64_512,
            lease: 12,
            replicas: 3,
            max_standby_bindings: 2_000_000,
            node: Vec::new(),
            me: String::new(),
            slice_key: [0; 2],
        }
    }
}

impl Cluster {
    /// The servers as `host:port`: whether it is encrypted is said for all of them.
    pub fn bare_servers(&self) -> Vec<String> {
        let bare = |server: &String| {
            let rest = server.split_once("://").map(|(_, rest)| rest);
            rest.unwrap_or(server).to_owned()
        };
        self.servers.iter().map(bare).collect()
    }

    /// This node, by the name that was given, or by that of the host.
    pub fn this_node(&self, host: &str) -> Option<&Node> {
        let name = match self.me.is_empty() {
            true => host,
            false => &self.me,
        };
        let short = name.split('.').next().unwrap_or(name);
        let named = |wanted: &str| self.node.iter().find(|node| node.name == wanted);
        named(name).or_else(|| named(short))
    }
}

/// A path that was given.
pub fn given(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
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
        if self.nat64.state().is_some() {
            object(
                "nat64.state",
                "the nodes of a cluster have each other's bindings, and a state file would bring back those of other nodes: remove it",
            );
        }
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if cluster.name.is_empty()
            || cluster.name.len() > LONGEST_NAME
            || !cluster.name.bytes().all(fits)
        {
            let message = format!(
                "{:?} is no name of a cluster: write 1 to {LONGEST_NAME} lower-case letters, digits and hyphens",
                cluster.name
            );
            object("cluster.name", &message);
        }
        if given(&cluster.secret_file).is_none() {
            object(
                "cluster.secret_file",
                "the nodes need a common secret: write one by `openssl rand -hex 32`",
            );
        }
        let (size, least) = (cluster.ports_per_slice, 64);
        if size < least || !size.is_multiple_of(least) {
            object(
                "cluster.ports_per_slice",
                &format!("{size} is not a multiple of {least}"),
            );
        }
        if !LEASE.contains(&cluster.lease) {
            let (least, most) = LEASE.into_inner();
            object(
                "cluster.lease",
                &format!("{} s is not within {least} to {most}", cluster.lease),
            );
        }
        if ![1, 3, 5].contains(&cluster.replicas) {
            object(
                "cluster.replicas",
                &format!("{} is none of 1, 3 and 5", cluster.replicas),
            );
        }
        if cluster.max_standby_bindings == 0 {
            object(
                "cluster.max_standby_bindings",
                "a node that keeps none inherits nothing",
            );
        }
        cluster.object_to_servers(&mut object);
        cluster.object_to_nodes(&mut object);
    }
}

impl Cluster {
    fn object_to_servers(&self, object: &mut impl FnMut(&str, &str)) {
        if self.servers.is_empty() {
            object("cluster.servers", "name at least one NATS server");
        }
        for (at, server) in self.servers.iter().enumerate() {
            let key = format!("cluster.servers[{at}]");
            let is_plain = server.starts_with("nats://");
            if is_plain && !self.plaintext {
                let message = format!(
                    "{server:?} is not encrypted: write \"tls://…\", or set cluster.plaintext = true"
                );
                object(&key, &message);
            } else if !is_plain && !server.starts_with("tls://") {
                object(
                    &key,
                    &format!("{server:?} is no server: write \"tls://address:4222\""),
                );
            }
        }
        let (certificate, key) = (given(&self.certificate), given(&self.key));
        if certificate.is_some() != key.is_some() {
            object(
                "cluster.certificate",
                "a certificate and its key belong together: set cluster.certificate and cluster.key",
            );
        }
        if self.user.is_empty() != given(&self.password_file).is_none() {
            object(
                "cluster.user",
                "a name and a password belong together: set cluster.user and cluster.password_file",
            );
        }
        if !self.plaintext {
            if given(&self.ca).is_none() {
                object(
                    "cluster.ca",
                    "by which authority the servers are known is not said: name its certificate",
                );
            }
            if certificate.is_none() && self.user.is_empty() {
                object(
                    "cluster.certificate",
                    "the servers have to know this node: set a certificate and its key, or a user and a password file",
                );
            }
        }
    }

    fn object_to_nodes(&self, object: &mut impl FnMut(&str, &str)) {
        if self.node.is_empty() || self.node.len() > MOST_NODES {
            let message = format!("{} nodes; a cluster has 1 to {MOST_NODES}", self.node.len());
            object("cluster.node", &message);
        }
        let (mut names, mut ids, mut addresses) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (at, node) in self.node.iter().enumerate() {
            let key = |name: &str| format!("cluster.node[{at}].{name}");
            if !(1..=MOST_NODES as u16).contains(&node.id) {
                let message = format!("{} is not within 1 to {MOST_NODES}", node.id);
                object(&key("id"), &message);
            }
            if node.name.is_empty() || !names.insert(&node.name) {
                object(&key("name"), "a node needs a name of its own");
            }
            if !ids.insert(node.id) {
                object(
                    &key("id"),
                    &format!("{} is the number of another node", node.id),
                );
            }
            let a = node.address;
            if a.is_unspecified() || a.is_multicast() || a.is_loopback() || !addresses.insert(a) {
                let message = format!("{a} cannot be the address of this node alone");
                object(&key("address"), &message);
            }
        }
        if !self.me.is_empty() && self.this_node("").is_none() {
            let message = format!("no node is called {:?}: check --node", self.me);
            object("cluster.node", &message);
        }
    }
}
