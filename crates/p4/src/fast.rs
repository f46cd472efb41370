// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The switch as the controller's fast path. It opens no sessions by itself, so there are no leases.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{NodePort, Sent, Session, Sessions};
use diolkos_gateway::fastpath::FastPath;

use crate::switch::Switch;
use crate::wanted::{ends, key};

impl FastPath for Switch {
    // The program declines the segments that change the state of a TCP session, so it need not know what was sent.
    fn put(&self, session: &Session, _: Sent) -> io::Result<()> {
        self.shared.lock().put(session)?;
        self.shared.work.notify_one();
        // A packet of this session leaves only after this returns.
        let (outer, inner) = ends(session);
        self.settled(outer, inner);
        Ok(())
    }

    fn remove(&self, session: &Session) -> io::Result<()> {
        self.shared.lock().remove(key(session));
        self.shared.work.notify_one();
        Ok(())
    }

    fn bind(&self, node: NodePort, v4: (Ipv4Addr, u16)) -> io::Result<()> {
        self.settled((node.protocol, v4), (node.addr, node.port));
        Ok(())
    }

    fn unbind(&self, _: NodePort) -> io::Result<()> {
        Ok(())
    }

    fn last_seen(&self, session: &Session) -> io::Result<Option<Duration>> {
        Ok(self.shared.lock().last_seen(key(session)))
    }

    fn maps(&self) -> Option<Arc<Sessions>> {
        None
    }
}
