// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A service at a socket. A task of its own accepts, another one for each connection reads and writes: a slow caller holds
//! up neither the program nor other callers.

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

/// How long a connection may be open without a call.
const IDLE: Duration = Duration::from_secs(60);
/// How long the caller may take to read a reply.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Before the next try to accept, where there are no descriptors left, say.
const PAUSE: Duration = Duration::from_millis(100);
/// What every service has besides its own interface, as the protocol says it.
const SERVICE_DESCRIPTION: &str = include_str!("org.varlink.service.varlink");

/// An interface by its name and its description in the protocol's own language.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// In the order of a domain from its end.
    pub name: &'static str,
    /// The whole text.
    pub description: &'static str,
}

/// What answers calls.
pub trait Service: Clone + Send + Sync + 'static {
    /// Its only interface besides `org.varlink.service`. It has an error `Busy (reason: string)`.
    const INTERFACE: Interface;

    /// Answers the call of a method of this interface by replies, or by one error. An I/O error closes the connection.
    fn call(
        &self,
        caller: Caller,
        call: Call,
        replies: Replies<'_>,
    ) -> impl Future<Output = io::Result<()>> + Send;
}

/// A service that accepts. Dropped, it does not.
#[derive(Debug)]
pub struct Serving {
    accepting: Option<Task>,
    ending: watch::Sender<bool>,
    places: Places,
}

/// Whatever is in the place of the socket is a leftover: the caller holds the lock. Others than readers cannot connect.
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

/// Serves whoever connects. `supervised`: a panic in a task of it ends the program.
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
                (listener, readers),
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
    /// Accepts nobody any more, and waits for a while until replies have been read that are under way.
    pub async fn finish(&mut self) {
        self.accepting = None;
        self.ending.send_replace(true);
        let _ = timeout(PATIENCE, self.places.all_free()).await;
    }

    /// How many more connections of root there can be.
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
    (listener, readers): (UnixListener, Readers),
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
            // Nobody waits for this caller to read it; a new socket has room for it.
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

/// A connection, and what is not handled yet.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    buffer: Buffer,
    ends: watch::Receiver<bool>,
}

/// One call after the other, until the caller goes or says what is no call: the protocol has no error for that.
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
    /// The text of the next call; `None` once the caller has gone, is silent for long, or the service ends.
    async fn next_call(&mut self) -> io::Result<Option<Vec<u8>>> {
        let begin = Instant::now();
        // A call that has begun has to be whole soon.
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

/// Where a call is answered.
#[derive(Debug)]
pub struct Replies<'a> {
    connection: &'a mut Connection,
    is_oneway: bool,
}

impl Replies<'_> {
    /// Sends a reply, an object. `continues`: another one follows, which the caller must have asked for by `more`.
    pub async fn send(&mut self, parameters: &impl Serialize, continues: bool) -> io::Result<()> {
        self.write(&Reply {
            parameters,
            continues,
        })
        .await
    }

    /// Sends an error, and it is the last reply.
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

    /// Waits until the caller has gone. Who wants no answer may go at once, and is not waited for.
    pub async fn gone(&mut self) {
        if self.is_oneway {
            return pending().await;
        }
        let Connection { stream, buffer, .. } = &mut *self.connection;
        buffer.gone(stream).await;
    }

    /// Waits until the caller has gone or the service ends.
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

    /// The caller's end, to ask later whether he is still there; `None` if he wants no answer.
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
