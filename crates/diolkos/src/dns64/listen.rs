// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets on which clients are listened to, and what becomes of one that cannot be had.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};

use diolkos_config::port_owner::{self, Transport};
use diolkos_service::failure::Failure;

use super::datagrams::Datagrams;
use super::tally::{Fate, Tally};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 256;
/// Room for datagrams that have not been read, bytes; the kernel's default drops some of a burst.
const RECEIVE_BUFFER: usize = 4 << 20;

/// An address that could not be had is tried again after so long, then after twice as long, …
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … and at least so often.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Takes an address for datagrams. The failure is [`diolkos_service::failure::Kind::RunTime`] if another try may succeed.
pub fn for_datagrams(address: SocketAddr) -> Result<Socket, Failure> {
    udp(address).map_err(|error| refusal(address, "UDP", &error))
}

/// The same for connections.
pub fn for_connections(address: SocketAddr) -> Result<Socket, Failure> {
    tcp(address).map_err(|error| refusal(address, "TCP", &error))
}

/// Takes an address for datagrams, and reads them.
pub fn datagrams(address: SocketAddr) -> Result<Datagrams, Failure> {
    let socket = for_datagrams(address)?;
    datagrams_of(socket).map_err(|error| refusal(address, "UDP", &error))
}

/// Takes an address for connections, and accepts them.
pub fn connections(address: SocketAddr) -> Result<TcpListener, Failure> {
    let socket = for_connections(address)?;
    connections_of(socket).map_err(|error| refusal(address, "TCP", &error))
}

/// Reads datagrams from a socket that is bound.
pub fn datagrams_of(socket: Socket) -> io::Result<Datagrams> {
    Datagrams::new(UdpSocket::from_std(socket.into())?)
}

/// Accepts connections of a socket that listens.
pub fn connections_of(socket: Socket) -> io::Result<TcpListener> {
    TcpListener::from_std(socket.into())
}

/// Serves for ever. A socket that breaks is bound again, which is said once.
pub async fn keep<S>(
    what: String,
    socket: S,
    bind: impl Fn() -> Result<S, Failure>,
    serve: impl AsyncFn(S) -> io::Error,
    tally: &Tally,
) {
    let mut socket = Some(socket);
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(socket) = socket.take() {
            let error = serve(socket).await;
            tally.count(Fate::ListenFailed);
            tracing::error!("dns64: {what} failed: {error}; binding it again");
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        match bind() {
            Ok(bound) => {
                tracing::info!("dns64: serving {what} again");
                socket = Some(bound);
            }
            Err(failure) => {
                tally.count(Fate::ListenFailed);
                tracing::debug!("dns64: {failure}");
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

fn udp(address: SocketAddr) -> io::Result<Socket> {
    let socket = socket(address, Type::DGRAM, Protocol::UDP)?;
    // The kernel gives what it allows.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket)
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = socket(address, Type::STREAM, Protocol::TCP)?;
    // Connections of an earlier run may still be on their way out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
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

/// By whom.
fn taken(address: SocketAddr, protocol: &str) -> String {
    let transport = match protocol {
        "TCP" => Transport::Tcp,
        _ => Transport::Udp,
    };
    let port = address.port();
    match port_owner::of(address, transport) {
        Some(owner) => format!("{owner} has {protocol} port {port} there"),
        None => format!(
            "another program has {protocol} port {port} there; `ss -lnp 'sport = :{port}'` names it"
        ),
    }
}

fn refusal(address: SocketAddr, protocol: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::missing(format!(
            "listening on {address} needs CAP_NET_BIND_SERVICE: give it, or choose a port from 1024 on (--listen, \
             dns64.listen)"
        )),
        io::ErrorKind::AddrInUse => Failure::run_time(format!(
            "cannot listen on {address}: {}",
            taken(address, protocol)
        )),
        io::ErrorKind::AddrNotAvailable => Failure::run_time(format!(
            "cannot listen on {address}: this host has no such address"
        )),
        _ => Failure::run_time(format!("cannot listen on {address} by {protocol}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    fn failed(tally: &Tally) -> u64 {
        let counters = tally.counters();
        let of = counters.iter().find(|c| c.name == "dns64.listen_failed");
        of.expect("a counter").packets
    }

    /// It breaks, twice it cannot be had, then it breaks, then it holds.
    #[tokio::test(start_paused = true)]
    async fn a_socket_is_bound_until_it_holds() {
        let tally = Rc::new(Tally::default());
        let begin = tokio::time::Instant::now();
        let at = Rc::new(RefCell::new(Vec::new()));
        let (tries, times) = (Cell::new(0), at.clone());
        let bind = move || {
            tries.set(tries.get() + 1);
            times.borrow_mut().push(begin.elapsed().as_secs());
            match tries.get() {
                1 | 2 => Err(Failure::run_time("it is taken")),
                number => Ok(number),
            }
        };
        let (served, holds) = tokio::sync::oneshot::channel();
        let served = RefCell::new(Some(served));
        let serve = async |number: i32| {
            if number == 0 || number == 3 {
                return io::Error::other("it broke");
            }
            let served = served.borrow_mut().take();
            let _ = served.map(|served| served.send(number));
            std::future::pending().await
        };
        let keep = keep("a socket".to_owned(), 0, bind, serve, &tally);
        tokio::select! {
            () = keep => {}
            number = holds => assert_eq!(number, Ok(4)),
        }
        assert_eq!(*at.borrow(), [1, 3, 7, 8]);
        assert_eq!(failed(&tally), 4);
    }
}
