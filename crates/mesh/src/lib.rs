// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS connections between the gateways of one cluster, on one LAN, that carry the messages of `crates/node`.
//!
//! ```text
//! worker ── Mesh::send ──► queue of ROOM bytes ──► thread "mesh": dial, accept, TLS ══ TCP ══ the other gateways
//!        ◄── events, of at most a credit of bytes for each node ──┘
//! ```
//!
//! # Invariants
//!
//! * **A connection is with the node that the other side's certificate names**, whatever that side claims. TLS is 1.3,
//!   each side checks that an authority of the cluster signed the other's certificate, and there is no session
//!   resumption. The certificate has the DNS name of exactly one node of the file; further names in it do not matter,
//!   and patterns name no node. The node is not this one, and it connects from its address of the file. The side that
//!   dials also checks that it reached the node that it wanted.
//! * **At most one connection with a node counts**, the newest. The node with the lower number dials, so two nodes
//!   never dial each other. The side that was dialled says when the connection counts there; the dialling side does not
//!   report it earlier.
//! * **A message arrives whole, once, and in order, or the connection ends.** A connection's number is never reused.
//! * **No node can block the worker.** [`Mesh::send`] puts a message into a queue. If it does not fit, the connection
//!   ends.
//!
//! # Attackers
//!
//! * *A host that reaches the port.* A connection from an address that is not a node's is closed before a byte is read.
//!   A sender with a node's address can have four handshakes at once, of two seconds each; a newer one replaces the
//!   oldest. So a flood from one address costs neither memory nor another node's connection.
//! * *A node with a valid certificate.* For each node, at most 256 KiB of messages wait for the worker, with 1 KiB
//!   added for each; beyond that its connection is not read, and TCP makes it wait. The worker gets messages of all
//!   nodes in one queue. If a node does not read, its queue here is full after 1 MiB, and its connection ends five
//!   seconds later. Its connections follow each other only as fast as the worker handles the events of their ends.
//! * *The holder of a stolen key* can act as that node from that node's address, until the authority is replaced: there
//!   are no revocation lists.
//!
//! # Times
//!
//! A node that restarts dials those with higher numbers at once, and *knocks* at those with lower ones: a handshake
//! that makes them dial at once. Otherwise a node dials after 50 ms, and doubles that up to a second, with jitter. A
//! connection that was made with earlier certificates ends within [`LINGER`] of [`Mesh::renew`], and every connection
//! within [`AGE`]. Whether a connected node still works is decided by `crates/node` from its beats.
#![forbid(unsafe_code)]

mod accept;
mod connection;
mod credentials;
mod dial;
mod event;
mod frame;
mod refusal;
mod settings;
mod shared;

use std::sync::{mpsc, Arc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diolkos_node::{Event as NodeEvent, NodeId};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

pub use credentials::{Credentials, Files};
pub use event::{Event, Link, Received, ROOM};
pub use refusal::{Refusal, Refused};
pub use settings::{Fault, NodeAddress, Settings};

use refusal::Refusals;
use shared::{listen, Shared};

/// Maximum duration of a handshake, including the TCP connection of the side that dials.
pub const HANDSHAKE: Duration = Duration::from_secs(2);
/// A connection with waiting data that makes no progress ends after this time.
pub const STALL: Duration = Duration::from_secs(5);
/// Connections that were made with earlier certificates end within this time.
pub const LINGER: Duration = Duration::from_secs(60);
/// Maximum age of a connection.
pub const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The connections of this node, owned by its worker. They end when this is dropped.
#[derive(Debug)]
pub struct Mesh {
    links: Vec<Option<Link>>,
    refusals: Arc<Refusals>,
    credentials: watch::Sender<Credentials>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Mesh {
    /// Listens, and starts the thread of the connections. Events arrive in the worker's channel, beside its others.
    /// Their number there is bounded only if each is passed to [`Mesh::note`].
    ///
    /// # Errors
    ///
    /// The settings contradict each other, or the address cannot be bound.
    pub fn start<E: From<Event> + Send + 'static>(
        settings: Settings,
        credentials: Credentials,
        events: mpsc::Sender<E>,
    ) -> Result<Mesh, Fault> {
        let address = settings.check()?.address;
        let failed = |error| Fault::Listen(address, error);
        let listener = listen(address)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed)?;
        let links = settings.nodes.iter().map(|_| None).collect();
        let refusals = Arc::new(Refusals::default());
        let (credentials, known) = watch::channel(credentials);
        let (stop, stopped) = oneshot::channel::<()>();
        // A worker that has ended receives nothing.
        let tell = move |event: Event| drop(events.send(event.into()));
        let shared = Arc::new(Shared::new(settings, Arc::clone(&refusals), Box::new(tell)));
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(shared, listener, known) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("mesh".to_owned()).spawn(run);
        Ok(Mesh {
            links,
            refusals,
            credentials,
            stop: Some(stop),
            thread: Some(thread.map_err(failed)?),
        })
    }

    /// Converts an event to one of the node, and passes it to `hear`. [`Event::Refused`] has no such event, but must be
    /// passed here, too.
    pub fn note(&mut self, event: Event, hear: impl FnOnce(NodeEvent<'_>)) {
        match event {
            Event::Connected(link) => {
                let (peer, connection, room) = (link.peer, link.connection, link.room());
                self.links[peer.index()] = Some(link);
                hear(NodeEvent::Connected {
                    peer,
                    connection,
                    room,
                });
            }
            Event::Message {
                peer,
                connection,
                bytes,
            } => hear(NodeEvent::Message {
                peer,
                connection,
                bytes: &bytes,
            }),
            Event::Room { peer, connection } => {
                // The current room: the worker may have sent more since.
                if let Some(room) = self.link(peer, connection).map(Link::room) {
                    hear(NodeEvent::Room {
                        peer,
                        connection,
                        room,
                    });
                }
            }
            Event::Lost { peer, connection } => {
                self.close(peer, connection);
                hear(NodeEvent::Lost { peer, connection });
            }
            Event::Refused(refused) => self.refusals.handled(&refused),
        }
    }

    /// Sends a message of 1 to [`diolkos_node::message::MAX_BYTES`] bytes, if this connection is still the current one.
    /// If there is no room for it, the connection ends. Never blocks.
    pub fn send(&mut self, peer: NodeId, connection: u64, bytes: Vec<u8>) {
        let link = self.link(peer, connection);
        if link.is_some_and(|link| !link.send(bytes)) {
            self.close(peer, connection);
        }
    }

    /// Ends a connection, with all messages that wait in it. Another one will be made.
    pub fn close(&mut self, peer: NodeId, connection: u64) {
        if self.link(peer, connection).is_some() {
            self.links[peer.index()] = None;
        }
    }

    /// Uses these certificates for new connections from now on; existing connections end within [`LINGER`].
    pub fn renew(&self, credentials: Credentials) {
        self.credentials.send_replace(credentials);
    }

    /// Returns how many connections were refused for this reason.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refusals.times(why)
    }

    fn link(&self, peer: NodeId, connection: u64) -> Option<&Link> {
        let link = self.links.get(peer.index())?.as_ref();
        link.filter(|link| link.connection == connection)
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread ends without waiting.
        self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(
    shared: Arc<Shared>,
    listener: std::net::TcpListener,
    known: watch::Receiver<Credentials>,
) {
    // Only a thread without a runtime fails here.
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let me = shared.settings.me;
    let all = (0..shared.settings.nodes.len() as u8).map(NodeId);
    for peer in all.filter(|peer| *peer != me) {
        let (shared, known) = (Arc::clone(&shared), known.clone());
        if me < peer {
            tokio::spawn(dial::keep(shared, peer, known));
        } else {
            tokio::spawn(dial::knock(shared, peer, known));
        }
    }
    accept::accept(shared, listener, known).await;
}
