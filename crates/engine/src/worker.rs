// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine's thread: one session after another.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::client::Shared;
use crate::commands::Commands;
use crate::connection::Connection;
use crate::names::Names;
use crate::place::Place;
use crate::reader::Reader;
use crate::requests::{End, Places, Requests};
use crate::session;
use crate::settings::Server;
use crate::{Event, Settings, Store};

/// The first and the longest wait before another server is tried. A random half of it is left out, so that nodes do
/// not come all at once.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// What outlives sessions.
pub(crate) struct Worker {
    settings: Settings,
    servers: Vec<Server>,
    names: Names,
    commands: Commands,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    places: Places,
    /// Resets of the bucket that were reported.
    generation: u64,
    /// The fault last reported of each server since the last connection.
    said: HashMap<String, String>,
    /// Sessions that were not reached, in a row.
    failures: u32,
}

/// The caller dropped all clients, or the events.
struct Gone;

impl Worker {
    pub(crate) fn new(
        settings: Settings,
        servers: Vec<Server>,
        commands: Commands,
        events: mpsc::Sender<Event>,
        shared: Arc<Shared>,
    ) -> Self {
        let names = Names::new(&settings.name);
        let places = Places {
            bucket: Place::default().into(),
            bindings: Place::default().into(),
        };
        let (generation, said, failures) = (0, HashMap::new(), 0);
        Self {
            settings,
            servers,
            names,
            commands,
            events,
            shared,
            places,
            generation,
            said,
            failures,
        }
    }

    /// Runs until the caller has gone.
    pub(crate) fn run(mut self) {
        // Nodes spread over the servers.
        let mut turn = random() as usize;
        loop {
            let server = self.servers[turn % self.servers.len()].clone();
            turn = turn.wrapping_add(1);
            let runtime = match Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .max_blocking_threads(2)
                .build()
            {
                Ok(runtime) => runtime,
                // Out of descriptors or memory: the next try may have some.
                Err(error) => {
                    let lost =
                        Event::Lost(format!("this node has no means for a connection: {error}"));
                    std::thread::sleep(LONGEST);
                    if self.events.try_send(lost).is_err() && self.events.is_closed() {
                        return;
                    }
                    continue;
                }
            };
            let gone = runtime.block_on(self.attempt(&server)).is_err();
            end(runtime);
            if gone {
                return;
            }
        }
    }

    /// One session and the wait after it.
    async fn attempt(&mut self, server: &Server) -> Result<(), Gone> {
        let connecting = {
            let (server, settings) = (server.clone(), self.settings.clone());
            async move { Connection::open(&server, &settings).await }
        };
        match self.meanwhile(connecting).await? {
            Err(sentence) => self.lost(server, sentence).await?,
            Ok(connection) => {
                let fault = self.session(server, &connection).await?;
                let sentence = connection.explain(format!("{} {fault}", server.shown));
                self.lost(server, sentence).await?;
            }
        }
        let wait = wait(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.meanwhile(tokio::time::sleep(wait)).await
    }

    /// Serves until something goes wrong, and says what: the part of a sentence after the server.
    async fn session(&mut self, server: &Server, connection: &Connection) -> Result<String, Gone> {
        let mut jetstream = jetstream::new(connection.client.clone());
        jetstream.set_timeout(self.settings.silence);
        let (bucket, bindings) = match self.open(&jetstream).await? {
            Ok(opened) => opened,
            Err(fault) => return Ok(fault),
        };
        let reset = [Store::Bucket, Store::Bindings]
            .map(|store| (store, self.places.of(store).borrow_mut().take_reset()));
        self.generation += u64::from(reset[0].1);
        let (client, names) = (&connection.client, self.names.clone());
        let requests = Requests::new(client, &names, self.generation, self.settings.silence).await;
        self.failures = 0;
        self.said.clear();
        self.tell(Event::Connected {
            server: server.shown.clone(),
        })
        .await?;
        for (store, _) in reset.into_iter().filter(|(_, reset)| *reset) {
            self.tell(Event::Reset(store)).await?;
        }
        let mut requests = match requests {
            Ok(requests) => requests,
            Err(fault) => return Ok(fault),
        };
        self.places.bucket.borrow_mut().rewind();
        let Self {
            settings,
            commands,
            events,
            shared,
            places,
            ..
        } = &mut *self;
        let reader = |store, target| Reader {
            jetstream: &jetstream,
            store,
            stream: names.stream(store),
            prefix: names.prefix(store),
            place: places.of(store),
            max_message: settings.max_message,
            silence: settings.silence,
            events,
            shared,
            target: Some(target),
        };
        let fault = tokio::select! {
            fault = connection.ended() => fault,
            fault = reader(Store::Bucket, bucket).read() => fault,
            fault = reader(Store::Bindings, bindings).read() => fault,
            end = requests.serve(commands, events, places) => match end {
                End::Fault(fault) => fault,
                End::Closed => return Err(Gone),
            },
            () = events.closed() => return Err(Gone),
        };
        for request in requests.unanswered() {
            let event = request.failed("the connection was lost before the engine answered");
            self.tell(event).await?;
        }
        Ok(fault)
    }

    /// Both stores, opened or made: the last sequence of each.
    async fn open(
        &mut self,
        jetstream: &jetstream::Context,
    ) -> Result<Result<(u64, u64), String>, Gone> {
        let (mut bucket, mut bindings) = (self.places.bucket.take(), self.places.bindings.take());
        let (names, settings, jetstream) =
            (self.names.clone(), self.settings.clone(), jetstream.clone());
        let opening = async {
            let one =
                session::open(&jetstream, &names, &settings, Store::Bucket, &mut bucket).await?;
            let two = session::open(
                &jetstream,
                &names,
                &settings,
                Store::Bindings,
                &mut bindings,
            )
            .await?;
            Ok((one, two))
        };
        let opened = self.meanwhile(opening).await?;
        self.places = Places {
            bucket: bucket.into(),
            bindings: bindings.into(),
        };
        Ok(opened)
    }

    /// Does the work. Requests that come meanwhile fail.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Gone> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.events.closed() => return Err(Gone),
                command = self.commands.next() => {
                    let event = command.ok_or(Gone)?.request().failed("not connected");
                    self.tell(event).await?;
                }
            }
        }
    }

    async fn lost(&mut self, server: &Server, sentence: String) -> Result<(), Gone> {
        if self.said.get(&server.shown) == Some(&sentence) {
            return Ok(());
        }
        self.said.insert(server.shown.clone(), sentence.clone());
        self.tell(Event::Lost(sentence)).await
    }

    async fn tell(&self, event: Event) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }
}

/// Ends all that the session has begun. A name that is still looked up does not hold this up.
fn end(runtime: Runtime) {
    runtime.shutdown_background();
}

/// Doubles with each failure, less a random half.
fn wait(failures: u32) -> Duration {
    let whole = SHORTEST.saturating_mul(1 << failures.min(10)).min(LONGEST);
    whole / 2 + whole.mul_f64(f64::from(random()) / f64::from(u32::MAX) / 2.0)
}

/// Without randomness, nodes come at the same time, and that is all.
fn random() -> u32 {
    getrandom::u32().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_second() {
        for failures in 0..40 {
            let whole = Duration::from_millis(50 << failures.min(10)).min(Duration::from_secs(1));
            assert!((whole / 2..=whole).contains(&wait(failures)), "{failures}");
        }
    }
}
