// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets at which figures are served, and the limits on concurrent clients.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Permissions};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diolkos_dns64::{Shares, Ticket};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::sleep;

use super::http;
use super::latest::Latest;
use diolkos_config::port_owner::{self, Transport};
use diolkos_config::MetricsAddress;
use diolkos_service::failure::Failure;

/// Concurrent clients at one address.
pub const READERS: u32 = 32;
/// The most of these connections that one client can have; a client is an IPv4 address or an IPv6 /64.
const OF_CLIENT: u32 = 4;
/// Time between attempts to bind an address that another program uses.
const RETRY: Duration = Duration::from_secs(5);
/// Connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;
/// Pause after a connection could not be accepted, for example because no descriptor is free.
const PAUSE: Duration = Duration::from_millis(100);

/// The addresses that cannot be bound at the moment, with the reasons.
#[derive(Clone, Default)]
pub struct Unserved(Arc<Mutex<BTreeMap<String, String>>>);

impl Unserved {
    /// A sentence for each address.
    pub fn reasons(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.iter();
        all.map(|(place, why)| format!("metrics cannot be served at {place} ({why}); retrying"))
            .collect()
    }

    fn set(&self, place: &MetricsAddress, why: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => all.insert(place.to_string(), why),
            None => all.remove(&place.to_string()),
        };
    }
}

/// Binding of this address is being attempted. Dropping it withdraws the report that it cannot be bound.
struct Trying<'a>(&'a Unserved, &'a MetricsAddress);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.0.set(self.1, None);
    }
}

/// Serves one address without end. Dropping the future closes its connections.
pub async fn serve(
    place: MetricsAddress,
    latest: Arc<Latest>,
    unserved: Unserved,
) -> Result<(), Failure> {
    let listener = listen(&place, &unserved).await;
    tracing::info!("metrics are served at {place}");
    let mut readers = Readers::default();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                let latest = latest.clone();
                readers.admit(client, || http::serve(stream, latest));
            }
            Err(error) => {
                tracing::debug!("cannot accept a client of the metrics: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Binds the address, with retries until that succeeds, because translation does not depend on it.
async fn listen(place: &MetricsAddress, unserved: &Unserved) -> Listener {
    let mut is_said = false;
    let _trying = Trying(unserved, place);
    loop {
        match Listener::at(place).await {
            Ok(listener) => return listener,
            Err(error) => {
                unserved.set(place, Some(error.to_string()));
                if !std::mem::replace(&mut is_said, true) {
                    tracing::warn!("metrics cannot be served at {place} ({error}): trying again");
                }
                sleep(RETRY).await;
            }
        }
    }
}

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        _entry: Entry,
    },
}

/// The path of a Unix socket, which is removed when this is dropped.
struct Entry(PathBuf);

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    async fn at(place: &MetricsAddress) -> io::Result<Listener> {
        match place {
            MetricsAddress::Tcp(address) => Ok(Listener::Tcp(
                bind(*address).map_err(|error| taken(*address, error))?,
            )),
            MetricsAddress::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                let entry = Entry(path.clone());
                // Access to the socket depends on the permissions of its folder and on its group.
                fs::set_permissions(path, Permissions::from_mode(0o660))?;
                Ok(Listener::Unix {
                    listener,
                    _entry: entry,
                })
            }
        }
    }

    /// The next connection and its client address; `None` for a Unix socket, whose client is on this host.
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                (Box::new(stream), Some(client.ip()))
            }
            Listener::Unix { listener, .. } => (Box::new(listener.accept().await?.0), None),
        })
    }
}

/// As [`TcpListener::bind`], with a longer queue for connections that have not been accepted yet.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Adds the name of the program that uses the port, if that is the reason of the error.
fn taken(address: SocketAddr, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::AddrInUse {
        return error;
    }
    match port_owner::of(address, Transport::Tcp) {
        Some(owner) => in_use(&format!("{owner} has that port")),
        None => error,
    }
}

fn in_use(by: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, by)
}

/// Removes the socket of a killed process, at which no process listens, and nothing else.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = match fs::symlink_metadata(path) {
        Ok(there) => there.file_type().is_socket(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_socket {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file with that name exists and is not a socket: remove it",
        ));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(stream) => {
            let owner = stream.peer_cred().ok().and_then(|its| its.pid());
            let owner = owner.and_then(port_owner::named);
            let error = io::Error::from(io::ErrorKind::AddrInUse);
            Err(owner.map_or(error, |owner| in_use(&format!("{owner} listens there"))))
        }
    }
}

/// The clients that are being served. When the limit is reached, the client with more than its share loses its oldest
/// connection; if no client has more than the others, the oldest connection of all is closed.
struct Readers {
    tasks: JoinSet<()>,
    tickets: HashMap<Id, Ticket>,
    shares: Shares<AbortHandle>,
}

impl Default for Readers {
    fn default() -> Readers {
        Readers {
            tasks: JoinSet::new(),
            tickets: HashMap::new(),
            shares: Shares::new(READERS, OF_CLIENT),
        }
    }
}

impl Readers {
    /// Admits a connection. A client that keeps connections open, or opens many, cannot lock out others.
    fn admit<F>(&mut self, client: Option<IpAddr>, serve: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
            if let Some(ticket) = self.tickets.remove(&id) {
                self.shares.give(ticket);
            }
        }
        let client = client.unwrap_or(IpAddr::V6(Ipv6Addr::LOCALHOST));
        let task = self.tasks.spawn(serve());
        let id = task.id();
        let (ticket, evicted) = self.shares.take(client, task);
        self.tickets.insert(id, ticket);
        if let Some(evicted) = evicted {
            evicted.held.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(readers: &mut Readers) -> Id {
        let ended = readers.tasks.join_next_with_id().await;
        let error = ended.expect("there are some").expect_err("it was ended");
        assert!(error.is_cancelled());
        error.id()
    }

    #[tokio::test]
    async fn who_has_too_many_pays_with_the_oldest_of_its_own() {
        let mut readers = Readers::default();
        let client = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        readers.admit(client("198.51.100.1"), std::future::pending);
        let patient = *readers.tickets.keys().next().expect("there is one");
        for host in 0..100 {
            // All addresses are in one /64.
            let hog = format!("2001:db8::{host:x}");
            readers.admit(client(&hog), std::future::pending);
        }
        for _ in 0..100 - OF_CLIENT {
            assert_ne!(ended(&mut readers).await, patient);
        }
        assert_eq!(readers.tasks.len() as u32, 1 + OF_CLIENT);
        for _ in 0..3 {
            readers.admit(None, std::future::pending);
        }
        assert_eq!(readers.tasks.len() as u32, 1 + OF_CLIENT + 3);
    }

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let path = std::env::temp_dir().join(format!("diolkos-metrics-{}", std::process::id()));
        let place = MetricsAddress::Unix(path.clone());
        fs::write(&path, "mine").expect("a file");
        assert!(Listener::at(&place).await.is_err(), "it is somebody's file");
        fs::remove_file(&path).expect("it is still there");
        let first = Listener::at(&place).await.expect("nothing is there");
        let taken = Listener::at(&place).await.err().expect("somebody listens");
        let own = format!("(process {}) listens there", std::process::id());
        assert!(taken.to_string().ends_with(&own), "{taken}");
        drop(first);
        assert!(!path.exists(), "its name goes with it");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("it is free"));
        let again = Listener::at(&place).await.expect("nobody listens");
        drop(again);
    }
}
