// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A service at a socket. One task accepts connections, and each connection has its own task that reads and writes, so a slow
//! caller delays neither the program nor other callers.

use std::fs;
use std::future::{pending, Future};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout, Instant};

use diolkos_service::failure::Failure;
use diolkos_service::supervise::{Task, Watch};

use super::access::{Caller, Readers};
use super::buffer::Buffer;
use super::places::Places;
use super::wire::{message, Call, Refusal, Reply, SERVICE};
use super::PATIENCE;

/// How long a connection may stay open without a call.
const IDLE: Duration = Duration::from_secs(60);
/// Time limit for the caller to read a reply.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before the next attempt to accept, for example when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);
/// The interface that every service has besides its own, as the protocol defines it.
const SERVICE_DESCRIPTION: &str = include_str!("org.varlink.service.varlink");

/// An interface: its name, and its description in the protocol's own language.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// The name, in reverse domain notation.
    pub name: &'static str,
    /// The whole description.
    pub description: &'static str,
}

/// A service that answers calls.
pub trait Service: Clone + Send + Sync + 'static {
    /// Its only interface besides `org.varlink.service`. The interface must have an error `Busy (reason: string)`.
    const INTERFACE: Interface;

    /// Answers the call of a method of this interface by replies, or by one error. An I/O error closes the connection.
    fn call(
        &self,
        caller: Caller,
        call: Call,
        replies: Replies<'_>,
    ) -> impl Future<Output = io::Result<()>> + Send;
}

/// A service that accepts connections. Dropping it ends that.
#[derive(Debug)]
pub struct Serving {
    accepting: Option<Task>,
    ending: watch::Sender<bool>,
    places: Places,
}

/// Binds the socket. A file in its place is a leftover, since the caller holds the lock. Only readers and trusted users can
/// connect.
pub fn bind(path: &Path, readers: Readers) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = StdListener::bind(path)?;
    readers.admit(path)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Serves every caller that connects. `supervised`: a panic in one of its tasks ends the program.
pub fn serve(
    listener: UnixListener,
    readers: Readers,
    service: impl Service,
    supervised: &Watch,
) -> Serving {
    let places = Places::new();
    let (ending, ends) = watch::channel(false);
    Serving {
        accepting: Some(supervised.task(
            "control",
            accept(
                listener,
                readers,
                service,
                places.clone(),
                ends,
                supervised.clone(),
            ),
        )),
        ending,
        places,
    }
}

impl Serving {
    /// Stops accepting, and waits a bounded time until callers have read the replies that are under way.
    pub async fn finish(&mut self) {
        self.accepting = None;
        self.ending.send_replace(true);
        let _ = timeout(PATIENCE, self.places.all_free()).await;
    }

    /// The number of further connections that root can have.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.places.free()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.ending.send_replace(true);
    }
}

async fn accept<S: Service>(
    listener: UnixListener,
    readers: Readers,
    service: S,
    places: Places,
    ends: watch::Receiver<bool>,
    supervised: Watch,
) -> Result<(), Failure> {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("the control socket cannot accept connections: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(caller) = readers.caller(&stream) else {
            continue;
        };
        let Some(place) = places.take(caller).await else {
            let busy = "too many connections of other users than root: try again later";
            let busy = Refusal::because(S::INTERFACE.name, "Busy", busy);
            // The task does not wait until this caller reads; a new socket has room for the message.
            let _ = message(&busy).map(|text| stream.try_write(&text));
            continue;
        };
        let connection = Connection {
            stream,
            buffer: Buffer::default(),
            ends: ends.clone(),
        };
        let service = service.clone();
        supervised.short_task("a control connection", async move {
            if let Err(error) = converse(connection, caller, service).await {
                tracing::debug!("a connection of a caller failed: {error}");
            }
            drop(place);
        });
    }
}

/// A connection, with its bytes that are not handled yet.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    buffer: Buffer,
    ends: watch::Receiver<bool>,
}

/// Handles one call after another, until the caller disconnects or sends something that is no call: the protocol has no error
/// for that.
async fn converse<S: Service>(
    mut connection: Connection,
    caller: Caller,
    service: S,
) -> io::Result<()> {
    while let Some(text) = connection.next_call().await? {
        let call: Call = serde_json::from_slice(&text)?;
        if call.oneway && call.more {
            return Err(io::Error::other("a call has both `oneway` and `more`"));
        }
        let mut replies = Replies {
            connection: &mut connection,
            is_oneway: call.oneway,
        };
        if call.upgrade {
            replies
                .refuse(&Refusal::invalid_parameter("upgrade"))
                .await?;
            continue;
        }
        match call.target() {
            (SERVICE, _) => describe::<S>(call, replies).await?,
            (interface, _) if interface == S::INTERFACE.name && !caller.may_read() => {
                replies.refuse(&Refusal::permission_denied()).await?;
            }
            (interface, _) if interface == S::INTERFACE.name => {
                service.call(caller, call, replies).await?;
            }
            (interface, _) => {
                let refusal = Refusal::interface_not_found(interface);
                replies.refuse(&refusal).await?;
            }
        }
    }
    Ok(())
}

/// The interface `org.varlink.service`.
async fn describe<S: Service>(mut call: Call, mut replies: Replies<'_>) -> io::Result<()> {
    let answer = match call.target().1 {
        "GetInfo" => call.done().map(|()| {
            json!({
                "vendor": "diolkos",
                "product": "diolkos",
                "version": env!("CARGO_PKG_VERSION"),
                "url": "",
                "interfaces": [SERVICE, S::INTERFACE.name],
            })
        }),
        "GetInterfaceDescription" => call
            .take::<String>("interface")
            .and_then(|name| call.done().map(|()| name))
            .and_then(|name| match name.as_str() {
                SERVICE => Ok(SERVICE_DESCRIPTION),
                name if name == S::INTERFACE.name => Ok(S::INTERFACE.description),
                name => Err(Refusal::interface_not_found(name)),
            })
            .map(|description| json!({ "description": description })),
        _ => Err(Refusal::method_not_found(&call.method)),
    };
    match answer {
        Ok(answer) => replies.send(&answer, false).await,
        Err(refusal) => replies.refuse(&refusal).await,
    }
}

impl Connection {
    /// The text of the next call. `None`: the caller has disconnected, the connection was idle for too long, or the service
    /// ends.
    async fn next_call(&mut self) -> io::Result<Option<Vec<u8>>> {
        let begin = Instant::now();
        // The deadline by which a call that has begun must be complete.
        let mut whole = None;
        loop {
            if let Some(call) = self.buffer.next() {
                return Ok(Some(call));
            }
            if self.buffer.is_full() {
                return Err(io::Error::other("a call is too long"));
            }
            if self.buffer.has_ended() {
                return Ok(None);
            }
            let until = match self.buffer.has_some() {
                true => *whole.get_or_insert(Instant::now() + PATIENCE),
                false => begin + IDLE,
            };
            tokio::select! {
                filled = self.buffer.fill(&mut self.stream) => filled?,
                _ = self.ends.wait_for(|ends| *ends) => return Ok(None),
                () = tokio::time::sleep_until(until) => return Ok(None),
            }
        }
    }
}

/// The replies to a call.
#[derive(Debug)]
pub struct Replies<'a> {
    connection: &'a mut Connection,
    is_oneway: bool,
}

impl Replies<'_> {
    /// Sends a reply, a JSON object. `continues`: another reply follows, which the caller must have requested with `more`.
    pub async fn send(&mut self, parameters: &impl Serialize, continues: bool) -> io::Result<()> {
        self.write(&Reply {
            parameters,
            continues,
        })
        .await
    }

    /// Sends an error, which is the last reply.
    pub async fn refuse(&mut self, refusal: &Refusal) -> io::Result<()> {
        self.write(refusal).await
    }

    async fn write(&mut self, reply: &impl Serialize) -> io::Result<()> {
        if self.is_oneway {
            return Ok(());
        }
        let text = message(reply)?;
        timeout(WRITE_PATIENCE, self.connection.stream.write_all(&text)).await?
    }

    /// Waits until the caller has disconnected. A caller that wants no reply may disconnect at once, so this waits without end.
    pub async fn gone(&mut self) {
        if self.is_oneway {
            return pending().await;
        }
        let Connection { stream, buffer, .. } = &mut *self.connection;
        buffer.gone(stream).await;
    }

    /// Waits until the caller has disconnected or the service ends.
    pub async fn over(&mut self) {
        let Connection {
            stream,
            buffer,
            ends,
        } = &mut *self.connection;
        tokio::select! {
            () = buffer.gone(stream) => {}
            _ = ends.wait_for(|ends| *ends) => {}
        }
    }

    /// The caller's end of the connection, to check later whether the caller is still there; `None` if it wants no reply.
    pub fn asker(&self) -> io::Result<Option<OwnedFd>> {
        match self.is_oneway {
            true => Ok(None),
            false => self
                .connection
                .stream
                .as_fd()
                .try_clone_to_owned()
                .map(Some),
        }
    }
}
