// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of the connections: the nodes, their names and addresses.

use std::net::SocketAddr;

use diolkos_node::config::MOST_NODES;
use diolkos_node::NodeId;
use rustls::pki_types::DnsName;

/// A node, as the others reach it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAddress {
    /// Its name, which its certificate has as a DNS name.
    pub name: String,
    /// The address at which it listens. It also connects from this IP address.
    pub address: SocketAddr,
}

/// All nodes, and which of them this one is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// This node.
    pub me: NodeId,
    /// All nodes, each at the index of its [`NodeId`].
    pub nodes: Vec<NodeAddress>,
}

/// The reason why settings or certificates cannot be used, or why the node cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There are too many nodes, or this one is not among them.
    #[error("a cluster has 1 to {MOST_NODES} nodes, and this one is one of them")]
    Nodes,
    /// The name is not possible in a certificate.
    #[error("\"{0}\" is no DNS name, so no certificate can name this node")]
    Name(String),
    /// Two nodes have this name.
    #[error("two nodes have the name \"{0}\"")]
    Twice(String),
    /// Two nodes have this address and port, or a node has none.
    #[error("{0} is not the address and port of one node alone")]
    Address(SocketAddr),
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    File(String, String),
    /// The certificate does not fit the key, or is of a kind that TLS cannot use.
    #[error("cannot use the certificate with its key: {0}")]
    Pair(rustls::Error),
    /// The certificate is not one of this node.
    #[error("the certificate has to have the DNS name \"{0}\", and no other node's")]
    Identity(String),
    /// The authority cannot be used.
    #[error("cannot use the certificates of the authority: {0}")]
    Authority(String),
    /// The address cannot be bound, or the thread cannot be started.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
}

impl Settings {
    /// Returns the place of this node.
    ///
    /// # Errors
    ///
    /// Names, addresses and numbers that contradict each other.
    pub(crate) fn check(&self) -> Result<&NodeAddress, Fault> {
        let own = self.nodes.get(self.me.index()).ok_or(Fault::Nodes)?;
        if self.nodes.len() > MOST_NODES {
            return Err(Fault::Nodes);
        }
        for (at, place) in self.nodes.iter().enumerate() {
            let NodeAddress { name, address } = place;
            if DnsName::try_from(name.as_str()).is_err() {
                return Err(Fault::Name(name.clone()));
            }
            let before = &self.nodes[..at];
            if before.iter().any(|b| b.name.eq_ignore_ascii_case(name)) {
                return Err(Fault::Twice(name.clone()));
            }
            let is_none = address.ip().is_unspecified() || address.port() == 0;
            if is_none || before.iter().any(|b| b.address == *address) {
                return Err(Fault::Address(*address));
            }
        }
        Ok(own)
    }
}
