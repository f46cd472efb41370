// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client with what it was told, and limits against hanging.

use std::time::Duration;

use diolkos_engine::{Client, Event, Events, Outcome, Settings};
use tokio::time::timeout;

/// Nothing takes this long. Tests fail after it; none depends on being faster.
const HANGS: Duration = Duration::from_secs(60);

pub struct Node {
    pub client: Client,
    events: Events,
    /// Everything that was told so far.
    pub told: Vec<Event>,
    token: u64,
}

/// Settings for servers without encryption.
pub fn plain(servers: &[String]) -> Settings {
    Settings {
        plaintext: true,
        ..patient(servers)
    }
}

/// A busy machine is not silence.
pub fn patient(servers: &[String]) -> Settings {
    Settings {
        silence: Duration::from_secs(5),
        ..Settings::new(servers.to_vec(), "test")
    }
}

impl Node {
    pub fn start(settings: Settings) -> Self {
        let (client, events) = Client::start(settings).unwrap();
        Self {
            client,
            events,
            told: Vec::new(),
            token: 0,
        }
    }

    /// A node that has everything that was there.
    pub async fn ready(settings: Settings) -> Self {
        let mut node = Self::start(settings);
        node.caught_up().await;
        node
    }

    /// Until both stores were read to the end after the next connection.
    pub async fn caught_up(&mut self) {
        let (mut synced, mut caught_up) = (false, false);
        while !(synced && caught_up) {
            match self.next().await {
                Event::Connected { .. } => (synced, caught_up) = (false, false),
                Event::Synced => synced = true,
                Event::CaughtUp { .. } => caught_up = true,
                _ => {}
            }
        }
    }

    pub async fn next(&mut self) -> Event {
        let next = timeout(HANGS, self.events.recv()).await;
        let event = next
            .unwrap_or_else(|_| panic!("nothing more after {:#?}", self.told))
            .unwrap();
        self.told.push(event.clone());
        event
    }

    /// The first event from now on that fits.
    pub async fn until<T>(&mut self, fits: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            if let Some(found) = fits(&self.next().await) {
                return found;
            }
        }
    }

    pub async fn lost(&mut self) -> String {
        self.until(|event| match event {
            Event::Lost(sentence) => Some(sentence.clone()),
            _ => None,
        })
        .await
    }

    pub async fn write(&mut self, key: &str, value: &str, expected: u64) -> Outcome {
        self.token += 1;
        let token = self.token;
        self.client
            .write(token, key, value.to_owned(), expected)
            .unwrap();
        self.until(|event| match event {
            Event::Answer { token: of, outcome } if *of == token => Some(outcome.clone()),
            _ => None,
        })
        .await
    }

    pub async fn publish(&mut self, tail: &str, payload: &str) -> Outcome {
        self.token += 1;
        let token = self.token;
        self.client
            .publish(token, tail, payload.to_owned())
            .unwrap();
        self.until(|event| match event {
            Event::Published { token: of, outcome } if *of == token => Some(outcome.clone()),
            _ => None,
        })
        .await
    }

    /// Keys, values and revisions that were told, in order.
    pub fn entries(&self) -> Vec<(String, String, u64)> {
        let entry = |event: &Event| match event {
            Event::Entry {
                key,
                value: Some(value),
                revision,
            } => Some((
                key.clone(),
                String::from_utf8(value.to_vec()).unwrap(),
                *revision,
            )),
            _ => None,
        };
        self.told.iter().filter_map(entry).collect()
    }

    /// Sequences and payloads that were told, in order.
    pub fn messages(&self) -> Vec<(u64, String)> {
        let message = |event: &Event| match event {
            Event::Message {
                sequence, payload, ..
            } => Some((*sequence, String::from_utf8(payload.to_vec()).unwrap())),
            _ => None,
        };
        self.told.iter().filter_map(message).collect()
    }

    /// Until a message with this payload.
    pub async fn hears(&mut self, payload: &str) {
        if self.messages().iter().any(|(_, heard)| heard == payload) {
            return;
        }
        self.until(|event| {
            matches!(event, Event::Message { payload: heard, .. } if heard == payload).then_some(())
        })
        .await;
    }
}
