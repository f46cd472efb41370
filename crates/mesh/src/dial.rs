// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that this node makes: repeatedly to those with higher numbers, and once to those with lower ones.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use diolkos_node::NodeId;
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout, Instant};
use tokio_rustls::client::TlsStream;

use crate::connection::{carry, welcomed, Renewals, Side};
use crate::credentials::Credentials;
use crate::refusal::Refusal;
use crate::shared::{jittered, tune, Shared};
use crate::HANDSHAKE;

/// Pause before the second attempt, and maximum pause between two.
const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(1);

/// Keeps a connection with a node up, for ever.
pub(crate) async fn keep(
    shared: Arc<Shared>,
    peer: NodeId,
    credentials: watch::Receiver<Credentials>,
) {
    let knocked = &shared.peers[peer.index()].knocked;
    let mut pause = FIRST;
    loop {
        let mut renewals = credentials.clone();
        renewals.mark_unchanged();
        let stream = tokio::select! {
            stream = tcp(&shared, peer) => stream,
            // It has just started: this attempt may be waiting for a packet that was lost before.
            () = knocked.notified() => {
                pause = FIRST;
                continue;
            }
        };
        let begun = Instant::now();
        if let Some(stream) = stream {
            match timeout(HANDSHAKE, join(&shared, peer, stream, &renewals)).await {
                Ok(Ok(stream)) => {
                    let shared = Arc::clone(&shared);
                    carry(shared, peer, stream, Side::Dialled, renewals).await;
                }
                Ok(Err(why)) => {
                    let address = shared.settings.nodes[peer.index()].address;
                    shared.refuse(why, address.ip());
                }
                // A node that is stopped is not a refusal.
                Err(_) => {}
            }
        }
        // A connection that repeatedly ends at once is no reason to hurry.
        if begun.elapsed() >= HANDSHAKE * 2 {
            pause = FIRST;
        }
        tokio::select! {
            () = sleep(jittered(pause)) => pause = LAST.min(pause * 2),
            () = knocked.notified() => pause = FIRST,
        }
    }
}

/// Tells a node that dials this one that it runs. If that node does not run, it will dial when it starts.
pub(crate) async fn knock(
    shared: Arc<Shared>,
    peer: NodeId,
    credentials: watch::Receiver<Credentials>,
) {
    if let Some(stream) = tcp(&shared, peer).await {
        // It ends the connection when it has read the certificate.
        let _ = timeout(HANDSHAKE, join(&shared, peer, stream, &credentials)).await;
    }
}

/// Connects, if the node listens.
async fn tcp(shared: &Shared, peer: NodeId) -> Option<TcpStream> {
    let connect = async {
        // Nodes are identified by their addresses, too.
        let mut own = shared.settings.nodes[shared.settings.me.index()].address;
        own.set_port(0);
        let socket = match own.is_ipv6() {
            true => TcpSocket::new_v6()?,
            false => TcpSocket::new_v4()?,
        };
        socket.bind(own)?;
        let address = shared.settings.nodes[peer.index()].address;
        let stream = socket.connect(address).await?;
        tune(&stream)?;
        io::Result::Ok(stream)
    };
    timeout(HANDSHAKE, connect).await.ok()?.ok()
}

/// Completes a connection with the node that was wanted, which counts there, too.
async fn join(
    shared: &Shared,
    peer: NodeId,
    stream: TcpStream,
    credentials: &Renewals,
) -> Result<TlsStream<TcpStream>, Refusal> {
    let place = &shared.settings.nodes[peer.index()];
    let name = ServerName::try_from(place.name.clone()).map_err(|_| Refusal::Unknown)?;
    let connector = credentials.borrow().connector.clone();
    let greeted = connector.connect(name, stream).await;
    let mut stream = greeted.map_err(|error| Refusal::of(&error))?;
    let (_, tls) = stream.get_ref();
    let address = place.address.ip();
    let reached = shared.identify(address, tls.peer_certificates(), tls.alpn_protocol())?;
    if reached != peer {
        return Err(Refusal::Elsewhere);
    }
    match welcomed(&mut stream).await {
        Ok(()) => Ok(stream),
        Err(error) => Err(Refusal::of(&error)),
    }
}
