// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that this node makes: to those with higher numbers, again and again, and once to those with lower ones.

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

/// Before the second attempt, and at most, between two.
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
        let attempt = async {
            let stream = reach(&shared, peer, &renewals).await;
            if stream.is_none() {
                sleep(jittered(pause)).await;
            }
            stream
        };
        let reached = tokio::select! {
            reached = attempt => reached,
            // It has just started: an attempt from before may wait for a lost packet.
            () = knocked.notified() => {
                pause = FIRST;
                None
            }
        };
        let Some(stream) = reached else {
            pause = LAST.min(pause * 2);
            continue;
        };
        let since = Instant::now();
        carry(Arc::clone(&shared), peer, stream, Side::Dialled, renewals).await;
        // One that ends at once, again and again, is no reason to hurry.
        pause = match since.elapsed() >= LAST {
            true => FIRST,
            false => LAST.min(pause * 2),
        };
        sleep(jittered(pause)).await;
    }
}

/// Tells a node that dials this one that it runs. If that one does not run, it will dial when it starts.
pub(crate) async fn knock(
    shared: Arc<Shared>,
    peer: NodeId,
    credentials: watch::Receiver<Credentials>,
) {
    let attempt = async {
        let mut stream = connect(&shared, peer, &credentials).await.ok()?;
        // It ends the connection when it has read the certificate.
        welcomed(&mut stream).await.ok()
    };
    let _ = timeout(HANDSHAKE, attempt).await;
}

/// A connection that counts on both sides.
async fn reach(
    shared: &Shared,
    peer: NodeId,
    credentials: &Renewals,
) -> Option<TlsStream<TcpStream>> {
    let address = shared.settings.nodes[peer.index()].address.ip();
    let attempt = async {
        let mut stream = connect(shared, peer, credentials).await?;
        let (_, tls) = stream.get_ref();
        match shared.identify(address, tls.peer_certificates(), tls.alpn_protocol()) {
            Ok(node) if node == peer => {}
            Ok(_) => return Err(Some(Refusal::Elsewhere)),
            Err(why) => return Err(Some(why)),
        }
        match welcomed(&mut stream).await {
            Ok(()) => Ok(stream),
            Err(error) => Err(Some(Refusal::of(&error))),
        }
    };
    match timeout(HANDSHAKE, attempt).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(why)) => {
            why.iter().for_each(|why| shared.refuse(*why, address));
            None
        }
        Err(_) => None,
    }
}

/// A TLS connection with a node's address.
///
/// # Errors
///
/// Why TLS failed, or None if nobody is there.
async fn connect(
    shared: &Shared,
    peer: NodeId,
    credentials: &Renewals,
) -> Result<TlsStream<TcpStream>, Option<Refusal>> {
    let place = &shared.settings.nodes[peer.index()];
    let tcp = async {
        // Nodes are known by their addresses, too.
        let mut own = shared.settings.nodes[shared.settings.me.index()].address;
        own.set_port(0);
        let socket = match own.is_ipv6() {
            true => TcpSocket::new_v6()?,
            false => TcpSocket::new_v4()?,
        };
        socket.bind(own)?;
        let stream = socket.connect(place.address).await?;
        tune(&stream)?;
        io::Result::Ok(stream)
    };
    let stream = tcp.await.map_err(|_| None)?;
    let name = ServerName::try_from(place.name.clone()).map_err(|_| None)?;
    let connector = credentials.borrow().connector.clone();
    let greeted = connector.connect(name, stream).await;
    greeted.map_err(|error| Some(Refusal::of(&error)))
}
