// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets on which the DNS64 listens, and the retries for addresses that cannot be bound.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};

use crate::error::ResolverError;
use diolkos_config::port_owner::{self, Transport};

use super::datagrams::Datagrams;
use super::tally::{Fate, QueryCounters};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 256;
/// Receive buffer for datagrams, bytes; with the kernel's default, some of a burst would be dropped.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The first pause before a retry to bind an address; each further pause is twice as long, …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// For how long an address may be missing when a DNS64 starts. The kernel lets nobody bind an IPv6 address before Duplicate
/// Address Detection has ended, which takes up to two seconds (RFC 4862 section 5.4).
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// Binds an address by `bind`, which may be there only in a moment.
pub async fn patiently<S>(bind: impl Fn() -> Result<S, ResolverError>) -> Result<S, ResolverError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match bind() {
            Err(ResolverError::NoAddress { .. }) if Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            bound => return bound,
        }
    }
}

/// Binds an address for datagrams.
pub fn datagrams(address: SocketAddr) -> Result<Datagrams, ResolverError> {
    let socket =
        udp(address).and_then(|socket| Datagrams::new(UdpSocket::from_std(socket.into())?));
    socket.map_err(|error| refusal(address, "UDP", error))
}

/// Binds an address for connections.
pub fn connections(address: SocketAddr) -> Result<TcpListener, ResolverError> {
    let socket = tcp(address).and_then(|socket| TcpListener::from_std(socket.into()));
    socket.map_err(|error| refusal(address, "TCP", error))
}

/// Serves without end. A socket that fails is bound again, which is logged once.
pub async fn keep<S>(
    what: String,
    socket: S,
    bind: impl Fn() -> Result<S, ResolverError>,
    serve: impl AsyncFn(S) -> io::Error,
    tally: &QueryCounters,
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
    // The kernel grants as much as its limit allows.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket)
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = socket(address, Type::STREAM, Protocol::TCP)?;
    // Connections of an earlier run may not be fully closed yet.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// The socket has one family only, so that `[::]:53` and `0.0.0.0:53` can be bound side by side.
fn socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Describes the program that uses the port.
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

fn refusal(address: SocketAddr, protocol: &'static str, source: io::Error) -> ResolverError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ResolverError::PrivilegedPort { address, source },
        io::ErrorKind::AddrInUse => ResolverError::PortTaken {
            address,
            owner: taken(address, protocol),
            source,
        },
        io::ErrorKind::AddrNotAvailable => ResolverError::NoAddress { address, source },
        _ => ResolverError::Listen {
            address,
            protocol,
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    fn failed(tally: &QueryCounters) -> u64 {
        let counters = tally.counters();
        let of = counters.iter().find(|c| c.name == "dns64.listen_failed");
        of.expect("a counter").packets
    }

    /// The socket fails, cannot be bound twice, fails again, and then works.
    #[tokio::test(start_paused = true)]
    async fn a_socket_is_bound_until_it_holds() {
        let tally = Rc::new(QueryCounters::default());
        let begin = tokio::time::Instant::now();
        let at = Rc::new(RefCell::new(Vec::new()));
        let (tries, times) = (Cell::new(0), at.clone());
        let bind = move || {
            tries.set(tries.get() + 1);
            times.borrow_mut().push(begin.elapsed().as_secs());
            match tries.get() {
                1 | 2 => Err(ResolverError::NameTaken("x".to_owned())),
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
