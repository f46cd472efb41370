// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a store in the order of its sequences, from where the reader before it ended.
//!
//! The server's consumer belongs to this reader alone and ends with it. The reader asks for a batch, takes it, and asks for the next one:
//! so at most a batch is on its way, however slow the caller is. While a batch is not full, the server sends heartbeats.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::consumer::{pull, AckPolicy, DeliverPolicy, ReplayPolicy};
use async_nats::jetstream::{self, Context};
use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::Shared;
use crate::place::Place;
use crate::{Event, Store};

/// The most messages that are on their way.
const BATCH: usize = 128;

/// For how long one request for a batch holds.
const EXPIRES: Duration = Duration::from_secs(30);

/// After what time without a request the server forgets the consumer of a node that has gone.
const INACTIVE: Duration = Duration::from_secs(60);

/// How often in a row a consumer may be made without hearing from it.
const SILENT_CONSUMERS: u32 = 2;

/// JetStream's error code for a stream without a message of the subject.
const NO_MESSAGE: u64 = 10_037;

/// A reader of one store.
pub(crate) struct Reader<'s> {
    pub(crate) jetstream: &'s Context,
    pub(crate) store: Store,
    pub(crate) stream: &'s str,
    pub(crate) prefix: &'s str,
    pub(crate) place: &'s RefCell<Place>,
    pub(crate) max_message: usize,
    pub(crate) silence: Duration,
    pub(crate) events: &'s mpsc::Sender<Event>,
    pub(crate) shared: &'s Shared,
    /// What `Synced` or `CaughtUp` waits for; `None` after that was sent.
    pub(crate) target: Option<u64>,
}

/// Why a reader stops.
enum Stop {
    /// The server has no consumer any more, or messages were lost on the way.
    Anew,
    /// Nothing was heard for too long.
    Silent,
    /// The receiver of events has gone, or the connection has.
    Over(String),
}

/// A consumer of the server.
struct Consumer {
    name: String,
    batches: Subscriber,
    /// Where batches are sent.
    inbox: String,
    /// How many of the batch are still to come.
    asked: usize,
    /// Of the last message, by the consumer's own count.
    count: u64,
    heard: bool,
}

impl Reader<'_> {
    /// Reads for ever. The error is the part of a sentence after the server.
    pub(crate) async fn read(mut self) -> String {
        let mut silent = 0;
        loop {
            let mut consumer = match self.consumer().await {
                Ok(consumer) => consumer,
                Err(Stop::Over(fault)) => return fault,
                Err(_) => continue,
            };
            let stop = self.follow(&mut consumer).await;
            silent = if consumer.heard { 0 } else { silent + 1 };
            match stop {
                Stop::Over(fault) => return fault,
                _ if silent >= SILENT_CONSUMERS => {
                    return format!("sends nothing of the stream {}", self.stream)
                }
                Stop::Silent => {}
                // Not in a tight loop, if the server loses consumers again and again.
                Stop::Anew => tokio::time::sleep(self.silence / 8).await,
            }
        }
    }

    async fn consumer(&mut self) -> Result<Consumer, Stop> {
        let given = self.place.borrow().given();
        let deliver_policy = match given {
            0 => DeliverPolicy::All,
            given => DeliverPolicy::ByStartSequence {
                start_sequence: given + 1,
            },
        };
        let config = pull::Config {
            deliver_policy,
            ack_policy: AckPolicy::None,
            replay_policy: ReplayPolicy::Instant,
            inactive_threshold: INACTIVE,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let made = self
            .jetstream
            .create_consumer_on_stream(config, self.stream)
            .await;
        let over = |error: String| {
            Stop::Over(format!("does not read the stream {}: {error}", self.stream))
        };
        let made = made.map_err(|error| over(error.to_string()))?;
        let info = made.cached_info();
        let client = self.jetstream.client();
        let inbox = client.new_inbox();
        let batches = client
            .subscribe(inbox.clone())
            .await
            .map_err(|error| over(error.to_string()))?;
        if info.num_pending == 0 && self.is_all_given().await {
            self.told().await?;
        }
        Ok(Consumer {
            name: info.name.clone(),
            batches,
            inbox,
            asked: 0,
            count: 0,
            heard: false,
        })
    }

    async fn follow(&mut self, consumer: &mut Consumer) -> Stop {
        loop {
            if consumer.asked == 0 {
                if let Err(stop) = self.ask(consumer).await {
                    return stop;
                }
            }
            let message = match timeout(self.silence, consumer.batches.next()).await {
                Err(_) => return Stop::Silent,
                Ok(None) => return Stop::Over("closed the connection".into()),
                Ok(Some(message)) => message,
            };
            let done = match message.status {
                None | Some(StatusCode::OK) => self.take(consumer, message).await,
                Some(StatusCode::IDLE_HEARTBEAT) => {
                    consumer.heard = true;
                    self.idle(consumer).await
                }
                Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                    consumer.asked = 0;
                    Ok(())
                }
                // 409 for a consumer that was deleted or whose leader went, 503 if there is none.
                Some(_) => Err(Stop::Anew),
            };
            if let Err(stop) = done {
                return stop;
            }
        }
    }

    async fn ask(&self, consumer: &mut Consumer) -> Result<(), Stop> {
        // The server asks for a heartbeat of at most half of `expires`.
        let beat = self.silence / 3;
        let request = format!(
            r#"{{"batch":{BATCH},"expires":{},"idle_heartbeat":{}}}"#,
            EXPIRES.as_nanos(),
            beat.as_nanos()
        );
        let subject = format!(
            "$JS.API.CONSUMER.MSG.NEXT.{}.{}",
            self.stream, consumer.name
        );
        consumer.asked = BATCH;
        let client = self.jetstream.client();
        let sent = client
            .publish_with_reply(subject, consumer.inbox.clone(), Bytes::from(request))
            .await;
        sent.map_err(|error| Stop::Over(format!("cannot be asked for messages: {error}")))
    }

    /// A message of the stream. The place moves on only after the event was taken: this may be cancelled.
    async fn take(&mut self, consumer: &mut Consumer, message: Message) -> Result<(), Stop> {
        let message = jetstream::Message {
            message,
            context: self.jetstream.clone(),
        };
        let Ok(info) = message.info() else {
            return Ok(());
        };
        let (sequence, pending) = (info.stream_sequence, info.pending);
        if info.consumer_sequence != consumer.count + 1 {
            return Err(Stop::Anew);
        }
        consumer.count += 1;
        consumer.asked = consumer.asked.saturating_sub(1);
        consumer.heard = true;
        match self.event(sequence, message.message) {
            Some(event) => self.tell(event).await?,
            None => _ = self.shared.skipped.fetch_add(1, Ordering::Relaxed),
        }
        let missing = self.place.borrow_mut().give(sequence);
        if self.store == Store::Bindings {
            self.shared.missed.fetch_add(missing, Ordering::Relaxed);
        }
        let is_at_target = self.target.is_some_and(|target| sequence >= target);
        if is_at_target || (pending == 0 && self.is_all_given().await) {
            self.told().await?;
        }
        Ok(())
    }

    /// `None`: not for the caller.
    fn event(&self, sequence: u64, message: Message) -> Option<Event> {
        let tail = message.subject.strip_prefix(self.prefix)?;
        if tail.len() > self.max_message {
            return None;
        }
        let is_too_long = message.payload.len() > self.max_message;
        if is_too_long && self.store == Store::Bindings {
            return None;
        }
        let tail = tail.to_owned();
        Some(match self.store {
            Store::Bindings => Event::Message {
                subject_tail: tail,
                sequence,
                payload: message.payload,
            },
            Store::Bucket => {
                let operation = message
                    .headers
                    .as_ref()
                    .and_then(|headers| headers.get("KV-Operation"));
                let removed = operation
                    .is_some_and(|operation| ["DEL", "PURGE"].contains(&operation.as_str()));
                // An entry that is too long is there all the same.
                let value = (!removed && !is_too_long).then_some(message.payload);
                Event::Entry {
                    key: tail,
                    value,
                    revision: sequence,
                }
            }
        })
    }

    /// The server has nothing to send. What was still to come at the start may have expired meanwhile.
    async fn idle(&mut self, consumer: &Consumer) -> Result<(), Stop> {
        if self.target.is_none() {
            return Ok(());
        }
        let subject = format!("CONSUMER.INFO.{}.{}", self.stream, consumer.name);
        let info: Result<serde_json::Value, _> = self.jetstream.request(subject, &()).await;
        match info {
            Ok(info) if info["num_pending"] == 0 && self.is_all_given().await => self.told().await,
            _ => Ok(()),
        }
    }

    /// Whether the stream has nothing behind what was given, though its last sequence at the start was not reached. The server that
    /// has the consumer may lag behind the leader of the stream. Nothing depends on a message of the bindings that comes late; but an
    /// entry of the bucket that comes late would look removed. So the leader is asked for its last one.
    async fn is_all_given(&self) -> bool {
        let given = self.place.borrow().given();
        if self.store == Store::Bindings || self.target.is_none_or(|target| given >= target) {
            return true;
        }
        let subject = format!("STREAM.MSG.GET.{}", self.stream);
        let last = serde_json::json!({ "last_by_subj": format!("{}>", self.prefix) });
        let answer: Result<serde_json::Value, _> = self.jetstream.request(subject, &last).await;
        let Ok(answer) = answer else { return false };
        if answer["error"]["err_code"] == NO_MESSAGE {
            return true;
        }
        let sequence = answer["message"]["seq"].as_u64();
        sequence.is_some_and(|sequence| sequence <= given)
    }

    /// Everything that was there at the start has been given.
    async fn told(&mut self) -> Result<(), Stop> {
        let Some(target) = self.target else {
            return Ok(());
        };
        let event = match self.store {
            Store::Bucket => Event::Synced,
            Store::Bindings => Event::CaughtUp { sequence: target },
        };
        self.tell(event).await?;
        self.target = None;
        Ok(())
    }

    async fn tell(&self, event: Event) -> Result<(), Stop> {
        self.events
            .send(event)
            .await
            .map_err(|_| Stop::Over("is no longer needed".into()))
    }
}
