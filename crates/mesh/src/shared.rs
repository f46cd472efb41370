// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that all connections of a node share.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use diolkos_node::NodeId;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::{watch, Notify, Semaphore};

use crate::credentials::{named, PROTOCOL};
use crate::event::Event;
use crate::refusal::{Refusal, Refusals};
use crate::settings::{Fault, Settings};
use crate::STALL;

/// Maximum number of bytes of one node's messages that the worker has not handled yet.
const CREDIT: usize = 1 << 18;

/// Maximum number of one node's connections that the worker knows: the current one, and one that it
/// replaces.
const PLACES: usize = 2;

/// Shared by the thread and the worker's handle.
pub(crate) struct Shared {
    pub settings: Settings,
    pub peers: Vec<Peer>,
    pub refusals: Arc<Refusals>,
    events: Box<dyn Fn(Event) + Send + Sync>,
    numbers: AtomicU64,
}

/// The state of one other node.
pub(crate) struct Peer {
    /// Number of bytes that it may still have waiting at the worker.
    pub credit: Arc<Semaphore>,
    pub places: Arc<Semaphore>,
    /// Its newest connection.
    pub newest: watch::Sender<u64>,
    /// Notified when it has said that it runs again.
    pub knocked: Notify,
}

impl Shared {
    pub fn new(
        settings: Settings,
        refusals: Arc<Refusals>,
        events: Box<dyn Fn(Event) + Send + Sync>,
    ) -> Shared {
        let peer = |_| Peer {
            credit: Arc::new(Semaphore::new(CREDIT)),
            places: Arc::new(Semaphore::new(PLACES)),
            newest: watch::Sender::new(0),
            knocked: Notify::new(),
        };
        Shared {
            peers: settings.nodes.iter().map(peer).collect(),
            refusals,
            events,
            numbers: AtomicU64::new(0),
            settings,
        }
    }

    pub fn tell(&self, event: Event) {
        (self.events)(event);
    }

    /// Returns a unique number for a connection.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the first node at an address.
    pub fn at(&self, address: IpAddr) -> Option<NodeId> {
        let nodes = (0..).zip(&self.settings.nodes);
        let mut its = nodes.filter(|(_, place)| place.address.ip() == address);
        its.next().map(|(at, _)| NodeId(at))
    }

    pub fn refuse(&self, why: Refusal, address: IpAddr) {
        let peer = self.at(address);
        if let Some(refused) = self.refusals.count(why, address, peer) {
            self.tell(Event::Refused(refused));
        }
    }

    /// Identifies the other side by its certificate. TLS has checked the rest of the certificate.
    pub fn identify(
        &self,
        address: IpAddr,
        certificates: Option<&[CertificateDer<'_>]>,
        protocol: Option<&[u8]>,
    ) -> Result<NodeId, Refusal> {
        if protocol != Some(PROTOCOL) {
            return Err(Refusal::Protocol);
        }
        let first = certificates.and_then(|all| all.first());
        let node = named(&self.settings, first.ok_or(Refusal::NoCertificate)?)?;
        if node == self.settings.me {
            return Err(Refusal::Myself);
        }
        let is_there = self.settings.nodes[node.index()].address.ip() == address;
        is_there.then_some(node).ok_or(Refusal::Elsewhere)
    }
}

/// Disables send delays, and sets the timeout for a peer that acknowledges nothing.
pub(crate) fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_user_timeout(Some(STALL))
}

/// Returns a random time between half of `time` and all of it, so that nodes do not act at the same
/// moment.
pub(crate) fn jittered(time: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    time / 2 + (time / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Binds a listening socket to exactly this address.
pub(crate) fn listen(at: std::net::SocketAddr) -> Result<std::net::TcpListener, Fault> {
    use socket2::{Domain, Protocol, Socket, Type};
    let bound = || {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Connections of the process before this one may still be closing.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        socket.listen(1024)?;
        Ok(socket.into())
    };
    bound().map_err(|error| Fault::Listen(at, error))
}
