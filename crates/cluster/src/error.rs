// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why this gateway cannot be one of a cluster.

use std::io;
use std::path::PathBuf;

use diolkos_node::config::Fault;
use diolkos_service::error::ServiceError;
use diolkos_service::failure::{Classified, Exit};

/// Why this gateway cannot be one of a cluster.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ClusterError {
    /// The file names no node like this host.
    #[error(
        "cluster.node: no node is called {host:?} like this host; its nodes are {}: say by `--node NAME` which one this is",
        .nodes.join(", ")
    )]
    NotOfIt {
        /// The name of this host.
        host: String,
        /// The nodes of the file.
        nodes: Vec<String>,
    },
    /// No node was chosen.
    #[error("cluster.node: which node this is is not known")]
    Unknown,
    /// The configuration's own check has not found this contradiction.
    #[error("cluster: the nodes contradict each other: {0:?}")]
    Contradiction(Fault),
    /// The file with the password of the engine.
    #[error("cluster.password_file: {path} cannot be read: {source}", path = path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Connections with other gateways cannot be made.
    #[error("cluster: {0}")]
    Mesh(#[source] diolkos_mesh::Fault),
    /// Connections with the engine cannot be made.
    #[error("cluster: {0}")]
    Engine(#[source] diolkos_etcd::StartError),
    /// The maps of the programs.
    #[error("the programs cannot be told of the cluster: {0}")]
    Programs(#[source] io::Error),
    /// The file has none. `place` follows the word "section".
    #[error("cluster: there is no such section{0}")]
    NoSection(&'static str),
    /// The new file is that of another node.
    #[error(
        "cluster.node: this is {own:?}, and the new file makes it {new:?}: stop it, and start it with that file"
    )]
    OtherNode {
        /// The name of this node.
        own: String,
        /// The name in the new file.
        new: String,
    },
    /// The new file needs no common change.
    #[error(
        "the file has nothing new that all nodes need: `diolkos reload`, or a restart of one node after the other, is enough"
    )]
    NothingNew,
    /// Another process has taken over the name.
    #[error(
        "cluster: another process is the node {0:?} now; this one ends, since only one may give its addresses away"
    )]
    Superseded(String),
    /// A thread cannot be started.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Classified for ClusterError {
    fn exit(&self) -> Exit {
        use ClusterError as E;
        match self {
            E::NotOfIt { .. }
            | E::Unknown
            | E::Contradiction(_)
            | E::Password { .. }
            | E::Mesh(_)
            | E::Engine(_)
            | E::NoSection(_)
            | E::OtherNode { .. }
            | E::NothingNew => Exit::Usage,
            E::Programs(_) | E::Superseded(_) => Exit::RunTime,
            E::Service(error) => error.exit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use ClusterError as E;
        let memory = || io::ErrorKind::OutOfMemory.into();
        let cases = [
            (E::NotOfIt { host: "c".to_owned(), nodes: vec!["a".to_owned(), "b".to_owned()] }, false, Exit::Usage,
             "cluster.node: no node is called \"c\" like this host; its nodes are a, b: say by `--node NAME` which one this is"),
            (E::Unknown, false, Exit::Usage, "cluster.node: which node this is is not known"),
            (E::Password { path: "/p".into(), source: memory() }, true, Exit::Usage,
             "cluster.password_file: /p cannot be read: out of memory"),
            (E::Programs(memory()), true, Exit::RunTime, "the programs cannot be told of the cluster: out of memory"),
            (E::NoSection(""), false, Exit::Usage, "cluster: there is no such section"),
            (E::NoSection(" in the file"), false, Exit::Usage, "cluster: there is no such section in the file"),
            (E::OtherNode { own: "a".to_owned(), new: "b".to_owned() }, false, Exit::Usage, "cluster.node: this is \"a\", \
              and the new file makes it \"b\": stop it, and start it with that file"),
            (E::NothingNew, false, Exit::Usage, "the file has nothing new that all nodes need: `diolkos reload`, or a \
              restart of one node after the other, is enough"),
            (E::Superseded("a".to_owned()), false, Exit::RunTime, "cluster: another process is the node \"a\" now; this one \
              ends, since only one may give its addresses away"),
        ];
        for (error, has_source, exit, sentence) in cases {
            assert_eq!(error.to_string(), sentence);
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert_eq!(
                (error.exit(), error.is_transient()),
                (exit, false),
                "{error}"
            );
        }
    }
}
