// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The side that answers. A task of its own accepts, another one for each connection reads and writes: who asks slowly
//! holds up neither the program nor others who ask. The program only sees whole requests, one after the other.

use std::fs::{self, Permissions};
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diolkos_sys::{memory, peer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{is_trusted, Answer, Request, END, PATIENCE};
use crate::failure::Failure;
use crate::instance::Instance;

/// How many are served at once; others wait in the kernel's queue.
const CONNECTIONS: usize = 16;
/// The longest request, bytes.
const LONGEST: u64 = 64 << 10;
/// How long whoever asked may take to read a long answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// An answer of a hundred thousand sessions takes tens of megabytes, several times over, bytes.
const LARGE: usize = 1 << 20;
/// Before the next try to accept, where there are no descriptors left, say.
const PAUSE: Duration = Duration::from_millis(100);

/// The control socket of the one instance for a device. Dropped, it is gone, and another one can take its place.
#[derive(Debug)]
pub struct Control {
    questions: mpsc::Receiver<Question>,
    accepting: JoinHandle<()>,
    places: Arc<Semaphore>,
    instance: Option<Instance>,
}

/// A request, and whoever waits for the answer.
#[derive(Debug)]
pub struct Question {
    /// What is asked.
    pub request: Request,
    to: oneshot::Sender<Answer>,
    asker: OwnedFd,
}

impl Question {
    /// Answers it.
    pub fn answer(self, answer: Answer) {
        // Who has gone meanwhile does not read it.
        let _ = self.to.send(answer);
    }
}

/// Becomes the instance for a device. The error names the one that is it already.
pub fn listen(device: &str) -> Result<Control, Failure> {
    let instance = Instance::claim(device)?;
    let listener = bind(&instance.socket()).map_err(|e| {
        Failure::run_time(format!(
            "no control socket at {}: {e}",
            instance.socket().display()
        ))
    })?;
    Ok(Control::start(listener, Some(instance)))
}

/// What is in its place is left over: who holds the lock is the only one who binds it.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = StdListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

impl Control {
    fn start(listener: UnixListener, instance: Option<Instance>) -> Control {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let (ask, questions) = mpsc::channel(CONNECTIONS);
        Control {
            questions,
            accepting: tokio::spawn(accept(listener, ask, places.clone())),
            places,
            instance,
        }
    }

    /// One that nobody asks, for a program that can do without.
    pub fn none() -> Control {
        let (_, questions) = mpsc::channel(1);
        Control {
            questions,
            accepting: tokio::spawn(async {}),
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            instance: None,
        }
    }

    /// The next question. One whose asker has gone is not carried out: he has been told that there was no answer.
    ///
    /// It may be dropped and called again; no question is lost by that.
    pub async fn next(&mut self) -> Question {
        loop {
            match self.questions.recv().await {
                Some(question) if peer::has_gone(&question.asker) => {
                    tracing::debug!("the client left before its answer: {:?}", question.request);
                }
                Some(question) => return question,
                None => pending().await,
            }
        }
    }

    /// Tells those who wait for the end how it was, if it was not a good one.
    pub fn tell_end(&self, end: &Result<(), Failure>) {
        if let (Some(instance), Err(failure)) = (&self.instance, end) {
            instance.leave_word(&failure.to_string());
        }
    }

    /// Takes no more questions, and lets those read their answers who have some.
    pub async fn finish(&mut self) {
        self.accepting.abort();
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        let all = self.places.acquire_many(CONNECTIONS as u32);
        let _ = timeout(PATIENCE, all).await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: UnixListener, ask: mpsc::Sender<Question>, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let ask = ask.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, ask).await {
                        tracing::debug!("a control request failed: {error}");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("the control socket cannot accept connections: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one connection, of root or our own user.
async fn serve(stream: UnixStream, ask: mpsc::Sender<Question>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let answer = match is_trusted(peer::of(stream.get_ref())?.uid) {
        false => Some(Answer::Failed(
            "a running diolkos answers only root and its own user".to_owned(),
        )),
        true => match timeout(PATIENCE, read(&mut stream)).await?? {
            Ok(request) => answered(&mut stream, request, ask).await?,
            Err(why) => Some(Answer::Failed(why)),
        },
    };
    let Some(answer) = answer else { return Ok(()) };
    let mut text = serde_json::to_vec(&answer)?;
    drop(answer);
    text.push(END);
    let was_large = text.len() > LARGE;
    let written = timeout(WRITE_PATIENCE, stream.write_all(&text)).await;
    drop(text);
    if was_large {
        memory::give_back();
    }
    written?
}

/// A whole request, or what is wrong with it.
async fn read(stream: &mut BufReader<UnixStream>) -> io::Result<Result<Request, String>> {
    let mut text = Vec::new();
    let read = stream.take(LONGEST).read_until(END, &mut text).await?;
    if text.last() != Some(&END) {
        return match read as u64 == LONGEST {
            true => Ok(Err(format!("a request has {LONGEST} bytes at most"))),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        };
    }
    Ok(serde_json::from_slice(&text).map_err(|e| format!("not understood: {e}")))
}

/// What the program answers; `None` if it ends, or if whoever asked has gone.
async fn answered(
    stream: &mut BufReader<UnixStream>,
    request: Request,
    ask: mpsc::Sender<Question>,
) -> io::Result<Option<Answer>> {
    let (to, answer) = oneshot::channel();
    let asker = stream.get_ref().as_fd().try_clone_to_owned()?;
    let question = Question { request, to, asker };
    if ask.send(question).await.is_err() {
        return Ok(None);
    }
    tokio::select! {
        answer = answer => Ok(answer.ok()),
        // Nothing more is expected of whoever asked: what comes is the end, or nonsense.
        _ = stream.read_u8() => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Stand {
        path: PathBuf,
        control: Control,
    }

    impl Stand {
        fn new(name: &str) -> Stand {
            let file = format!("diolkos-serve-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(file);
            // Something is left over.
            drop(StdListener::bind(&path).expect("it is free"));
            let listener = bind(&path).expect("it is replaced");
            let control = Control::start(listener, None);
            Stand { path, control }
        }

        async fn connect(&self) -> BufReader<UnixStream> {
            BufReader::new(UnixStream::connect(&self.path).await.expect("it listens"))
        }

        async fn asker(&self, request: &[u8]) -> BufReader<UnixStream> {
            let mut stream = self.connect().await;
            stream.write_all(request).await.expect("it is taken");
            stream
        }
    }

    impl Drop for Stand {
        fn drop(&mut self) {
            fs::remove_file(&self.path).expect("it is there");
        }
    }

    async fn line(stream: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        let _ = stream.read_line(&mut line).await;
        line
    }

    #[tokio::test]
    async fn who_asks_slowly_holds_up_nobody() {
        let mut stand = Stand::new("slow");
        let mut slow = stand.asker(b"\"hel").await;
        let mut quick = stand.asker(b"\"prefix\"\n").await;
        let question = stand.control.next().await;
        assert_eq!(question.request, Request::Prefix);
        question.answer(Answer::Done);
        assert_eq!(line(&mut quick).await, "\"done\"\n");
        slow.write_all(b"lo\"\n").await.expect("it is taken");
        let question = stand.control.next().await;
        assert_eq!(question.request, Request::Hello);
        question.answer(Answer::Hello { pid: 1 });
        assert_eq!(line(&mut slow).await, "{\"hello\":{\"pid\":1}}\n");
    }

    #[tokio::test]
    async fn who_does_not_read_holds_up_nobody() {
        let mut stand = Stand::new("deaf");
        let _deaf = stand.asker(b"\"config\"\n").await;
        let long = "x".repeat(16 << 20);
        stand.control.next().await.answer(Answer::Config(long));
        let mut other = stand.asker(b"\"hello\"\n").await;
        stand.control.next().await.answer(Answer::Done);
        assert_eq!(line(&mut other).await, "\"done\"\n");
        // One place is that of the next one who comes, another one still that of the first.
        assert!(stand.control.places.available_permits() <= CONNECTIONS - 2);
    }

    #[tokio::test]
    async fn a_request_whose_asker_has_gone_is_not_carried_out() {
        let mut stand = Stand::new("gone");
        drop(stand.asker(b"\"stop\"\n").await);
        let mut stays = stand.asker(b"\"hello\"\n").await;
        let question = stand.control.next().await;
        assert_eq!(question.request, Request::Hello);
        question.answer(Answer::Done);
        assert_eq!(line(&mut stays).await, "\"done\"\n");
    }

    #[tokio::test]
    async fn a_request_that_waits_in_line_is_not_carried_out_either() {
        let mut stand = Stand::new("waiting");
        let goes = stand.asker(b"\"stop\"\n").await;
        // It is in line, as when the program is busy with another one.
        while stand.control.questions.is_empty() {
            tokio::task::yield_now().await;
        }
        drop(goes);
        let _stays = stand.asker(b"\"hello\"\n").await;
        assert_eq!(stand.control.next().await.request, Request::Hello);
    }

    #[tokio::test]
    async fn a_request_has_a_greatest_length() {
        let stand = Stand::new("long");
        let mut asker = stand.connect().await;
        let endless = vec![b'x'; LONGEST as usize];
        asker.write_all(&endless).await.expect("it is taken");
        assert!(line(&mut asker).await.contains("65536 bytes at most"));
        assert!(stand.control.questions.is_empty());
    }

    #[tokio::test]
    async fn nonsense_is_answered() {
        let stand = Stand::new("nonsense");
        let mut asker = stand.asker(b"{\"stop\":1}\n").await;
        assert!(line(&mut asker).await.contains("not understood"));
    }

    #[tokio::test]
    async fn connections_are_bounded_and_end() {
        let mut stand = Stand::new("many");
        // They say nothing, and one of them waits in the kernel's queue.
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS + 1 {
            silent.push(stand.connect().await);
        }
        while stand.control.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let mut last = stand.asker(b"\"hello\"\n").await;
        drop(silent);
        stand.control.next().await.answer(Answer::Done);
        assert_eq!(line(&mut last).await, "\"done\"\n");
    }

    #[tokio::test]
    async fn the_last_answer_is_read_before_the_end() {
        let mut stand = Stand::new("last");
        let mut asker = stand.asker(b"\"stop\"\n").await;
        stand.control.next().await.answer(Answer::Done);
        stand.control.finish().await;
        assert_eq!(line(&mut asker).await, "\"done\"\n");
    }
}
