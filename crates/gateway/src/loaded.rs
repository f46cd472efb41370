// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's implementation of [`Programs`]: what BPF programs know of other gateways.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{Forwarding, Gateway as Hop, Homes, HostPort, Owner, Sessions};
use diolkos_node::NodeId;

use super::programs::{of, Programs};

/// The maps of the kernel's programs.
#[derive(Debug)]
pub struct Loaded {
    /// The map of the programs that translate.
    pub sessions: Arc<Sessions>,
    /// Shared by these programs and the one that forwards.
    pub homes: Arc<Homes>,
    /// The map of the program that forwards.
    pub forwarding: Arc<Forwarding>,
}

impl Programs for Loaded {
    fn use_copies(&self, owner: NodeId, until: Duration) {
        self.sessions.set_deadline(of(owner), until);
    }

    fn set_home(&self, bucket: usize, home: Owner, keeps_portless: bool) {
        self.homes.set_home(bucket, home, keeps_portless);
    }

    fn set_away(&self, port: HostPort, owner: NodeId) -> io::Result<()> {
        self.homes.set_away(port, of(owner))
    }

    fn clear_away(&self, port: HostPort) -> io::Result<()> {
        self.homes.clear_away(port)
    }

    fn lead(&self, node: NodeId, hop: Option<Hop>) -> io::Result<()> {
        self.forwarding.lead(of(node), hop)
    }
}
