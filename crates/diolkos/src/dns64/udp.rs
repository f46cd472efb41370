// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that ask by UDP: many datagrams are read at once, and each is answered from the address it was sent to.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::desk::{Desk, Scratch, Transport, Waiter};
use super::tally::Fate;

/// Datagrams read with one system call, at most.
const BATCH: usize = 16;
/// The kernel may hand over several datagrams of one sender as one, so each buffer holds the longest.
const BUFFER: usize = 1 << 16;

/// A socket that tells to which address a datagram was sent, and sends from it.
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    /// It has one address, and what it sends is from there.
    is_bound: bool,
}

/// Where an answer has to go.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// The client.
    client: SocketAddr,
    /// Our address, as the client knows it; None: the only one that the socket has.
    own: Option<IpAddr>,
}

impl Datagrams {
    /// Prepares a bound socket.
    pub fn new(socket: UdpSocket) -> io::Result<Datagrams> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let is_bound = !socket.local_addr()?.ip().is_unspecified();
        Ok(Datagrams {
            socket,
            state,
            is_bound,
        })
    }

    /// Sends an answer, or not: a client asks again.
    pub fn send(&self, to: Return, answer: &[u8]) -> io::Result<()> {
        if to.own.is_none() {
            let socket = SockRef::from(&self.socket);
            return socket.send_to(answer, &to.client.into()).map(drop);
        }
        let transmit = Transmit {
            destination: to.client,
            ecn: None,
            contents: answer,
            segment_size: None,
            src_ip: to.own,
        };
        self.state
            .try_send(UdpSockRef::from(&self.socket), &transmit)
    }
}

/// Answers until the task ends.
pub async fn serve(datagrams: Rc<Datagrams>, desk: Rc<Desk>) {
    let mut buffers = vec![vec![0; BUFFER]; BATCH];
    let mut metas = [RecvMeta::default(); BATCH];
    let mut scratch = Scratch::default();
    let mut is_drained = false;
    loop {
        let read = {
            let mut slices: Vec<IoSliceMut> =
                buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let receive = || {
                // There was nothing left; to wait for more takes no system call that says so.
                if std::mem::take(&mut is_drained) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let socket = UdpSockRef::from(&datagrams.socket);
                datagrams.state.recv(socket, &mut slices, &mut metas)
            };
            datagrams.socket.async_io(Interest::READABLE, receive).await
        };
        let read = match read {
            Ok(read) => read,
            // An ICMP error about an earlier answer.
            Err(error) => {
                tracing::debug!("a datagram could not be read: {error}");
                tokio::task::yield_now().await;
                continue;
            }
        };
        for (buffer, meta) in buffers.iter().zip(&metas).take(read) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let to = Return {
                    client: meta.addr,
                    // To name it makes sending dearer.
                    own: meta.dst_ip.filter(|_| !datagrams.is_bound),
                };
                let waiter = || Waiter::Datagram(datagrams.clone(), to);
                let by = Transport::Udp;
                if desk.take(datagram, meta.addr.ip(), by, &mut scratch, waiter)
                    && datagrams.send(to, &scratch.answer).is_err()
                {
                    desk.tally.count(Fate::SendFailed);
                }
            }
        }
        is_drained = read < BATCH;
        if !is_drained {
            // Others have work to do too.
            tokio::task::yield_now().await;
        }
    }
}
