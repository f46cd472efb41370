// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS connections between the gateways of one cluster, on one LAN, that carry the messages of `crates/node`.
//!
//! ```text
//! worker ── Mesh::send ──► queue of ROOM bytes ──► thread "mesh": dial, accept, TLS ══ TCP ══ the other gateways
//!        ◄── events, of at most a credit of bytes for each node ──┘
//! ```
//!
//! # What always holds
//!
//! * **A connection is with the node that the other side's certificate names**, whatever that side says. TLS is 1.3, each side checks that an authority
//!   of the cluster signed the other one's certificate, and nothing is resumed. The certificate has the DNS name of exactly one node
//!   of the file; further names in it do not matter, and patterns name nobody. The node is not this one, and it connects from its address of the
//!   file. The side that dials also checks that it reached the node that it wanted.
//! * **At most one connection with a node counts**, the newest. The node with the lower number dials, so two never dial
//!   each other. The side that was dialled says when the connection counts there; before, the dialling side does not report it.
//! * **A message arrives whole, once, and in its order, or the connection ends.** A connection's number is never used again.
//! * **Nothing that a node does blocks the worker.** [`Mesh::send`] puts a message into a queue. What does not fit into it ends the connection.
//!
//! # Who may attack
//!
//! * *Whoever reaches the port.* A connection from an address that is no node's is closed before a byte is read. Who can send from a node's address
//!   has four handshakes at once, of two seconds each; a newer one takes the place of the oldest. So a flood from one address
//!   costs neither memory nor another node's connection.
//! * *A node, by its certificate.* Of each node, 256 KiB of messages wait for the worker at most, with 1 KiB added for each; then its connection is not read any more, and
//!   TCP makes it wait. The worker gets messages of all nodes in one queue. If a node does not read, its queue here is full after 1 MiB,
//!   and its connection ends five seconds later. Its connections follow each other only as fast as the worker handles the events of their ends.
//! * *Whoever has a stolen key* is that node from that node's address, until the authority is replaced: there are no revocation lists.
//!
//! # Times
//!
//! A node that restarts dials those with higher numbers at once, and *knocks* at those with lower ones: a handshake that makes them dial at once. Otherwise
//! a node dials after 50 ms, and doubles that up to a second, with jitter. A connection that was made with earlier certificates ends
//! within [`LINGER`] of [`Mesh::renew`], and each one within [`AGE`]. Whether a node that is connected still works, `crates/node` decides by its beats.
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
pub use settings::{Fault, Place, Settings};

use refusal::Refusals;
use shared::{listen, Shared};

/// A handshake is over after this time, with the TCP connection of the side that dials.
pub const HANDSHAKE: Duration = Duration::from_secs(2);
/// A connection on which nothing moves although something waits ends after this time.
pub const STALL: Duration = Duration::from_secs(5);
/// Connections that were made with earlier certificates end within this time.
pub const LINGER: Duration = Duration::from_secs(60);
/// No connection gets older.
pub const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The connections of this node, in the hand of its worker. They end when it is dropped.
#[derive(Debug)]
pub struct Mesh {
    links: Vec<Option<Link>>,
    refusals: Arc<Refusals>,
    credentials: watch::Sender<Credentials>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Mesh {
    /// Listens, and connects in a thread of its own. Events come into the worker's channel, beside its others. Bounds on what waits
    /// there rest on [`Mesh::note`].
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
        // A worker that is gone hears nothing.
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

    /// Tells the node what happens, in its words. [`Event::Refused`] says nothing to it, but has to come here, too.
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
                // As it is now: the worker may have sent more since.
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

    /// Sends a message of 1 to [`diolkos_node::message::MAX_BYTES`] bytes, if this connection still is the one that counts. If
    /// there is no room for it, the connection ends. Never blocks.
    pub fn send(&mut self, peer: NodeId, connection: u64, bytes: Vec<u8>) {
        let link = self.link(peer, connection);
        if link.is_some_and(|link| !link.send(bytes)) {
            self.close(peer, connection);
        }
    }

    /// Ends a connection with all that waits in it. Another one is made.
    pub fn close(&mut self, peer: NodeId, connection: u64) {
        if self.link(peer, connection).is_some() {
            self.links[peer.index()] = None;
        }
    }

    /// New connections use these certificates from now on; those that are there end within [`LINGER`].
    pub fn renew(&self, credentials: Credentials) {
        self.credentials.send_replace(credentials);
    }

    /// How many connections were refused for this reason.
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
        // The thread waits for nobody.
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
