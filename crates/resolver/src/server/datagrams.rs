// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A UDP socket that reports to which local address each datagram was sent, so that the answer leaves from there.

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::outbox::Outbox;

/// A UDP socket that reports the destination of each datagram, and sends the answer from that address.
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    /// The socket is bound to one address, from which it sends everything.
    is_bound: bool,
    outbox: RefCell<Outbox>,
}

/// The addresses of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// The client.
    client: SocketAddr,
    /// The local address that the client has used; `None`: the only address of the socket.
    own: Option<IpAddr>,
}

impl Return {
    /// The client.
    pub fn client(&self) -> IpAddr {
        self.client.ip()
    }
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
            outbox: RefCell::default(),
        })
    }

    /// Makes answers wait for [`Datagrams::send_gathered`].
    pub fn gather(&self) {
        self.outbox.borrow_mut().gather();
    }

    /// Sends the waiting answers, and returns how many could not be sent.
    pub fn send_gathered(&self) -> usize {
        self.outbox.borrow_mut().send(&self.socket)
    }

    /// Sends an answer, or queues it. A lost answer does no harm, since the client asks again.
    pub fn send(&self, to: Return, answer: &[u8]) -> io::Result<()> {
        if to.own.is_none() {
            if self.outbox.borrow_mut().take(to.client, answer) {
                return Ok(());
            }
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

    /// Reads the datagrams that have arrived, or waits for some. `is_drained`: the last call read everything, so the first
    /// system call can be to wait.
    pub async fn receive(
        &self,
        buffers: &mut [Vec<u8>],
        metas: &mut [RecvMeta],
        mut is_drained: bool,
    ) -> io::Result<usize> {
        let mut slices: Vec<IoSliceMut> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let receive = || {
            if std::mem::take(&mut is_drained) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.state
                .recv(UdpSockRef::from(&self.socket), &mut slices, metas)
        };
        self.socket.async_io(Interest::READABLE, receive).await
    }

    /// The addresses for the answer to a datagram.
    pub fn return_of(&self, meta: &RecvMeta) -> Return {
        Return {
            client: meta.addr,
            // Naming the source address makes sending more expensive.
            own: meta.dst_ip.filter(|_| !self.is_bound),
        }
    }
}
