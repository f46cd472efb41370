// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that ask by TCP (RFC 7766): several questions on a connection, answered as soon as each can be.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use diolkos_dns64::limit::network;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::desk::{Desk, Scratch, Transport, Waiter};
use super::tally::Fate;

/// No query is longer, bytes; whoever sends one is none of a resolver's clients.
const LONGEST_QUERY: usize = 4096;
/// Answers that wait until the client has read those before them.
const PIPELINE: usize = 32;

/// How many connections there may be, in all and of one client.
pub struct Places {
    free: Cell<u32>,
    of_one: u32,
    taken: RefCell<HashMap<u64, u32>>,
    idle: Duration,
}

/// Of all connections, one client may have a part of this many.
const SHARE: u32 = 4;

impl Places {
    /// So many in all, each closed after so many seconds without a question.
    pub fn new(places: u32, idle_s: u32) -> Places {
        Places {
            free: Cell::new(places),
            of_one: (places / SHARE).max(1),
            taken: RefCell::default(),
            idle: Duration::from_secs(u64::from(idle_s)),
        }
    }
}

/// A place; dropped, it is free again.
struct Place {
    places: Rc<Places>,
    client: u64,
}

impl Place {
    fn take(places: &Rc<Places>, client: IpAddr) -> Option<Place> {
        let client = network(client);
        let mut taken = places.taken.borrow_mut();
        let of_client = taken.get(&client).copied().unwrap_or(0);
        if places.free.get() == 0 || of_client >= places.of_one {
            return None;
        }
        places.free.set(places.free.get() - 1);
        taken.insert(client, of_client + 1);
        let places = places.clone();
        Some(Place { places, client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.free.set(self.places.free.get() + 1);
        let mut taken = self.places.taken.borrow_mut();
        match taken.get_mut(&self.client) {
            Some(of_client) if *of_client > 1 => *of_client -= 1,
            _ => drop(taken.remove(&self.client)),
        }
    }
}

/// Accepts until the task ends.
pub async fn serve(listener: TcpListener, desk: Rc<Desk>, places: Rc<Places>) {
    loop {
        match listener.accept().await {
            Ok((stream, client)) => match Place::take(&places, client.ip()) {
                Some(place) => {
                    let desk = desk.clone();
                    tokio::task::spawn_local(async move {
                        let done = converse(stream, client.ip(), &desk, place.places.idle).await;
                        if let Err(error) = done {
                            tracing::debug!("a connection of {client} ended: {error}");
                        }
                        drop(place);
                    });
                }
                None => desk.tally.count(Fate::TcpRefused),
            },
            // Out of file descriptors, most likely; a connection that ends frees one.
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Reads questions and has the answers written until the client closes, or is silent for too long.
async fn converse(
    stream: TcpStream,
    client: IpAddr,
    desk: &Rc<Desk>,
    idle: Duration,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut read, mut write) = stream.into_split();
    let (answers, mut ready) = mpsc::channel::<Vec<u8>>(PIPELINE);
    let writer = tokio::task::spawn_local(async move {
        while let Some(message) = ready.recv().await {
            // A client that reads nothing is gone.
            let written = timeout(idle, write.write_all(&message)).await;
            if !matches!(written, Ok(Ok(()))) {
                break;
            }
        }
    });
    let mut scratch = Scratch::default();
    let done = loop {
        let query = match timeout(idle, read_message(&mut read)).await {
            Ok(Ok(Some(query))) => query,
            Ok(Ok(None)) | Err(_) => break Ok(()),
            Ok(Err(error)) => break Err(error),
        };
        let waiter = || Waiter::Connection(answers.clone());
        if desk.take(&query, client, Transport::Tcp, &mut scratch, waiter) {
            // A full pipeline stops the reading too.
            let sent = timeout(idle, answers.send(framed(&scratch.answer))).await;
            if !matches!(sent, Ok(Ok(()))) {
                break Ok(());
            }
        }
    };
    // Questions on their way still hold a sender; their answers are written before the connection closes.
    drop(answers);
    let _ = writer.await;
    done
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

/// The message with its length in front (RFC 1035 section 4.2.2); none is longer than 65535 bytes.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 2);
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
    out
}
