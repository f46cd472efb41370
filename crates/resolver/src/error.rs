// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why names cannot be answered, or the prefix of a network cannot be looked for.

use std::io;
use std::net::SocketAddr;

use diolkos_service::failure::{Classified, Exit, Failure};

/// Why names cannot be answered, or the prefix of a network cannot be looked for.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ResolverError {
    /// The configuration has none.
    #[error("dns64: the configuration has no section [dns64]")]
    NoSection,
    /// A part of the service has failed.
    #[error("the DNS64 ends: {0}")]
    Ended(#[source] Failure),
    /// Another program has the name.
    #[error(
        "a diolkos with the name {0} already runs in this network namespace: stop it, or choose another name \
         (--name, dns64.name)"
    )]
    NameTaken(String),
    /// Router advertisements cannot be received.
    #[error(
        "dns64.pref64 = \"auto\" needs CAP_NET_RAW to hear router advertisements: run it as root, or give it the \
         capability"
    )]
    NoRawSockets,
    /// The kernel lets this process send no packets of its own on a link.
    #[error("no packet socket on {name}: {source} (CAP_NET_RAW is needed)")]
    PacketSocket {
        /// The link.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The certificates of resolvers could not be judged.
    #[error("dns64.upstream_ca: {path} has no authority that proves the name of a resolver asked by TLS: {why}")]
    Authorities {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The new configuration has another value for a key that needs a restart.
    #[error("{0}")]
    FixedKey(String),
    /// Identifiers of questions would be predictable.
    #[error("the kernel returned no random numbers: {0}")]
    Random(#[source] io::Error),
    /// The port needs a privilege.
    #[error(
        "listening on {address} needs CAP_NET_BIND_SERVICE: give it, or choose a port from 1024 on (--listen, \
         dns64.listen)"
    )]
    PrivilegedPort {
        /// The address and port.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another program listens there.
    #[error("cannot listen on {address}: {owner}")]
    PortTaken {
        /// The address and port.
        address: SocketAddr,
        /// A sentence about that program.
        owner: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The address is not one of this host; it may still come.
    #[error("cannot listen on {address}: this host has no such address")]
    NoAddress {
        /// The address and port.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The address cannot be bound for another reason.
    #[error("cannot listen on {address} by {protocol}: {source}")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// TCP or UDP.
        protocol: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Classified for ResolverError {
    fn exit(&self) -> Exit {
        use ResolverError as E;
        match self {
            E::NoSection | E::Authorities { .. } | E::FixedKey(_) => Exit::Usage,
            E::NoRawSockets | E::PacketSocket { .. } | E::PrivilegedPort { .. } => Exit::Missing,
            E::Ended(_)
            | E::NameTaken(_)
            | E::Random(_)
            | E::PortTaken { .. }
            | E::NoAddress { .. }
            | E::Listen { .. } => Exit::RunTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use ResolverError as E;
        let address = "[::1]:53".parse().expect("an address");
        let memory = || io::ErrorKind::OutOfMemory.into();
        let cases = [
            (E::NoSection, false, Exit::Usage, "dns64: the configuration has no section [dns64]"),
            (E::Ended(E::NoSection.into()), true, Exit::RunTime, "the DNS64 ends: dns64: the configuration has no section [dns64]"),
            (E::NameTaken("x".to_owned()), false, Exit::RunTime, "a diolkos with the name x already runs in this network \
              namespace: stop it, or choose another name (--name, dns64.name)"),
            (E::NoRawSockets, false, Exit::Missing, "dns64.pref64 = \"auto\" needs CAP_NET_RAW to hear router \
              advertisements: run it as root, or give it the capability"),
            (E::PacketSocket { name: "eth0".to_owned(), source: memory() }, true, Exit::Missing, "no packet socket on eth0: \
              out of memory (CAP_NET_RAW is needed)"),
            (E::Authorities { path: "/ca.pem".to_owned(), why: "it is empty".to_owned() }, false, Exit::Usage, "dns64.upstream_ca: \
              /ca.pem has no authority that proves the name of a resolver asked by TLS: it is empty"),
            (E::FixedKey("x cannot change".to_owned()), false, Exit::Usage, "x cannot change"),
            (E::Random(memory()), true, Exit::RunTime, "the kernel returned no random numbers: out of memory"),
            (E::PrivilegedPort { address, source: memory() }, true, Exit::Missing, "listening on [::1]:53 needs \
              CAP_NET_BIND_SERVICE: give it, or choose a port from 1024 on (--listen, dns64.listen)"),
            (E::PortTaken { address, owner: "x has it".to_owned(), source: memory() }, true, Exit::RunTime,
             "cannot listen on [::1]:53: x has it"),
            (E::NoAddress { address, source: memory() }, true, Exit::RunTime, "cannot listen on [::1]:53: this host has no \
              such address"),
            (E::Listen { address, protocol: "TCP", source: memory() }, true, Exit::RunTime, "cannot listen on [::1]:53 by \
              TCP: out of memory"),
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
