// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs know of other gateways. The kernel has some (`loaded`); tests have a model of them.

use std::fmt;
use std::io;
use std::time::Duration;

use diolkos_fastpath::{Gateway as Hop, HostPort, Owner};
use diolkos_node::NodeId;

/// The programs of a node. What is said to them takes effect with the next packet.
pub trait Programs: fmt::Debug + Send {
    /// Sessions of copies of this owner's bindings are used until this moment of CLOCK_BOOTTIME; zero: not at all.
    fn use_copies(&self, owner: NodeId, until: Duration);
    /// Where packets go of hosts of this bucket. [`Owner::OURS`]: programs open their bindings.
    fn set_home(&self, bucket: usize, home: Owner);
    /// Another gateway than the host's home has a binding of this port.
    fn set_away(&self, port: HostPort, owner: NodeId) -> io::Result<()>;
    /// It has none any more, or nobody knows.
    fn clear_away(&self, port: HostPort) -> io::Result<()>;
    /// The way to another gateway; without one, its packets go to the slow path.
    fn lead(&self, node: NodeId, hop: Option<Hop>) -> io::Result<()>;
}

/// As programs know a node.
pub fn of(node: NodeId) -> Owner {
    Owner::node(node.0).expect("a cluster has no more nodes than programs know")
}
