// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accepts connections. Those from an address that is not a node's are closed; the others have little time for
//! the handshake.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::connection::{carry, Renewals, Side};
use crate::credentials::Credentials;
use crate::refusal::Refusal;
use crate::shared::{tune, Shared};
use crate::HANDSHAKE;

/// Maximum number of concurrent handshakes with one address. A newer one replaces the oldest.
pub(crate) const AT_ONCE: usize = 4;
/// Pause when no descriptors are left; connections wait in the kernel meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts for ever.
pub(crate) async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    credentials: watch::Receiver<Credentials>,
) {
    // Bounded by the number of addresses of nodes.
    let mut handshakes: HashMap<IpAddr, VecDeque<AbortHandle>> = HashMap::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let address = from.ip();
        if shared.at(address).is_none() {
            shared.refuse(Refusal::Stranger, address);
            continue;
        }
        let begun = handshakes.entry(address).or_default();
        begun.retain(|handshake| !handshake.is_finished());
        if begun.len() >= AT_ONCE {
            shared.refuse(Refusal::Crowded, address);
            begun.pop_front().iter().for_each(AbortHandle::abort);
        }
        let mut renewals = credentials.clone();
        renewals.mark_unchanged();
        let task = welcome(Arc::clone(&shared), stream, address, renewals);
        begun.push_back(tokio::spawn(task).abort_handle());
    }
}

/// Determines which node it is.
async fn welcome(shared: Arc<Shared>, stream: TcpStream, address: IpAddr, renewals: Renewals) {
    let acceptor = renewals.borrow().acceptor.clone();
    let greeted = async {
        tune(&stream)?;
        acceptor.accept(stream).await
    };
    let result = match timeout(HANDSHAKE, greeted).await {
        Err(_) => Err(Refusal::Slow),
        Ok(Err(error)) => Err(Refusal::of(&error)),
        Ok(Ok(stream)) => {
            let (_, tls) = stream.get_ref();
            let peer = shared.identify(address, tls.peer_certificates(), tls.alpn_protocol());
            peer.map(|peer| (peer, stream))
        }
    };
    match result {
        Err(why) => shared.refuse(why, address),
        // The gateway with the lower number dials. A higher one only announces that it runs.
        Ok((peer, _)) if peer > shared.settings.me => {
            shared.peers[peer.index()].knocked.notify_one();
        }
        Ok((peer, stream)) => {
            // A task of its own, so that newer handshakes do not end this one.
            tokio::spawn(carry(shared, peer, stream, Side::Accepted, renewals));
        }
    }
}
