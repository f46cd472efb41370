// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that sends requests to etcd, and the queues to and from it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diolkos_node::record::{Answer, Request, RETRY};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::connection::Connection;
use crate::settings::{Server, Settings, SettingsError};
use crate::store::Store;

/// Maximum number of waiting requests, and of waiting answers. A node asks at most for the record of each other
/// node, and for its own.
const QUEUE: usize = 256;

/// A node that has no answer after [`RETRY`] asks again. The rest of that time is for the answer's way back.
const LIFETIME: Duration = RETRY.saturating_sub(Duration::from_millis(500));

/// The client of etcd. Its thread ends when this is dropped.
#[derive(Debug)]
pub struct Client {
    requests: mpsc::Sender<Waiting>,
    status: Arc<Mutex<Status>>,
}

/// Answers with the tokens of their requests, in the order of the requests. A request that fails has no answer.
pub type Answers = mpsc::Receiver<(u64, Answer)>;

/// The state of the client, for an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The member that answers, and its version.
    pub connected: Option<(String, String)>,
    /// Number of requests that were answered.
    pub answered: u64,
    /// Number of requests that were not: no member answered in time, or none with an answer that can be read.
    pub unanswered: u64,
    /// Number of failures of single members; a request can cause several.
    pub failures: u64,
    /// The last failure, as a sentence.
    pub reason: Option<String>,
}

/// The reason why a client does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The system cannot create the thread.
    #[error("the engine's thread does not start: {0}")]
    Thread(#[from] io::Error),
}

/// The reason why a request was not accepted. It is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// Too many others wait.
    #[error("too many requests wait for the engine")]
    Full,
    /// The thread that takes requests has ended.
    #[error("the engine's thread has ended")]
    Ended,
}

#[derive(Debug)]
struct Waiting {
    token: u64,
    request: Request,
    since: Instant,
}

impl Client {
    /// Starts the thread, in the caller's network namespace. It connects at the first request.
    pub fn start(settings: Settings) -> Result<(Client, Answers), StartError> {
        let servers = settings.check()?;
        let (requests, taken) = mpsc::channel(QUEUE);
        let (answers, given) = mpsc::channel(QUEUE);
        let status = Arc::new(Mutex::new(Status::default()));
        let runtime = runtime()?;
        let mut worker = Worker {
            store: Store::default(),
            // The nodes are spread over the members.
            at: settings.me.index(),
            settings: Arc::new(settings),
            servers,
            connection: None,
            status: status.clone(),
        };
        let thread = thread::Builder::new().name("engine".into());
        thread.spawn(move || {
            runtime.block_on(worker.run(taken, answers));
            drop(worker);
            // A pending name lookup must not delay the end.
            runtime.shutdown_background();
        })?;
        Ok((Client { requests, status }, given))
    }

    /// Queues a request. It is dropped if it waits for longer than 2.5 s: by then the node asks again.
    pub fn ask(&self, token: u64, request: Request) -> Result<(), Unsent> {
        let waiting = Waiting {
            token,
            request,
            since: Instant::now(),
        };
        self.requests
            .try_send(waiting)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Unsent::Full,
                mpsc::error::TrySendError::Closed(_) => Unsent::Ended,
            })
    }

    /// Returns the current state.
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }
}

pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
}

struct Worker {
    settings: Arc<Settings>,
    servers: Vec<Server>,
    /// The index of the server that is asked, incremented with each failure.
    at: usize,
    connection: Option<Connection>,
    store: Store,
    status: Arc<Mutex<Status>>,
}

impl Worker {
    async fn run(
        &mut self,
        mut requests: mpsc::Receiver<Waiting>,
        answers: mpsc::Sender<(u64, Answer)>,
    ) {
        while let Some(waiting) = requests.recv().await {
            let answer = self.carry_out(&waiting).await;
            self.note(|status| match answer {
                Some(_) => status.answered += 1,
                None => status.unanswered += 1,
            });
            if let Some(answer) = answer {
                if answers.send((waiting.token, answer)).await.is_err() {
                    return;
                }
            }
            if answers.is_closed() {
                return;
            }
        }
    }

    /// Asks one member after the other, each once. A write that may have reached one is not repeated: its result is
    /// unknown, and a second one would be refused because of the first.
    async fn carry_out(&mut self, waiting: &Waiting) -> Option<Answer> {
        for _ in 0..self.servers.len() {
            if waiting.since.elapsed() >= LIFETIME {
                break;
            }
            let mut is_repeatable = !matches!(waiting.request, Request::Write(..));
            let failure = match self.connect().await {
                Ok(mut connection) => {
                    let answer = self.store.answer(&mut connection, &waiting.request);
                    match answer.await {
                        Ok(answer) => {
                            self.connection = Some(connection);
                            return Some(answer);
                        }
                        Err(failure) => failure,
                    }
                }
                Err(failure) => {
                    is_repeatable = true;
                    failure
                }
            };
            self.at = self.at.wrapping_add(1);
            self.note(|status| {
                status.connected = None;
                status.failures += 1;
                status.reason = Some(failure);
            });
            if !is_repeatable {
                break;
            }
        }
        None
    }

    fn note(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
    }

    /// Returns the existing connection, or a new one.
    async fn connect(&mut self) -> Result<Connection, String> {
        if let Some(connection) = self.connection.take().filter(Connection::is_open) {
            return Ok(connection);
        }
        let server = &self.servers[self.at % self.servers.len()];
        let connection = Connection::open(server, &self.settings).await?;
        let connected = (server.shown.clone(), connection.version.clone());
        self.note(|status| status.connected = Some(connected));
        Ok(connection)
    }
}

fn lock(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
