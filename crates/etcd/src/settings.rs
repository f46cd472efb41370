// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The servers of etcd, how a node connects to them, and the keys of the cluster's records.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use diolkos_node::config::MOST_NODES;
use diolkos_node::NodeId;
use hyper::http::uri::Authority;

/// etcd's client port.
const PORT: u16 = 2379;

/// The settings of the client. All nodes of a cluster have the same settings, except `me`, `tls.identity` and `login`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Members of etcd, `host` or `host:port`. IPv6 addresses are in brackets. Members that are not named here are not
    /// used.
    pub servers: Vec<String>,
    /// The cluster's name: `[a-z0-9-]{1,32}`.
    pub cluster: String,
    /// This node.
    pub me: NodeId,
    /// The names of all nodes, in the order of the file: letters, digits, `.`, `_` and `-`, at most 253 bytes.
    pub nodes: Vec<String>,
    /// Encrypts and verifies. Required, unless `plaintext` is set.
    pub tls: Option<Tls>,
    /// Allows a connection without encryption: an attacker on its path can read passwords and change records.
    pub plaintext: bool,
    /// A user of etcd. Without one, etcd's authentication has to be disabled.
    pub login: Option<Login>,
    /// Maximum time to connect to a member, and to get its answer to a request. After that the next one is tried.
    pub deadline: Duration,
}

/// Files in PEM. They are read for each connection, so renewed certificates need no restart.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The authorities that issue the members' certificates. No others are trusted.
    pub ca: PathBuf,
    /// The certificate of this node, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// Its key, not encrypted.
    pub key: PathBuf,
}

/// A user of etcd. The JSON gateway does not take the user's name from the certificate.
#[derive(Clone)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password. It appears in no message.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The reason why settings are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No server is named.
    #[error("no server of the engine is named")]
    NoServer,
    /// Not the address of a server.
    #[error("\"{0}\" is not the address of a server; write \"host:port\"")]
    Server(String),
    /// Not a valid cluster name.
    #[error("\"{0}\" cannot be a cluster's name; use 1 to 32 of a-z, 0-9 and \"-\"")]
    Cluster(String),
    /// Not a valid node name.
    #[error(
        "\"{0}\" cannot be a node's name; use 1 to 253 letters, digits, \".\", \"_\" and \"-\""
    )]
    Node(String),
    /// There are no nodes, too many for a cluster, or this one is not among them.
    #[error("the nodes are none, more than {MOST_NODES}, or do not include this one")]
    Nodes,
    /// Neither encryption nor the permission to do without it.
    #[error("the engine has no TLS settings; name the files, or set plaintext = true")]
    NoTls,
    /// Both encryption and the permission to do without it.
    #[error("plaintext and TLS are both set; remove one of them")]
    Both,
}

/// The address of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// `host:port`, as in a URL.
    pub(crate) shown: String,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Settings {
    /// Creates settings with the default deadline of 500 ms, without TLS and without a user.
    pub fn new(servers: Vec<String>, cluster: &str, me: NodeId, nodes: Vec<String>) -> Settings {
        Settings {
            servers,
            cluster: cluster.into(),
            me,
            nodes,
            tls: None,
            plaintext: false,
            login: None,
            deadline: Duration::from_millis(500),
        }
    }

    /// Returns the servers, if the settings do not contradict themselves.
    pub(crate) fn check(&self) -> Result<Vec<Server>, SettingsError> {
        let is_low = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if !(1..=32).contains(&self.cluster.len()) || !self.cluster.bytes().all(is_low) {
            return Err(SettingsError::Cluster(self.cluster.clone()));
        }
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
        let is_name = |n: &&String| (1..=253).contains(&n.len()) && n.bytes().all(is_plain);
        if let Some(name) = self.nodes.iter().find(|name| !is_name(name)) {
            return Err(SettingsError::Node(name.clone()));
        }
        if self.nodes.len() > MOST_NODES || self.me.index() >= self.nodes.len() {
            return Err(SettingsError::Nodes);
        }
        match (&self.tls, self.plaintext) {
            (None, false) => return Err(SettingsError::NoTls),
            (Some(_), true) => return Err(SettingsError::Both),
            _ => {}
        }
        if self.servers.is_empty() {
            return Err(SettingsError::NoServer);
        }
        self.servers.iter().map(|text| server(text)).collect()
    }

    /// Returns the prefix of all keys of the cluster.
    pub(crate) fn prefix(&self) -> String {
        format!("/diolkos/{}/", self.cluster)
    }

    /// Returns the key of the engine's name.
    pub(crate) fn engine_key(&self) -> String {
        format!("{}engine", self.prefix())
    }

    /// Returns the key of a node's record, if there is such a node.
    pub(crate) fn record_key(&self, node: NodeId) -> Option<String> {
        let name = self.nodes.get(node.index())?;
        Some(format!("{}{name}/record", self.nodes_prefix()))
    }

    /// Returns the prefix of the keys of all nodes.
    pub(crate) fn nodes_prefix(&self) -> String {
        format!("{}node/", self.prefix())
    }

    /// Returns the name of the node whose record has this key, whether the file names it or not.
    pub(crate) fn named(&self, key: &str) -> Option<String> {
        let name = key.strip_prefix(&self.nodes_prefix())?;
        let name = name.strip_suffix("/record")?;
        Some(name.to_owned())
    }

    /// Returns a key that never exists, and that only this node may write.
    pub(crate) fn nothing_key(&self) -> String {
        let name = &self.nodes[self.me.index()];
        format!("{}{name}/nothing", self.nodes_prefix())
    }
}

/// Returns true if it is the address of a server in the form of [`Settings::servers`].
pub fn is_server(text: &str) -> bool {
    server(text).is_ok()
}

fn server(text: &str) -> Result<Server, SettingsError> {
    let wrong = || SettingsError::Server(text.into());
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    let (host, port) = (authority.host(), authority.port_u16());
    let has_port = text.len() > host.len();
    if text.contains('@') || host.is_empty() || has_port != port.is_some() {
        return Err(wrong());
    }
    let port = port.unwrap_or(PORT);
    Ok(Server {
        shown: format!("{host}:{port}"),
        host: host.trim_matches(['[', ']']).into(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(server: &str) -> Settings {
        Settings {
            plaintext: true,
            ..Settings::new(vec![server.into()], "c1", NodeId(0), vec!["gw-a".into()])
        }
    }

    #[test]
    fn servers_have_a_host_and_perhaps_a_port() {
        for (text, shown, host) in [
            ("a.example", "a.example:2379", "a.example"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7", "2001:db8::1"),
            ("192.0.2.1:1", "192.0.2.1:1", "192.0.2.1"),
        ] {
            let server = plain(text).check().unwrap().remove(0);
            assert_eq!((&*server.shown, &*server.host), (shown, host));
        }
        for text in [
            "",
            "http://a",
            "u:p@a",
            "a/b",
            "a:x",
            "a:70000",
            "a:",
            "2001:db8::1",
        ] {
            let error = SettingsError::Server(text.into());
            assert_eq!(plain(text).check().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn nothing_is_unencrypted_unless_that_is_said() {
        let none = Settings {
            plaintext: false,
            ..plain("a")
        };
        assert_eq!(none.check().unwrap_err(), SettingsError::NoTls);
        let tls = Tls {
            ca: "a".into(),
            certificate: "b".into(),
            key: "c".into(),
        };
        let both = Settings {
            tls: Some(tls.clone()),
            ..plain("a")
        };
        assert_eq!(both.check().unwrap_err(), SettingsError::Both);
        assert!(Settings {
            tls: Some(tls),
            ..none
        }
        .check()
        .is_ok());
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_key() {
        for cluster in ["", "a/b", "A", "a.b"] {
            let settings = Settings {
                cluster: cluster.into(),
                ..plain("a")
            };
            assert!(settings.check().is_err(), "{cluster}");
        }
        for name in ["", "a/b", "a b", "ä"] {
            let settings = Settings {
                nodes: vec![name.into()],
                ..plain("a")
            };
            assert!(settings.check().is_err(), "{name}");
        }
        let other = Settings {
            me: NodeId(1),
            ..plain("a")
        };
        assert_eq!(other.check().unwrap_err(), SettingsError::Nodes);
    }

    #[test]
    fn a_password_is_not_printed() {
        let login = Login {
            user: "node".into(),
            password: "secret".into(),
        };
        assert!(!format!("{login:?}").contains("secret"));
    }
}
