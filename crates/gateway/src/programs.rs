// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The knowledge of the programs about other gateways. The kernel implements it (`loaded`); tests have a model.

use std::fmt;
use std::io;
use std::time::Duration;

use diolkos_fastpath::{Gateway as Hop, HostPort, Owner};
use diolkos_node::NodeId;

/// The programs of a gateway. What they are told takes effect with the next packet.
pub trait Programs: fmt::Debug + Send {
    /// Uses sessions of copies of this owner's bindings until this time of CLOCK_BOOTTIME; zero: not at all.
    fn use_copies(&self, owner: NodeId, until: Duration);
    /// Sets where packets go of hosts of this bucket. [`Owner::OURS`]: programs open their bindings. With
    /// `keeps_portless`, those that show no port go to the slow path.
    fn set_home(&self, bucket: usize, home: Owner, keeps_portless: bool);
    /// Notes that a gateway other than the host's home has a binding of this port.
    fn set_away(&self, port: HostPort, owner: NodeId) -> io::Result<()>;
    /// Removes that note: the gateway has no such binding any more, or this is unknown.
    fn clear_away(&self, port: HostPort) -> io::Result<()>;
    /// Sets the way to another gateway; without one, its packets go to the slow path.
    fn lead(&self, node: NodeId, hop: Option<Hop>) -> io::Result<()>;
}

/// Converts a node number to the form of the programs.
pub fn of(node: NodeId) -> Owner {
    Owner::node(node.0).expect("a cluster has no more nodes than programs know")
}
