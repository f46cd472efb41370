// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a caller wants of the engine, on its way to the session.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{Event, Outcome};

/// A request of the caller.
#[derive(Debug)]
pub(crate) enum Command {
    Write {
        token: u64,
        key: String,
        value: Bytes,
        expected: u64,
        /// How many resets of the bucket the caller knew of. Revisions of another bucket mean nothing.
        generation: u64,
    },
    Publish {
        token: u64,
        tail: String,
        payload: Bytes,
    },
    LastSequence {
        token: u64,
    },
}

/// What a request asks for, without what it carries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Write,
    Publish,
    LastSequence,
}

/// Which of the caller's requests an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) token: u64,
}

impl Command {
    pub(crate) fn request(&self) -> Request {
        match *self {
            Self::Write { token, .. } => Request {
                kind: Kind::Write,
                token,
            },
            Self::Publish { token, .. } => Request {
                kind: Kind::Publish,
                token,
            },
            Self::LastSequence { token } => Request {
                kind: Kind::LastSequence,
                token,
            },
        }
    }
}

impl Request {
    pub(crate) fn answer(self, outcome: Outcome) -> Event {
        let token = self.token;
        match self.kind {
            Kind::Write => Event::Answer { token, outcome },
            Kind::Publish => Event::Published { token, outcome },
            Kind::LastSequence => Event::LastSequence { token, outcome },
        }
    }

    pub(crate) fn failed(self, why: &str) -> Event {
        self.answer(Outcome::Failed(why.into()))
    }
}

/// The session's end of the queues. A lease's renewal does not wait behind bindings.
pub(crate) struct Commands {
    pub(crate) writes: mpsc::Receiver<Command>,
    pub(crate) rest: mpsc::Receiver<Command>,
}

impl Commands {
    /// The next request, writes first; `None` if the caller has gone. May be cancelled without losing a request.
    pub(crate) async fn next(&mut self) -> Option<Command> {
        tokio::select! {
            biased;
            command = self.writes.recv() => command,
            command = self.rest.recv() => command,
        }
    }
}
