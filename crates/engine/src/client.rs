// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The caller's end: requests that never wait, and events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::{io, thread};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::commands::{Command, Commands};
use crate::names::{is_key, is_tail};
use crate::worker::Worker;
use crate::{Event, Settings, SettingsError, Store};

/// How many writes, and how many other requests, may wait to be sent.
const WRITES: usize = 64;
const REST: usize = 256;

/// Why nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The kernel gave no thread.
    #[error("cannot start the engine's thread: {0}")]
    Thread(#[source] io::Error),
}

/// Why a request was not taken. It gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// Too many requests wait to be sent.
    #[error("too many requests wait for the engine")]
    Busy,
    /// The key or the subject's tail has characters that the engine does not allow, or more than 128.
    #[error("the engine does not allow this name")]
    Name,
    /// The value or payload is bigger than [`Settings::max_message`].
    #[error("the value is too big for the engine")]
    TooBig,
    /// The events' receiver was dropped.
    #[error("the engine's client has ended")]
    Ended,
}

/// What was not given to the caller, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of others that were bigger than [`Settings::max_message`], and entries and messages with an impossible name.
    pub skipped: u64,
    /// Messages that the engine dropped, by age or for room, before this node had read them.
    pub missed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) skipped: AtomicU64,
    pub(crate) missed: AtomicU64,
    /// How many resets of the bucket the caller has taken.
    resets: AtomicU64,
}

/// Sends requests. Clones share their queues. When all clones are gone, the connection is closed and the events end.
#[derive(Debug, Clone)]
pub struct Client {
    writes: mpsc::Sender<Command>,
    rest: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    max_message: usize,
}

/// Receives events.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<Event>,
    shared: Arc<Shared>,
}

impl Client {
    /// Starts a thread that connects, and keeps connecting. Does not wait for it.
    pub fn start(settings: Settings) -> Result<(Self, Events), StartError> {
        let servers = settings.check()?;
        let (writes, writes_end) = mpsc::channel(WRITES);
        let (rest, rest_end) = mpsc::channel(REST);
        let (events, receiver) = mpsc::channel(settings.events);
        let shared = Arc::new(Shared::default());
        let max_message = settings.max_message;
        let commands = Commands {
            writes: writes_end,
            rest: rest_end,
        };
        let worker = Worker::new(settings, servers, commands, events, shared.clone());
        thread::Builder::new()
            .name("engine".into())
            .spawn(move || worker.run())
            .map_err(StartError::Thread)?;
        Ok((
            Self {
                writes,
                rest,
                shared: shared.clone(),
                max_message,
            },
            Events { receiver, shared },
        ))
    }

    /// Stores `value` if the entry's revision is `expected` (0: there never was one). [`Event::Answer`] tells the outcome.
    ///
    /// Never sent twice. After [`crate::Outcome::Failed`], it may still be stored, even later.
    pub fn write(
        &self,
        token: u64,
        key: &str,
        value: impl Into<Bytes>,
        expected: u64,
    ) -> Result<(), Unsent> {
        let value = value.into();
        if !is_key(key) {
            return Err(Unsent::Name);
        }
        let generation = self.shared.resets.load(Ordering::Acquire);
        self.fits(&value)?;
        send(
            &self.writes,
            Command::Write {
                token,
                key: key.into(),
                value,
                expected,
                generation,
            },
        )
    }

    /// Adds a message to the stream. [`Event::Published`] tells the outcome. Messages are stored in the order of the calls.
    pub fn publish(
        &self,
        token: u64,
        subject_tail: &str,
        payload: impl Into<Bytes>,
    ) -> Result<(), Unsent> {
        let payload = payload.into();
        if !is_tail(subject_tail) {
            return Err(Unsent::Name);
        }
        self.fits(&payload)?;
        send(
            &self.rest,
            Command::Publish {
                token,
                tail: subject_tail.into(),
                payload,
            },
        )
    }

    /// Asks for the sequence of the stream's last message. [`Event::LastSequence`] tells it.
    ///
    /// A leader of the stream that was cut off, and does not know yet, may give an older one. What [`Client::publish`] was
    /// answered has no such doubt: a majority of the servers has stored it.
    pub fn last_sequence(&self, token: u64) -> Result<(), Unsent> {
        send(&self.rest, Command::LastSequence { token })
    }

    /// What was not given to the caller.
    pub fn counters(&self) -> Counters {
        Counters {
            skipped: self.shared.skipped.load(Ordering::Relaxed),
            missed: self.shared.missed.load(Ordering::Relaxed),
        }
    }

    fn fits(&self, bytes: &Bytes) -> Result<(), Unsent> {
        if bytes.len() > self.max_message {
            return Err(Unsent::TooBig);
        }
        Ok(())
    }
}

fn send(queue: &mpsc::Sender<Command>, command: Command) -> Result<(), Unsent> {
    queue.try_send(command).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => Unsent::Busy,
        mpsc::error::TrySendError::Closed(_) => Unsent::Ended,
    })
}

impl Events {
    /// The next event; `None` after the last [`Client`] was dropped. May be cancelled without losing an event.
    ///
    /// A write that is called before [`Event::Reset`] of the bucket has been received here is not sent to the new bucket, where its
    /// revision would mean something else.
    pub async fn recv(&mut self) -> Option<Event> {
        let event = self.receiver.recv().await;
        self.count(event)
    }

    /// The next event, if there is one by now.
    pub fn try_recv(&mut self) -> Option<Event> {
        let event = self.receiver.try_recv().ok();
        self.count(event)
    }

    fn count(&self, event: Option<Event>) -> Option<Event> {
        if event == Some(Event::Reset(Store::Bucket)) {
            self.shared.resets.fetch_add(1, Ordering::Release);
        }
        event
    }
}
