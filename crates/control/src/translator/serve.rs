// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server side of the control socket. The program's loop receives whole requests, one after another. The status is
//! published separately, so that it can be read while the loop is busy.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use diolkos_sys::{memory, peer};
use serde::Serialize;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot, watch, Semaphore};
use tokio::time::{sleep, Instant};

use super::interface::{self, Asked, EntriesPage};
use super::{Answer, Condition, Request, Status};
use crate::error::ControlError;
use crate::varlink::{self, Call, Caller, Interface, Readers, Refusal, Replies, Service, Serving};
use diolkos_figures::entries::Entries;
use diolkos_service::failure::Failure;
use diolkos_service::instance::Instance;
use diolkos_service::supervise::Watch;

/// Requests that wait in the queue.
const QUESTIONS: usize = 16;
/// Followers of root and of the program's own user; their other connections stay free for commands.
const FOLLOWERS: usize = 16;
/// The shortest time between two replies to a follower. A status that changes more often is reported less often.
const BREATH: Duration = Duration::from_millis(100);
/// Entries in one of several replies.
const PART: usize = 1000;
/// Entries in a single reply. Clients limit the length of a reply (systemd: 16 MiB).
const SOLE: usize = 10_000;
/// After an answer to a reader, all readers wait this many times as long as the answer took, so that most of the program's time
/// remains for packets and for root.
const REST: u32 = 4;
/// Upper bound of that wait.
const REST_AT_MOST: Duration = Duration::from_secs(1);

/// The control socket of the instance for a device. Dropping it removes the socket, and another instance can take its place.
#[derive(Debug)]
pub struct Control {
    questions: mpsc::Receiver<Question>,
    asker: Asker,
    status: Arc<watch::Sender<Status>>,
    serving: Option<Serving>,
    instance: Option<Instance>,
}

/// A request, and the channel for its answer.
#[derive(Debug)]
pub struct Question {
    /// The request.
    pub request: Request,
    to: oneshot::Sender<Answer>,
    /// The client's connection. `None`: no client waits, and the request is carried out all the same.
    asker: Option<OwnedFd>,
    status: Arc<watch::Sender<Status>>,
}

/// Sends requests from within the program, as clients do from outside.
#[derive(Clone, Debug)]
pub struct Asker {
    ask: mpsc::Sender<Question>,
    status: Arc<watch::Sender<Status>>,
}

impl Asker {
    /// Sends a request and waits for the answer; `None` if the program ends.
    pub async fn ask(&self, request: Request) -> Option<Answer> {
        let (to, answer) = oneshot::channel();
        let question = Question {
            request,
            to,
            asker: None,
            status: self.status.clone(),
        };
        self.ask.send(question).await.ok()?;
        answer.await.ok()
    }
}

impl Asker {
    /// The status of the program, also while its loop is busy.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
}

impl Question {
    /// Sends the answer.
    pub fn answer(self, answer: Answer) {
        if answer == Answer::Reloaded {
            self.status.send_modify(|status| status.reloads += 1);
        }
        // A client that has disconnected meanwhile does not read it.
        let _ = self.to.send(answer);
    }
}

impl Control {
    /// Records that another configuration is in force, which no client requested.
    pub fn reloaded(&self) {
        self.status.send_modify(|status| status.reloads += 1);
    }
}

/// Claims the device and opens its control socket. The error names the process that has claimed the device already. `readers`:
/// the group whose members may read, or an empty text.
pub fn listen(mode: &str, device: &str, readers: &str, watch: &Watch) -> Result<Control, Failure> {
    let readers = Readers::named(readers)?;
    let instance = Instance::claim(device)?;
    if readers.are_some() || peer::own_uid() != 0 {
        instance.let_others_through()?;
    }
    let path = instance.socket();
    let listener =
        varlink::bind(&path, readers).map_err(|source| ControlError::Socket { path, source })?;
    let status = Status::starting(mode, device);
    Ok(Control::start(
        listener,
        readers,
        status,
        Some(instance),
        watch,
    ))
}

impl Control {
    fn start(
        listener: UnixListener,
        readers: Readers,
        status: Status,
        instance: Option<Instance>,
        watch: &Watch,
    ) -> Control {
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let status = Arc::new(watch::Sender::new(status));
        let asker = Asker {
            ask,
            status: status.clone(),
        };
        let translator = Translator {
            asker: asker.clone(),
            status: status.clone(),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            turn: Arc::new(Semaphore::new(1)),
            long: Arc::new(Semaphore::new(1)),
        };
        Control {
            questions,
            asker,
            status,
            serving: Some(varlink::serve(listener, readers, translator, watch)),
            instance,
        }
    }

    /// A control socket without clients, for a program that can do without.
    pub fn none() -> Control {
        let (ask, questions) = mpsc::channel(1);
        let status = Arc::new(watch::Sender::new(Status::default()));
        Control {
            questions,
            asker: Asker {
                ask,
                status: status.clone(),
            },
            status,
            serving: None,
            instance: None,
        }
    }

    /// The handle for parts of the program that send requests themselves.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Publishes the program's condition to followers, if it has changed.
    pub fn publish(&self, now: Condition) {
        self.status.send_if_modified(|status| status.take(now));
    }

    /// Waits for the next request. A request whose client has disconnected is not carried out: the client has been told that
    /// there was no answer.
    ///
    /// The future may be dropped and called again; no request is lost.
    pub async fn next(&mut self) -> Question {
        loop {
            match self.questions.recv().await {
                Some(question) if question.asker.as_ref().is_some_and(peer::has_gone) => {
                    tracing::debug!("the client left before its answer: {:?}", question.request);
                }
                Some(question) => return question,
                None => pending().await,
            }
        }
    }

    /// Leaves the reason of a failure for processes that wait for the end of the program.
    pub fn publish_end(&self, end: &Result<(), Failure>) {
        if let (Some(instance), Err(failure)) = (&self.instance, end) {
            instance.leave_word(&failure.to_string());
        }
    }

    /// Accepts no more requests, and gives clients time to read their answers.
    pub async fn finish(&mut self) {
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        if let Some(serving) = &mut self.serving {
            serving.finish().await;
        }
    }
}

/// The service behind the socket.
#[derive(Clone)]
struct Translator {
    asker: Asker,
    status: Arc<watch::Sender<Status>>,
    followers: Arc<Semaphore>,
    /// Readers take turns: one request at a time.
    turn: Arc<Semaphore>,
    /// Only one long answer for readers is in memory at a time.
    long: Arc<Semaphore>,
}

impl Service for Translator {
    const INTERFACE: Interface = interface::INTERFACE;

    async fn call(&self, caller: Caller, call: Call, mut replies: Replies<'_>) -> io::Result<()> {
        let more = call.more;
        match interface::asked(call) {
            Err(refusal) => replies.refuse(&refusal).await,
            Ok(Asked::Follow) if !more => replies.refuse(&Refusal::expected_more()).await,
            Ok(Asked::Follow) => self.follow(caller, replies).await,
            Ok(Asked::Status) => {
                let status = self.status.borrow().clone();
                replies.send(&json!({ "status": status }), false).await
            }
            Ok(Asked::Once(request)) if caller.is_trusted() => {
                self.once(request, more, replies).await
            }
            Ok(Asked::Once(request)) if request.is_for_members() => {
                self.once_for_reader(request, replies).await
            }
            Ok(Asked::Once(_)) => replies.refuse(&Refusal::permission_denied()).await,
        }
    }
}

impl Translator {
    /// Replies now, and at each change until the caller disconnects or the program ends.
    async fn follow(&self, caller: Caller, mut replies: Replies<'_>) -> io::Result<()> {
        let _place = match caller.is_trusted() {
            // Other callers have few connections, and may use all of them to follow.
            false => None,
            true => match self.followers.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => {
                    let busy = interface::busy("too many clients follow this program already");
                    return replies.refuse(&busy).await;
                }
            },
        };
        let mut news = self.status.subscribe();
        loop {
            let status = news.borrow_and_update().clone();
            let reply = json!({ "status": status });
            replies.send(&reply, true).await?;
            tokio::select! {
                () = replies.over() => return Err(io::ErrorKind::ConnectionAborted.into()),
                changed = async { sleep(BREATH).await; news.changed().await } => {
                    changed.map_err(io::Error::other)?;
                }
            }
        }
    }

    async fn once(&self, request: Request, more: bool, mut replies: Replies<'_>) -> io::Result<()> {
        let answer = self.ask(request, &replies).await?;
        let answer = tokio::select! {
            biased;
            answer = answer => answer.map_err(|_| ended())?,
            () = replies.gone() => return Ok(()),
        };
        match &answer {
            Answer::Sessions(sessions) => parts(&mut replies, sessions, more).await,
            Answer::Bindings(bindings) => parts(&mut replies, bindings, more).await,
            answer => give(&mut replies, answer).await,
        }
    }

    /// Answers a reader. However many readers there are, root waits for one of their requests at most.
    async fn once_for_reader(&self, request: Request, mut replies: Replies<'_>) -> io::Result<()> {
        let _room = match request.is_long() {
            true => Some(self.long.acquire().await.map_err(|_| ended())?),
            false => None,
        };
        let turn = self.turn.acquire().await.map_err(|_| ended())?;
        let begin = Instant::now();
        // A reader that disconnects keeps its turn, because the program may be working on its request.
        let answer = self.ask(request, &replies).await?.await;
        sleep((begin.elapsed() * REST).min(REST_AT_MOST)).await;
        drop(turn);
        give(&mut replies, &answer.map_err(|_| ended())?).await
    }

    /// Sends a request to the program's loop.
    async fn ask(
        &self,
        request: Request,
        replies: &Replies<'_>,
    ) -> io::Result<oneshot::Receiver<Answer>> {
        let (to, answer) = oneshot::channel();
        let question = Question {
            request,
            to,
            asker: replies.asker()?,
            status: self.status.clone(),
        };
        self.asker.ask.send(question).await.map_err(|_| ended())?;
        Ok(answer)
    }
}

/// The error when the program accepts no more requests.
fn ended() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

async fn give(replies: &mut Replies<'_>, answer: &Answer) -> io::Result<()> {
    match interface::reply(answer) {
        Ok(reply) => replies.send(&reply, false).await,
        Err(refusal) => replies.refuse(&refusal).await,
    }
}

async fn parts<T: Serialize + Sync>(
    replies: &mut Replies<'_>,
    all: &Entries<T>,
    more: bool,
) -> io::Result<()> {
    let (entries, total) = (&all.entries[..], all.total);
    if !more {
        let entries = &entries[..entries.len().min(SOLE)];
        return replies.send(&EntriesPage { entries, total }, false).await;
    }
    // An empty answer is still one reply.
    let last = entries.len().div_ceil(PART).max(1) - 1;
    for at in 0..=last {
        let end = entries.len().min((at + 1) * PART);
        let entries = &entries[at * PART..end];
        replies
            .send(&EntriesPage { entries, total }, at < last)
            .await?;
    }
    if last > 0 {
        memory::give_back();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
