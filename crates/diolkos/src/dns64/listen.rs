// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets on which clients are listened to.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};

use crate::failure::Failure;

use super::udp::Datagrams;

/// What waits for clients at one address.
pub struct Bound {
    /// Datagrams.
    pub udp: Datagrams,
    /// Connections.
    pub tcp: TcpListener,
}

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 256;
/// Room for datagrams that have not been read, bytes; the kernel's default drops some of a burst.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Takes an address, by UDP and TCP.
pub fn bind(address: SocketAddr) -> Result<Bound, Failure> {
    let udp = udp(address).map_err(|error| refusal(address, "UDP", &error))?;
    let tcp = tcp(address).map_err(|error| refusal(address, "TCP", &error))?;
    Ok(Bound { udp, tcp })
}

fn udp(address: SocketAddr) -> io::Result<Datagrams> {
    let socket = socket(address, Type::DGRAM, Protocol::UDP)?;
    // The kernel gives what it allows.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    Datagrams::new(UdpSocket::from_std(socket.into())?)
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address, Type::STREAM, Protocol::TCP)?;
    // Connections of an earlier run may still be on their way out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Of one family only, so that `[::]:53` and `0.0.0.0:53` can stand side by side.
fn socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn refusal(address: SocketAddr, protocol: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::missing(format!(
            "listening on {address} needs CAP_NET_BIND_SERVICE: give it, or choose a port from 1024 on (--listen, \
             dns64.listen)"
        )),
        io::ErrorKind::AddrInUse => Failure::run_time(format!(
            "cannot listen on {address}: another program has {protocol} port {} there",
            address.port()
        )),
        io::ErrorKind::AddrNotAvailable => Failure::run_time(format!(
            "cannot listen on {address}: this host has no such address"
        )),
        _ => Failure::run_time(format!("cannot listen on {address} by {protocol}: {error}")),
    }
}
