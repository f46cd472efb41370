// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets at which figures are served, and how many may read at once.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::http;
use super::latest::Latest;
use crate::config::Place;
use crate::failure::Failure;

/// Readers of one place at a time. Whoever comes then takes the place of the oldest.
const READERS: usize = 16;
/// Between two tries to have a place that somebody else has.
const RETRY: Duration = Duration::from_secs(5);
/// After a connection could not be accepted: no descriptor is free, say.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves one place for ever. Dropped, its connections end.
pub async fn serve(place: Place, latest: Arc<Latest>) -> Result<(), Failure> {
    let listener = listen(&place).await;
    tracing::info!("metrics are served at {place}");
    let mut readers = Readers::default();
    loop {
        match listener.accept().await {
            Ok(stream) => readers.admit(http::serve(stream, latest.clone())),
            Err(error) => {
                tracing::debug!("cannot accept a client of the metrics: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Translation does not depend on it, so it is tried until it works.
async fn listen(place: &Place) -> Listener {
    let mut is_said = false;
    loop {
        match Listener::at(place).await {
            Ok(listener) => return listener,
            Err(error) => {
                if !std::mem::replace(&mut is_said, true) {
                    tracing::warn!("metrics cannot be served at {place} ({error}): trying again");
                }
                sleep(RETRY).await;
            }
        }
    }
}

/// Either kind of stream.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        _entry: Entry,
    },
}

/// A socket's name, which goes with it.
struct Entry(PathBuf);

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    async fn at(place: &Place) -> io::Result<Listener> {
        match place {
            Place::Tcp(address) => Ok(Listener::Tcp(TcpListener::bind(address).await?)),
            Place::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                let entry = Entry(path.clone());
                // Its folder says who may come near, and its group who may read.
                fs::set_permissions(path, Permissions::from_mode(0o660))?;
                Ok(Listener::Unix {
                    listener,
                    _entry: entry,
                })
            }
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Listener::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
            Listener::Unix { listener, .. } => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// Removes the socket of a killed process, at which nobody listens, and nothing else.
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
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// Those who are being served, the oldest first.
#[derive(Default)]
struct Readers {
    tasks: JoinSet<()>,
    oldest: VecDeque<AbortHandle>,
}

impl Readers {
    /// Somebody who keeps connections open, or opens many, does not lock others out.
    fn admit(&mut self, serve: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.oldest.retain(|reader| !reader.is_finished());
        if self.oldest.len() >= READERS {
            if let Some(oldest) = self.oldest.pop_front() {
                oldest.abort();
            }
        }
        self.oldest.push_back(self.tasks.spawn(serve));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_newcomer_takes_the_place_of_the_oldest() {
        let mut readers = Readers::default();
        for _ in 0..READERS + 3 {
            readers.admit(std::future::pending());
        }
        for _ in 0..3 {
            let ended = readers.tasks.join_next().await.expect("there are some");
            assert!(ended.expect_err("it was ended").is_cancelled());
        }
        assert_eq!(
            (readers.tasks.len(), readers.oldest.len()),
            (READERS, READERS)
        );
    }

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let path = std::env::temp_dir().join(format!("diolkos-metrics-{}", std::process::id()));
        let place = Place::Unix(path.clone());
        fs::write(&path, "mine").expect("a file");
        assert!(Listener::at(&place).await.is_err(), "it is somebody's file");
        fs::remove_file(&path).expect("it is still there");
        let first = Listener::at(&place).await.expect("nothing is there");
        assert!(Listener::at(&place).await.is_err(), "somebody listens");
        drop(first);
        assert!(!path.exists(), "its name goes with it");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("it is free"));
        let again = Listener::at(&place).await.expect("nobody listens");
        drop(again);
    }
}
