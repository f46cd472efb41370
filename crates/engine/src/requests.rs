// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests on their way, and their answers. All answers come to one subject: `<inbox>.<number>`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, Instant};

use crate::commands::{Command, Commands, Kind, Request};
use crate::names::Names;
use crate::place::Place;
use crate::{Event, Outcome, Store};

/// How many requests may wait for answers.
const IN_FLIGHT: usize = 256;

/// The header by which JetStream compares the revision.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// JetStream's code for a revision that is not the expected one.
const WRONG_LAST_SEQUENCE: u64 = 10071;

/// Why requests are no longer served.
pub(crate) enum End {
    /// The caller has gone.
    Closed,
    /// The part of a sentence after the server.
    Fault(String),
}

/// A session's requests.
pub(crate) struct Requests<'s> {
    client: &'s Client,
    names: &'s Names,
    /// Resets of the bucket that were reported so far.
    generation: u64,
    silence: Duration,
    inbox: String,
    answers: Subscriber,
    waiting: HashMap<u64, Request>,
    /// The oldest request first; those that were answered among them.
    deadlines: VecDeque<(Instant, u64)>,
    sent: u64,
}

/// What is known of both stores, shared with the readers.
pub(crate) struct Places {
    pub(crate) bucket: RefCell<Place>,
    pub(crate) bindings: RefCell<Place>,
}

impl Places {
    pub(crate) fn of(&self, store: Store) -> &RefCell<Place> {
        match store {
            Store::Bucket => &self.bucket,
            Store::Bindings => &self.bindings,
        }
    }
}

impl<'s> Requests<'s> {
    pub(crate) async fn new(
        client: &'s Client,
        names: &'s Names,
        generation: u64,
        silence: Duration,
    ) -> Result<Self, String> {
        let inbox = client.new_inbox();
        let answers = client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            names,
            generation,
            silence,
            inbox,
            answers,
            waiting: HashMap::new(),
            deadlines: VecDeque::new(),
            sent: 0,
        })
    }

    /// Sends requests and tells their outcomes until something goes wrong. May be cancelled: then [`Self::unanswered`] has
    /// what is left.
    pub(crate) async fn serve(
        &mut self,
        commands: &mut Commands,
        events: &mpsc::Sender<Event>,
        places: &Places,
    ) -> End {
        loop {
            while self
                .deadlines
                .front()
                .is_some_and(|(_, number)| !self.waiting.contains_key(number))
            {
                self.deadlines.pop_front();
            }
            let deadline = self.deadlines.front().map(|&(at, _)| at);
            // Answers first: they may have come in time while the caller was slow.
            tokio::select! {
                biased;
                answer = self.answers.next() => {
                    let Some(answer) = answer else { return End::Fault("closed the connection".into()) };
                    // Only what was told is taken out.
                    let Ok(permit) = events.reserve().await else { return End::Closed };
                    if let Some(event) = self.answered(&answer, places) {
                        permit.send(event);
                    }
                }
                () = async { sleep_until(deadline.unwrap_or_else(Instant::now)).await }, if deadline.is_some() => {
                    return End::Fault(format!("did not answer a request for {:?}", self.silence));
                }
                command = commands.next(), if self.waiting.len() < IN_FLIGHT => {
                    let Some(command) = command else { return End::Closed };
                    if let Err(fault) = self.send(command, events).await {
                        return fault;
                    }
                }
            }
        }
    }

    /// Requests whose outcome will never be known.
    pub(crate) fn unanswered(self) -> impl Iterator<Item = Request> {
        self.waiting.into_values()
    }

    async fn send(&mut self, command: Command, events: &mpsc::Sender<Event>) -> Result<(), End> {
        let request = command.request();
        let number = self.sent;
        self.sent += 1;
        // Before anything that may be cancelled.
        self.waiting.insert(number, request);
        self.deadlines
            .push_back((Instant::now() + self.silence, number));
        let (subject, payload, expected) = match command {
            Command::Write { generation, .. } if generation != self.generation => {
                let permit = events.reserve().await.map_err(|_| End::Closed)?;
                self.waiting.remove(&number);
                permit.send(
                    request
                        .failed("the bucket is another one than the one that the revision is of"),
                );
                return Ok(());
            }
            Command::Write {
                key,
                value,
                expected,
                ..
            } => (
                format!("{}{key}", self.names.bucket_prefix),
                value,
                Some(expected),
            ),
            Command::Publish { tail, payload, .. } => (
                format!("{}{tail}", self.names.bindings_prefix),
                payload,
                None,
            ),
            Command::LastSequence { .. } => (
                format!("$JS.API.STREAM.INFO.{}", self.names.bindings_stream),
                Bytes::new(),
                None,
            ),
        };
        let reply = format!("{}.{number}", self.inbox);
        let sent = match expected {
            Some(revision) => {
                let mut headers = HeaderMap::new();
                headers.insert(EXPECTED, revision.to_string());
                self.client
                    .publish_with_reply_and_headers(subject, reply, headers, payload)
                    .await
            }
            None => {
                self.client
                    .publish_with_reply(subject, reply, payload)
                    .await
            }
        };
        sent.map_err(|error| End::Fault(format!("cannot be sent a request: {error}")))
    }

    /// The event of an answer; `None` if nobody asked.
    fn answered(&mut self, answer: &Message, places: &Places) -> Option<Event> {
        let number = answer.subject.rsplit_once('.')?.1.parse().ok()?;
        let request = self.waiting.remove(&number)?;
        let outcome = outcome(request.kind, answer);
        if let Outcome::Accepted(sequence) = outcome {
            match request.kind {
                Kind::Write => places.bucket.borrow_mut().known(sequence),
                Kind::Publish | Kind::LastSequence => places.bindings.borrow_mut().known(sequence),
            }
        }
        Some(request.answer(outcome))
    }
}

/// JetStream's answer to a publication or to a question for a stream.
#[derive(Deserialize)]
struct Answer {
    error: Option<Problem>,
    seq: Option<u64>,
    state: Option<State>,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct State {
    last_seq: u64,
}

fn outcome(kind: Kind, answer: &Message) -> Outcome {
    if answer.status == Some(async_nats::StatusCode::NO_RESPONDERS) {
        return Outcome::Failed("the engine has no such stream now".into());
    }
    let Ok(parsed) = serde_json::from_slice::<Answer>(&answer.payload) else {
        return Outcome::Failed("the engine's answer cannot be read".into());
    };
    let sequence = match kind {
        Kind::Write | Kind::Publish => parsed.seq,
        Kind::LastSequence => parsed.state.map(|state| state.last_seq),
    };
    match (parsed.error, sequence) {
        (Some(problem), _) if problem.err_code == WRONG_LAST_SEQUENCE => Outcome::Refused,
        (Some(problem), _) => Outcome::Failed(problem.description),
        (None, Some(sequence)) => Outcome::Accepted(sequence),
        (None, None) => Outcome::Failed("the engine's answer has no sequence".into()),
    }
}
