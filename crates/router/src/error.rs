// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why the translator of a router cannot run, reload or be kept.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use diolkos_gateway::store::Malformed;
use diolkos_service::failure::{Classified, Exit};
use diolkos_xlat::config::ConfigError;

/// Why the translator of a router cannot run, reload or be kept.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum RouterError {
    /// The process could not remove what it makes.
    #[error("a router's translator cannot run here: {0}")]
    NotHere(#[source] io::Error),
    /// Values contradict each other, or this host: one line for each.
    #[error("{sentences}")]
    Contradiction {
        /// The lines, with the keys of the file.
        sentences: String,
        /// The error as it was returned.
        source: ConfigError,
    },
    /// A key that needs another start; the sentence names it.
    #[error("{0}")]
    FixedKey(String),
    /// As [`RouterError::FixedKey`], in a file for all nodes of a cluster.
    #[error("{0}")]
    FixedKeyOfAll(String),
    /// A pool or a binding has an address of the host.
    #[error(
        "{what}: {address} is an address of this host, which keeps it for its own connections: give the pool \
         addresses of its own, and route them here, or ports of an interface's address (nat64.pool4.interface)"
    )]
    OwnAddress {
        /// The key, or the request.
        what: String,
        /// The address.
        address: Ipv4Addr,
    },
    /// The interface whose address nodes share belongs to a VRF.
    #[error(
        "nat64.pool4.interface: {interface:?} belongs to the VRF {vrf:?}, and packets of nodes are routed by the table `main`: take the \
         interface out of it, or give the pool addresses of its own"
    )]
    SharedInVrf {
        /// The interface.
        interface: String,
        /// The VRF.
        vrf: String,
    },
    /// A binding has a port of this host.
    #[error("not bound: {0}")]
    PortOfHost(String),
    /// A binding would have no packets.
    #[error(
        "not bound: no route leads {address} to {device}: add it to nat64.routes4, and reload"
    )]
    NotRouted {
        /// The address.
        address: Ipv4Addr,
        /// The TUN device.
        device: String,
    },
    /// Another NAT64 of this network namespace has addresses of the pool.
    #[error(
        "nat64.pool4[{at}].address: \"{own}\" overlaps {theirs}, which belongs to the NAT64 {device} (process {pid}) in this \
         network namespace: stop that one, or give each a pool of its own"
    )]
    Overlap {
        /// The index in the list of the file.
        at: usize,
        /// The own network.
        own: String,
        /// The network of the other one.
        theirs: String,
        /// The device of the other one.
        device: String,
        /// The process of the other one.
        pid: String,
    },
    /// Neighbours cannot be answered on such a link.
    #[error(
        "announce[{at}].interface: \"{name}\" has no Ethernet header, so no neighbour asks there: name another one"
    )]
    NotEthernet {
        /// The index in the list of the file.
        at: usize,
        /// The interface.
        name: String,
    },
    /// The host answers for this address itself.
    #[error(
        "announce[{at}].addresses: {own} is an address of this host, which answers for it itself: leave it out"
    )]
    OwnAnnounced {
        /// The index in the list of the file.
        at: usize,
        /// The address.
        own: IpAddr,
    },
    /// The program that answers neighbours cannot be told of an address.
    #[error("{interface}: no answer for neighbours: {source}")]
    NoAnswer {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The programs read no frames of such a link.
    #[error("the fast path does not know the link layer of {0}")]
    LinkLayer(String),
    /// A driver cannot do what the placement demands.
    #[error(
        "packets cannot be translated in the driver (XDP) of {0}; correct that, or set translator.placement to \
         \"direct\""
    )]
    Driver(String),
    /// The TUN device cannot be opened a second time.
    #[error("cannot use {device}: {source}")]
    Device {
        /// The device.
        device: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A cluster without eBPF.
    #[error("the nodes of a cluster need eBPF programs, and the kernel takes none here")]
    ClusterWithoutPrograms,
    /// A cluster without labels.
    #[error("the nodes of a cluster send packets to each other by the programs of labels: {0}")]
    ClusterWithoutLabels(String),
    /// A link of a cluster does not exist.
    #[error(
        "cluster.node.links: there is no interface {0:?}, on which other gateways are to send"
    )]
    NoClusterLink(String),
    /// This is not a node of a cluster.
    #[error("cluster: there is no such section")]
    NoCluster,
    /// An earlier request is under way.
    #[error("this node goes over to a file already")]
    GoesOver,
    /// The other nodes have a file that this one has forgotten.
    #[error(
        "cluster: all nodes go over to a file for which this one was armed before: start it again"
    )]
    Forgotten,
    /// A request came too late.
    #[error("diolkos is about to end")]
    Ending,
    /// An error in this program.
    #[error("the mode cannot change")]
    Mode,
    /// The leftovers of an earlier run have no programs.
    #[error("its programs are gone")]
    ProgramsGone,
    /// The state of an earlier run cannot be read.
    #[error("the state file: {0}")]
    State(#[from] Malformed),
    /// The tables may be half changed.
    #[error("the state is not written, because a thread panicked while it changed the tables")]
    Broken,
    /// Nothing can be kept by name.
    #[error("the network namespace has no number: {0}")]
    NamespaceNumber(#[source] io::Error),
    /// The next start could not take over what is kept.
    #[error("{0} is missing; the next start needs it to find the sessions")]
    CannotReturn(&'static str),
    /// Programs, or the device, end with this process. `what` is their name.
    #[error("cannot keep {what}: {source}")]
    NotKept {
        /// The programs.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The TUN device ends with this process.
    #[error("{device} cannot be kept: {source}")]
    DeviceNotKept {
        /// The device.
        device: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Classified for RouterError {
    fn exit(&self) -> Exit {
        use RouterError as E;
        match self {
            E::Contradiction { .. }
            | E::FixedKeyOfAll(_)
            | E::OwnAddress { .. }
            | E::PortOfHost(_)
            | E::SharedInVrf { .. }
            | E::NotRouted { .. }
            | E::NotEthernet { .. }
            | E::OwnAnnounced { .. }
            | E::NoCluster => Exit::Usage,
            E::NotHere(_)
            | E::LinkLayer(_)
            | E::Driver(_)
            | E::ClusterWithoutPrograms
            | E::ClusterWithoutLabels(_)
            | E::NoClusterLink(_)
            | E::NamespaceNumber(_)
            | E::CannotReturn(_) => Exit::Missing,
            E::FixedKey(_)
            | E::Overlap { .. }
            | E::NoAnswer { .. }
            | E::Device { .. }
            | E::GoesOver
            | E::Forgotten
            | E::Ending
            | E::Mode
            | E::ProgramsGone
            | E::State(_)
            | E::Broken
            | E::NotKept { .. }
            | E::DeviceNotKept { .. } => Exit::RunTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn each_has_its_sentence_its_source_and_its_exit_code() {
        use RouterError as E;
        let name = || "eth0".to_owned();
        let memory = || io::ErrorKind::OutOfMemory.into();
        let address = Ipv4Addr::new(192, 0, 2, 1);
        let cases = [
            (E::NotHere(memory()), true, Exit::Missing, "a router's translator cannot run here: out of memory"),
            (E::FixedKey("no".to_owned()), false, Exit::RunTime, "no"),
            (E::FixedKeyOfAll("no".to_owned()), false, Exit::Usage, "no"),
            (E::OwnAddress { what: "not bound".to_owned(), address }, false, Exit::Usage, "not bound: 192.0.2.1 is an address \
              of this host, which keeps it for its own connections: give the pool addresses of its own, and route them here, or ports of an interface's address \
              (nat64.pool4.interface)"),
            (E::NotRouted { address, device: "nat0".to_owned() }, false, Exit::Usage, "not bound: no route leads 192.0.2.1 to \
              nat0: add it to nat64.routes4, and reload"),
            (E::Overlap { at: 1, own: "a".to_owned(), theirs: "b".to_owned(), device: "nat1".to_owned(), pid: "7".to_owned() },
             false, Exit::RunTime, "nat64.pool4[1].address: \"a\" overlaps b, which belongs to the NAT64 nat1 (process 7) in \
              this network namespace: stop that one, or give each a pool of its own"),
            (E::NotEthernet { at: 0, name: name() }, false, Exit::Usage, "announce[0].interface: \"eth0\" has no Ethernet \
              header, so no neighbour asks there: name another one"),
            (E::OwnAnnounced { at: 0, own: address.into() }, false, Exit::Usage, "announce[0].addresses: 192.0.2.1 is an \
              address of this host, which answers for it itself: leave it out"),
            (E::NoAnswer { interface: name(), source: memory() }, true, Exit::RunTime, "eth0: no answer for neighbours: out of \
              memory"),
            (E::LinkLayer(name()), false, Exit::Missing, "the fast path does not know the link layer of eth0"),
            (E::Driver("eth0: no".to_owned()), false, Exit::Missing, "packets cannot be translated in the driver (XDP) of \
              eth0: no; correct that, or set translator.placement to \"direct\""),
            (E::Device { device: name(), source: memory() }, true, Exit::RunTime, "cannot use eth0: out of memory"),
            (E::ClusterWithoutPrograms, false, Exit::Missing, "the nodes of a cluster need eBPF programs, and the kernel takes \
              none here"),
            (E::ClusterWithoutLabels("no".to_owned()), false, Exit::Missing, "the nodes of a cluster send packets to each \
              other by the programs of labels: no"),
            (E::NoClusterLink(name()), false, Exit::Missing, "cluster.node.links: there is no interface \"eth0\", on which \
              other gateways are to send"),
            (E::NoCluster, false, Exit::Usage, "cluster: there is no such section"),
            (E::GoesOver, false, Exit::RunTime, "this node goes over to a file already"),
            (E::Forgotten, false, Exit::RunTime, "cluster: all nodes go over to a file for which this one was armed before: \
              start it again"),
            (E::Ending, false, Exit::RunTime, "diolkos is about to end"),
            (E::Mode, false, Exit::RunTime, "the mode cannot change"),
            (E::ProgramsGone, false, Exit::RunTime, "its programs are gone"),
            (E::State(Malformed::Truncated), true, Exit::RunTime, "the state file: it is truncated"),
            (E::Broken, false, Exit::RunTime, "the state is not written, because a thread panicked while it changed the tables"),
            (E::NamespaceNumber(memory()), true, Exit::Missing, "the network namespace has no number: out of memory"),
            (E::CannotReturn("CAP_X"), false, Exit::Missing, "CAP_X is missing; the next start needs it to find the sessions"),
            (E::NotKept { what: "the programs", source: memory() }, true, Exit::RunTime, "cannot keep the programs: out of \
              memory"),
            (E::DeviceNotKept { device: name(), source: memory() }, true, Exit::RunTime, "eth0 cannot be kept: out of memory"),
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
