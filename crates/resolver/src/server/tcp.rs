// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that ask by TCP (RFC 7766): several questions on a connection, each answered as soon as possible.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diolkos_dns64::Shares;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, Notify, Semaphore};
use tokio::time::timeout;

use diolkos_service::supervise::Watch;

use super::queries::{QueryHandler, Scratch};
use super::tally::Fate;
use super::unread::{ClientConnection, Memory};
use super::waiter::{Reply, Waiter};

/// The longest query, bytes. A client that sends a longer one is disconnected.
const LONGEST_QUERY: usize = 4096;
/// Questions of one connection that are under way: asked, and the answer not yet read by the client. The next question is read
/// when one of them is over, so a connection waits only for itself.
const PIPELINE: usize = 32;
/// One client may have at most the total number of connections divided by this.
const SHARE: u32 = 4;
/// After an error that may pass, no connection is accepted for this time.
const REST: Duration = Duration::from_millis(100);
/// A listener that fails this often in a row does not recover.
const MOST_ERRORS: u32 = 600;

/// The connections, bounded in all and for each client. Each can be told to close.
pub struct Connections {
    shares: RefCell<Shares<Rc<Notify>>>,
    unread: Rc<Memory>,
    idle: Duration,
}

impl Connections {
    /// `most` connections in all, each closed after `idle_s` seconds without a question.
    pub fn new(most: u32, idle_s: u32) -> Connections {
        Connections {
            shares: RefCell::new(Shares::new(most, most / SHARE)),
            unread: Rc::default(),
            idle: Duration::from_secs(u64::from(idle_s)),
        }
    }
}

/// Accepts connections until the listener is unusable.
pub async fn serve(
    listener: TcpListener,
    handler: Rc<QueryHandler>,
    connections: Rc<Connections>,
    watch: Watch,
) -> io::Error {
    let mut errors = 0;
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                errors = 0;
                let work = connect(stream, client.ip(), handler.clone(), connections.clone());
                watch.local("a connection", work);
            }
            Err(error) if errors == MOST_ERRORS => return error,
            // Most likely no file descriptor is free; a connection that ends frees one.
            Err(error) => {
                if errors == 0 {
                    tracing::warn!("a connection could not be accepted: {error}");
                }
                errors += 1;
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// Serves a connection until it ends, or must make room for another one.
async fn connect(
    stream: TcpStream,
    client: IpAddr,
    handler: Rc<QueryHandler>,
    connections: Rc<Connections>,
) {
    let close = Rc::new(Notify::new());
    let taken = connections.shares.borrow_mut().take(client, close.clone());
    let (ticket, evicted) = taken;
    if let Some(evicted) = evicted {
        evicted.held.notify_one();
    }
    let reader = connections.unread.reader(client, close.clone());
    tokio::select! {
        done = converse(stream, client, reader, &handler, connections.idle) => {
            if let Err(error) = done {
                tracing::debug!("a connection of {client} ended: {error}");
            }
        }
        () = close.notified() => {
            handler.tally.count(Fate::TcpEvicted);
            tracing::debug!("a connection of {client} was closed to make room for others");
        }
    }
    connections.shares.borrow_mut().give(ticket);
}

/// Reads questions and writes the answers until the client closes, or is silent for too long.
async fn converse(
    stream: TcpStream,
    client: IpAddr,
    reader: ClientConnection,
    handler: &Rc<QueryHandler>,
    idle: Duration,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let (answers, ready) = mpsc::channel(PIPELINE);
    // Questions under way still hold a sender; their answers are written before the connection closes.
    let (done, ()) = tokio::join!(
        take_questions(read, answers, client, reader, handler, idle),
        write_answers(write, ready, idle)
    );
    done
}

async fn take_questions(
    mut read: OwnedReadHalf,
    answers: mpsc::Sender<Reply>,
    client: IpAddr,
    reader: ClientConnection,
    handler: &Rc<QueryHandler>,
    idle: Duration,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(PIPELINE));
    let mut scratch = Scratch::default();
    loop {
        if places.available_permits() == 0 {
            handler.tally.count(Fate::TcpPaused);
        }
        // Every question under way ends in time, so this wait does too.
        let Ok(place) = places.clone().acquire_owned().await else {
            return Ok(());
        };
        let query = match timeout(idle, read_message(&mut read)).await {
            Ok(Ok(Some(query))) => query,
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(error),
        };
        handler.wait_for_rate(client).await;
        if answers.is_closed() {
            return Ok(());
        }
        let waiter = Waiter::Connection(answers.clone(), place, reader.clone());
        handler.take(&query, client, waiter, &mut scratch);
    }
}

async fn write_answers(
    mut write: OwnedWriteHalf,
    mut ready: mpsc::Receiver<Reply>,
    idle: Duration,
) {
    while let Some(reply) = ready.recv().await {
        // A client that reads nothing counts as gone.
        let written = timeout(idle, write.write_all(&reply.bytes)).await;
        if !matches!(written, Ok(Ok(()))) {
            break;
        }
        drop((reply.place, reply.unread));
    }
}

async fn read_message(read: &mut OwnedReadHalf) -> io::Result<Option<Vec<u8>>> {
    let length = match read.read_u16().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => usize::from(other?),
    };
    if length > LONGEST_QUERY {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a query of {length} bytes"),
        ));
    }
    let mut query = vec![0; length];
    read.read_exact(&mut query).await?;
    Ok(Some(query))
}
