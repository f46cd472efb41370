// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which engine, how it is reached, and what it keeps for how long.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;

use crate::names::is_cluster;

/// Where the engine is and how a node talks to it. All nodes of a cluster have the same, but for `client_name` and
/// the identity.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `host:port` or `tls://host:port`, one or more. IPv6 addresses are in brackets. Servers that these know of and that are not
    /// named here are not used.
    pub servers: Vec<String>,
    /// The cluster's name: `[a-z0-9-]{1,32}`.
    pub name: String,
    /// How the servers' operators see this node.
    pub client_name: String,
    /// Encrypts and verifies. Required, unless `plaintext` is set.
    pub tls: Option<Tls>,
    /// Allows a connection without encryption: passwords and bindings are readable on the wire, and whoever is on it can write.
    pub plaintext: bool,
    /// A user of the engine, if its certificate is not enough.
    pub login: Option<Login>,
    /// On how many servers the engine keeps everything: 1, 3 or 5. Applies when the bucket and the stream are made; what
    /// exists is used as it is.
    pub replicas: usize,
    /// The most bytes of messages that the stream keeps; the oldest are dropped first. Applies like `replicas`.
    pub stream_bytes: u64,
    /// For how long the stream keeps a message. Applies like `replicas`.
    pub stream_age: Duration,
    /// The biggest value or payload in bytes. Bigger ones are not sent; from others, they are skipped and counted.
    pub max_message: usize,
    /// For how long the engine may leave a request or a ping without an answer. After that, the connection counts as lost.
    pub silence: Duration,
    /// How many events may wait for the caller. Times `max_message`, this bounds the memory.
    pub events: usize,
}

/// Files in PEM. They are read anew for each connection, so renewed certificates need no restart.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The authorities that issue the servers' certificates. No other ones are trusted, the system's neither.
    pub ca: PathBuf,
    /// What this node shows of itself.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// With the intermediate certificates after it, if there are any.
    pub certificate: PathBuf,
    /// Not encrypted.
    pub key: PathBuf,
}

/// A user of the engine.
#[derive(Clone)]
pub struct Login {
    /// Appears in messages.
    pub user: String,
    /// Does not.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// What is wrong with settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No server at all.
    #[error("no server of the engine is named")]
    NoServer,
    /// A server that cannot be one.
    #[error("\"{0}\" is no server of an engine; write \"host:port\" or \"tls://host:port\"")]
    Server(String),
    /// A cluster's name that cannot be part of a subject.
    #[error("\"{0}\" cannot be a cluster's name; use 1 to 32 of a-z, 0-9 and \"-\"")]
    Name(String),
    /// Neither encryption nor the permission to go without.
    #[error(
        "the engine has no TLS settings; name the authority's certificate, or allow plaintext"
    )]
    NoTls,
    /// Encryption and the permission to go without.
    #[error("plaintext and TLS are both set; remove one of them")]
    Both,
    /// A number of replicas that the engine does not have.
    #[error("{0} replicas are not possible; use 1, 3 or 5")]
    Replicas(usize),
    /// A limit that leaves no room.
    #[error("{what} is {value}; the least is {least}")]
    Limit {
        /// The setting.
        what: &'static str,
        /// What it is, with its unit.
        value: String,
        /// What it has to be.
        least: &'static str,
    },
}

/// A server as messages name it and as it is reached.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// `host:port`.
    pub(crate) shown: String,
    pub(crate) address: ServerAddr,
}

impl Settings {
    /// Usual limits: one replica, 64 MiB and 150 s of messages, 64 KiB for each, 1.5 s of silence, 256 events.
    pub fn new(servers: Vec<String>, name: &str) -> Self {
        Self {
            servers,
            name: name.into(),
            client_name: "diolkos".into(),
            tls: None,
            plaintext: false,
            login: None,
            replicas: 1,
            stream_bytes: 64 << 20,
            stream_age: Duration::from_secs(150),
            max_message: 64 << 10,
            silence: Duration::from_millis(1500),
            events: 256,
        }
    }

    /// The servers, if all settings can be true.
    pub(crate) fn check(&self) -> Result<Vec<Server>, SettingsError> {
        if !is_cluster(&self.name) {
            return Err(SettingsError::Name(self.name.clone()));
        }
        match (&self.tls, self.plaintext) {
            (None, false) => return Err(SettingsError::NoTls),
            (Some(_), true) => return Err(SettingsError::Both),
            _ => {}
        }
        if ![1, 3, 5].contains(&self.replicas) {
            return Err(SettingsError::Replicas(self.replicas));
        }
        // JetStream's own limits: a stream's window of duplicates is 100 ms or more, and not longer than its age.
        at_least(
            "stream_age",
            self.stream_age >= Duration::from_secs(1),
            format!("{:?}", self.stream_age),
            "1 s",
        )?;
        at_least(
            "silence",
            self.silence >= Duration::from_millis(300),
            format!("{:?}", self.silence),
            "300 ms",
        )?;
        at_least(
            "max_message",
            self.max_message >= 256,
            self.max_message.to_string(),
            "256 bytes",
        )?;
        let room = self.stream_bytes / 2 >= self.max_message as u64;
        at_least(
            "stream_bytes",
            room,
            self.stream_bytes.to_string(),
            "twice max_message",
        )?;
        at_least("events", self.events >= 1, self.events.to_string(), "1")?;
        if self.servers.is_empty() {
            return Err(SettingsError::NoServer);
        }
        self.servers.iter().map(|text| self.server(text)).collect()
    }

    fn server(&self, text: &str) -> Result<Server, SettingsError> {
        let wrong = || SettingsError::Server(text.into());
        let (encrypted, rest) = match text.split_once("://") {
            None => (false, text),
            Some(("tls", rest)) => (true, rest),
            Some(_) => return Err(wrong()),
        };
        if encrypted && self.plaintext {
            return Err(SettingsError::Both);
        }
        if rest.contains(['/', '@', '?', '#']) {
            return Err(wrong());
        }
        let scheme = if self.plaintext { "nats" } else { "tls" };
        let address: ServerAddr = format!("{scheme}://{rest}").parse().map_err(|_| wrong())?;
        if address.host().is_empty() {
            return Err(wrong());
        }
        let host = address.host();
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        Ok(Server {
            shown: format!("{host}:{}", address.port()),
            address,
        })
    }
}

fn at_least(
    what: &'static str,
    holds: bool,
    value: String,
    least: &'static str,
) -> Result<(), SettingsError> {
    if holds {
        Ok(())
    } else {
        Err(SettingsError::Limit { what, value, least })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls() -> Settings {
        let tls = Tls {
            ca: "ca.pem".into(),
            identity: None,
        };
        Settings {
            tls: Some(tls),
            ..Settings::new(vec!["a.example:4223".into()], "c1")
        }
    }

    #[test]
    fn nothing_is_unencrypted_unless_that_is_said() {
        let servers = tls().check().unwrap();
        assert_eq!(servers[0].shown, "a.example:4223");
        assert!(servers[0].address.tls_required());
        assert_eq!(
            Settings { tls: None, ..tls() }.check().unwrap_err(),
            SettingsError::NoTls
        );
        assert_eq!(
            Settings {
                plaintext: true,
                ..tls()
            }
            .check()
            .unwrap_err(),
            SettingsError::Both
        );
        let plain = Settings {
            tls: None,
            plaintext: true,
            ..tls()
        };
        assert!(!plain.check().unwrap()[0].address.tls_required());
        let mixed = Settings {
            servers: vec!["tls://a".into()],
            ..plain
        };
        assert_eq!(mixed.check().unwrap_err(), SettingsError::Both);
    }

    #[test]
    fn servers_have_a_host_and_perhaps_a_port() {
        for (text, shown) in [
            ("a", "a:4222"),
            ("tls://[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            let settings = Settings {
                servers: vec![text.into()],
                ..tls()
            };
            assert_eq!(settings.check().unwrap()[0].shown, shown);
        }
        for text in [
            "",
            "ws://a",
            "nats://a",
            "user:secret@a",
            "a/b",
            "a:x",
            "a:70000",
            "2001:db8::1",
        ] {
            let settings = Settings {
                servers: vec![text.into()],
                ..tls()
            };
            assert_eq!(
                settings.check().unwrap_err(),
                SettingsError::Server(text.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn limits_leave_room() {
        assert!(Settings {
            replicas: 2,
            ..tls()
        }
        .check()
        .is_err());
        assert!(Settings { events: 0, ..tls() }.check().is_err());
        assert!(Settings {
            stream_bytes: 100_000,
            ..tls()
        }
        .check()
        .is_err());
        assert!(Settings {
            servers: Vec::new(),
            ..tls()
        }
        .check()
        .is_err());
        assert!(Settings {
            name: "a.b".into(),
            ..tls()
        }
        .check()
        .is_err());
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
