// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection by TLS to a resolver, and the questions on it.
//!
//! run: connect → (write questions ‖ read answers ‖ watch for idleness) → end: all questions learn that there is no answer

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use diolkos_dns64::exchange::{answers, id};
use diolkos_dns64::wire::HEADER;
use diolkos_dns64::{Ask, Message};
use tokio::io::{split, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, Notify, Semaphore};
use tokio::time::{sleep, timeout, Instant};

use crate::server::tally::{Fate, QueryCounters};

use super::ids::Ids;
use super::tls_server::{shown, Server};

/// The most questions in flight on a connection; further ones wait, within their time limit.
pub const MOST_PLACES: usize = 8192;
/// A connection ends when so many of its questions were given up: its server answers others only.
const MOST_GIVEN_UP: usize = 4096;
/// A connection ends after this many messages that answer no question.
const MOST_WRONG: u32 = 8;
/// Time limit for TCP and TLS together. It may be longer than that of a question: the next one finds the connection.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection without a question for this time is closed (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(20);
/// Interval of the checks whether it is idle.
const LOOK: Duration = Duration::from_secs(5);
/// Time limit for the last message to a server, that the connection ends.
const FAREWELL: Duration = Duration::from_millis(100);
/// Questions are written together up to this length, bytes.
const TOGETHER: usize = 16 << 10;

/// A connection and its questions.
pub struct Connection {
    queue: mpsc::Sender<Queued>,
    /// For as many questions as clients may have in all, each within its share ([`crate::server`]): so no client takes the places of
    /// the others.
    places: Semaphore,
    most_asked: usize,
    asked: RefCell<HashMap<u16, Asked>>,
    opened: Instant,
    /// The last question.
    used: Cell<Instant>,
    /// Since when the server has said nothing although it is asked; `None` before the end of the handshake.
    silent_since: Cell<Option<Instant>>,
    has_answered: Cell<bool>,
    /// Why it has ended, if it has.
    ended: RefCell<Option<String>>,
    /// It has ended because of a question without an answer, whose name may be to blame.
    was_silent: Cell<bool>,
    ends: Notify,
}

/// A question on the connection. One that was given up stays, so that its late answer does not count as wrong.
struct Asked {
    ask: Ask,
    /// Closed if the question was given up.
    reply: oneshot::Sender<Vec<u8>>,
}

/// The identification and the bytes of a question that was not written yet.
type Queued = (u16, Vec<u8>);

impl Connection {
    /// A connection for so many questions, [`MOST_PLACES`] at most, that [`Connection::run`] opens. They wait until then.
    pub fn new(places: usize) -> (Connection, mpsc::Receiver<Queued>) {
        let places = places.clamp(1, MOST_PLACES);
        let (queue, questions) = mpsc::channel(places);
        let now = Instant::now();
        let connection = Connection {
            queue,
            places: Semaphore::new(places),
            most_asked: MOST_GIVEN_UP + places,
            asked: RefCell::default(),
            opened: now,
            used: Cell::new(now),
            silent_since: Cell::default(),
            has_answered: Cell::default(),
            ended: RefCell::default(),
            was_silent: Cell::default(),
            ends: Notify::new(),
        };
        (connection, questions)
    }

    /// A connection that is over, where there was none yet.
    pub fn ended() -> Connection {
        let (connection, _) = Connection::new(1);
        connection.end("never opened");
        connection
    }

    /// Returns true if it can be asked.
    pub fn takes_questions(&self, age: Duration) -> bool {
        self.ended.borrow().is_none() && self.opened.elapsed() < age
    }

    /// Returns true if the server has answered a question.
    pub fn has_answered(&self) -> bool {
        self.has_answered.get()
    }

    /// Why it has ended.
    pub fn why(&self) -> String {
        self.ended.borrow().clone().unwrap_or_default()
    }

    /// Asks and waits for the answer; `None` if the connection ends. `write` makes the bytes for an identification. The caller sets
    /// the time limit.
    pub async fn ask(
        &self,
        ask: &Ask,
        ids: &Ids,
        write: impl FnOnce(u16) -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        let _place = self.places.acquire().await.ok()?;
        let (sender, reply) = oneshot::channel();
        let id = self.register(ask, ids, sender)?;
        // Those that were given up may still be in the queue, until there is a connection.
        self.queue.send((id, write(id))).await.ok()?;
        reply.await.ok()
    }

    /// Registers a question under an identification that is drawn.
    fn register(&self, ask: &Ask, ids: &Ids, reply: oneshot::Sender<Vec<u8>>) -> Option<u16> {
        let now = Instant::now();
        let mut asked = self.asked.borrow_mut();
        if asked.len() >= self.most_asked {
            drop(asked);
            self.end("leaves too many questions without an answer");
            return None;
        }
        // The server owes nothing yet, so its silence begins now.
        if self.silent_since.get().is_some() && !any_waits(&asked) {
            self.silent_since.set(Some(now));
        }
        self.used.set(now);
        // At most a fifth of all identifications are taken.
        let mut id = ids.next();
        while asked.contains_key(&id) {
            id = ids.next();
        }
        let ask = ask.clone();
        asked.insert(id, Asked { ask, reply });
        Some(id)
    }

    /// Ends it if the server has said nothing for this time, although it was asked: it may have lost the connection, which nothing
    /// else would tell for minutes.
    pub fn end_if_silent(&self, patience: Duration) {
        let since = self.silent_since.get();
        if since.is_some_and(|since| since.elapsed() >= patience) {
            self.was_silent.set(true);
            self.end("does not answer");
        }
    }

    /// Ends it. Its questions learn that there is no answer.
    pub fn end(&self, why: &str) {
        self.ended
            .borrow_mut()
            .get_or_insert_with(|| why.to_owned());
        self.places.close();
        self.asked.borrow_mut().clear();
        self.ends.notify_one();
    }

    /// Opens it, and serves its questions until it ends.
    pub async fn run(self: Rc<Self>, server: Rc<Server>, questions: mpsc::Receiver<Queued>) {
        let connected = tokio::select! {
            connected = timeout(CONNECT, server.connect()) => connected.map_err(|_| {
                format!("no connection by TLS within {} s", CONNECT.as_secs())
            }),
            () = self.ends.notified() => Err(self.why()),
        };
        let why = match connected {
            Ok(Ok(stream)) => self.serve(stream, questions, &server.tally).await,
            Ok(Err(error)) => shown(&error),
            Err(why) => why,
        };
        // One slow name must not keep all others from asking. Such ends are rare: each takes a while.
        if !self.has_answered() && !self.was_silent.get() {
            server.pause(&why);
        }
        self.end(&why);
    }

    /// Serves questions on an open connection. Returns why it ends.
    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite,
        questions: mpsc::Receiver<Queued>,
        tally: &QueryCounters,
    ) -> String {
        self.silent_since.set(Some(Instant::now()));
        let (mut read, mut write) = split(stream);
        let why = tokio::select! {
            error = self.read_answers(&mut read, tally) => match error.kind() {
                io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
                _ => shown(&error),
            },
            error = self.write_questions(&mut write, questions) => shown(&error),
            () = self.ends.notified() => self.why(),
            () = self.idle() => "it was idle".to_owned(),
        };
        // A server that reads nothing is not waited for.
        let _ = timeout(FAREWELL, write.shutdown()).await;
        why
    }

    /// Writes questions until an error, those that wait together at once.
    async fn write_questions(
        &self,
        write: &mut (impl AsyncWrite + Unpin),
        mut questions: mpsc::Receiver<Queued>,
    ) -> io::Error {
        while let Some(first) = questions.recv().await {
            let (mut bytes, mut next) = (Vec::new(), Some(first));
            while let Some((id, question)) = next {
                if self.is_wanted(id) {
                    bytes.extend(question);
                }
                next = match bytes.len() < TOGETHER {
                    true => questions.try_recv().ok(),
                    false => None,
                };
            }
            let written = async {
                write.write_all(&bytes).await?;
                write.flush().await
            };
            if let Err(error) = written.await {
                return error;
            }
        }
        io::ErrorKind::BrokenPipe.into()
    }

    /// Forgets a question that was given up before it was written; returns false for such a one.
    fn is_wanted(&self, id: u16) -> bool {
        let mut asked = self.asked.borrow_mut();
        let is_wanted = asked.get(&id).is_some_and(|one| !one.reply.is_closed());
        if !is_wanted {
            asked.remove(&id);
        }
        is_wanted
    }

    /// Reads messages, each behind its length (RFC 7858 section 3.3), until an error.
    async fn read_answers(
        &self,
        read: &mut (impl AsyncRead + Unpin),
        tally: &QueryCounters,
    ) -> io::Error {
        let mut wrong = 0;
        loop {
            let reply = match read_message(read).await {
                Ok(reply) => reply,
                Err(error) => return error,
            };
            if let Err(fate) = self.deliver(reply) {
                tally.count(fate);
                wrong += u32::from(fate == Fate::UpstreamUnexpected);
            }
            if wrong >= MOST_WRONG {
                return invalid("it sends answers to no question");
            }
        }
    }

    /// Delivers a message to the question that waits for it, or returns its fate if there is none.
    fn deliver(&self, reply: Vec<u8>) -> Result<(), Fate> {
        let mut asked = self.asked.borrow_mut();
        let found = id(&reply).filter(|id| {
            let message = Message::parse(&reply);
            let one = asked.get(id);
            one.is_some_and(|one| message.is_ok_and(|message| answers(&one.ask, &message)))
        });
        let one = found.and_then(|id| asked.remove(&id));
        let one = one.ok_or(Fate::UpstreamUnexpected)?;
        self.silent_since.set(Some(Instant::now()));
        self.has_answered.set(true);
        one.reply.send(reply).map_err(|_| Fate::UpstreamLate)
    }

    /// Returns when there was no question for a while.
    async fn idle(&self) {
        loop {
            sleep(LOOK).await;
            let waits = any_waits(&self.asked.borrow());
            if !waits && self.used.get().elapsed() >= IDLE {
                return;
            }
        }
    }
}

fn any_waits(asked: &HashMap<u16, Asked>) -> bool {
    asked.values().any(|one| !one.reply.is_closed())
}

async fn read_message(read: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = usize::from(read.read_u16().await?);
    if length < HEADER {
        return Err(invalid("it sends messages shorter than a header"));
    }
    let mut message = vec![0; length];
    read.read_exact(&mut message).await?;
    Ok(message)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
