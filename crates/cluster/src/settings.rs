// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the configuration for the node, the connections, etcd and the programs.

use std::fs;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::Duration;

use diolkos_etcd::{Login, Settings as EngineSettings, Tls};
use diolkos_fastpath::Cluster as ProgramRules;
use diolkos_mesh::{Files, NodeAddress, Settings as MeshSettings};
use diolkos_nat64::config::{PoolId, Timeouts, DEFAULT_POOL};
use diolkos_node::config::{Bounds, Config, Member, SourcePool, Timing};
use diolkos_node::NodeId;
use ipnet::Ipv4Net;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::host;
use crate::error::ClusterError;
use diolkos_config::{given, Cluster as Section, Node, Settings};

/// Number of changes of bindings that a connection may lag behind; some 40 bytes each.
const CHANGES: usize = 1 << 18;
/// At most 1/`RESTING_PART` of the ports may rest before this gateway stops waiting for others that do not acknowledge.
const RESTING_PART: usize = 4;

/// Determines which gateway of the file this is.
///
/// # Errors
///
/// No gateway in the file has the name of this host, or the one given by `--node`.
pub fn prepare(settings: &mut Settings) -> Result<(), ClusterError> {
    let Some(section) = &mut settings.cluster else {
        return Ok(());
    };
    let host = host();
    let found = section.this_node(&host).map(|(_, node)| node.name.clone());
    section.me = found.ok_or_else(|| {
        let nodes = section.node.iter().map(|node| node.name.clone()).collect();
        ClusterError::NotOfIt { host, nodes }
    })?;
    Ok(())
}

/// Returns this gateway, which [`prepare`] has found.
pub fn this(section: &Section) -> Result<(NodeId, &Node), ClusterError> {
    let found = section.this_node("").map(|(at, node)| (NodeId(at), node));
    found.ok_or_else(|| ClusterError::Unknown)
}

/// Returns the configuration of the node.
pub fn node(settings: &Settings, section: &Section, me: NodeId) -> Config {
    let pool = |node: &Node| {
        let nets = node.pool4.iter().map(|part| part.net);
        Ipv4Net::aggregate(&nets.collect())
    };
    let ports: usize = pool(&section.node[me.index()])
        .iter()
        .map(|net| 1_usize << (32 - net.prefix_len()))
        .fold(0, usize::saturating_add)
        .saturating_mul(usize::from(u16::MAX));
    let members = section.node.iter().map(|node| Member {
        name: node.name.clone(),
        pool4: pool(node),
    });
    Config {
        me,
        members: members.collect(),
        source_prefix_len: settings.nat64.source_prefix_len,
        pools: pools(section),
        key: key(&section.name),
        pref64: settings.translator.pref64.given().to_vec(),
        lifetimes_s: lifetimes(&settings.nat64.timeouts),
        timing: Timing::default(),
        defer: section.defer,
        bounds: Bounds {
            changes: CHANGES,
            resting: (ports / RESTING_PART).max(1),
        },
    }
}

/// Returns the hosts and the addresses of each pool by source, whatever the order of the file.
fn pools(section: &Section) -> Vec<SourcePool> {
    let all = section.pools();
    let of = |pool| SourcePool {
        sources: all.sources(pool).to_vec(),
        addresses: all.addresses(pool).collect(),
    };
    let mut pools: Vec<SourcePool> = (DEFAULT_POOL + 1..all.count() as PoolId).map(of).collect();
    pools.sort_unstable();
    pools
}

/// Returns the key of the hash that distributes subscribers. A host that knows it, and has many prefixes, can choose
/// prefixes of one gateway; each gateway's limits bound the effect.
fn key(name: &str) -> [u64; 2] {
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    let hash = hasher.finish128();
    [hash.h1, hash.h2]
}

/// Copies live as long as their originals, so all gateways need the same lifetimes.
fn lifetimes(t: &Timeouts) -> Vec<u32> {
    let all = [t.udp, t.tcp_established, t.tcp_transitory, t.icmp];
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    all.map(seconds).to_vec()
}

/// The configuration of the programs, except for the links.
#[derive(Debug)]
pub struct Rules(ProgramRules);

impl Rules {
    /// Converts the configuration of the node.
    pub fn of(config: &Config) -> Rules {
        let pref64 = config.pref64.iter();
        Rules(ProgramRules {
            key: config.key,
            source_prefix_len: config.source_prefix_len,
            pref64: pref64
                .map(|net| (net.network(), net.prefix_len()))
                .collect(),
            links: Vec::new(),
        })
    }

    /// Adds the indices of the interfaces on which other gateways send.
    pub fn with(&self, links: Vec<u32>) -> ProgramRules {
        ProgramRules {
            links,
            ..self.0.clone()
        }
    }
}

/// Returns the configuration of the connections.
pub fn mesh(section: &Section, me: NodeId) -> (MeshSettings, Files) {
    let places = section.node.iter().map(|node| NodeAddress {
        name: node.name.clone(),
        address: SocketAddr::from((node.address, section.port)),
    });
    let settings = MeshSettings {
        me,
        nodes: places.collect(),
    };
    let files = Files {
        certificate: section.certificate.clone(),
        key: section.key.clone(),
        authority: section.ca.clone(),
    };
    (settings, files)
}

/// Returns the configuration of the etcd client.
///
/// # Errors
///
/// The file with the password cannot be read.
pub fn engine(section: &Section, me: NodeId) -> Result<EngineSettings, ClusterError> {
    let servers = section.etcd.iter().map(|server| {
        let rest = server
            .split_once("://")
            .map_or(server.as_str(), |(_, rest)| rest);
        rest.trim_end_matches('/').to_owned()
    });
    let names = section.node.iter().map(|node| node.name.clone());
    let login = given(&section.password_file).map(|file| {
        let password = fs::read_to_string(file).map_err(|source| ClusterError::Password {
            path: file.into(),
            source,
        })?;
        Ok::<_, ClusterError>(Login {
            user: section.user.clone(),
            password: password.trim_end_matches(['\r', '\n']).to_owned(),
        })
    });
    let tls = (!section.plaintext).then(|| Tls {
        ca: section.ca.clone(),
        certificate: section.certificate.clone(),
        key: section.key.clone(),
    });
    Ok(EngineSettings {
        tls,
        plaintext: section.plaintext,
        login: login.transpose()?,
        ..EngineSettings::new(servers.collect(), &section.name, me, names.collect())
    })
}
