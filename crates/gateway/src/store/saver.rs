// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the state: at the start, when the operator changes something, at intervals, and at the end.
//!
//! A kill loses what has happened since the last write, unless maps have it. Writing four million sessions takes some
//! seconds of one CPU, so the pauses grow with the duration: writing never takes more than a fiftieth of the time.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diolkos_nat64::session::{BindingView, Origin, SessionView};
use ipnet::Ipv6Net;
use tokio::sync::oneshot;

use super::super::controller::Controller;
use super::super::error::GatewayError;
use super::file::StateFile;
use super::format::{Head, StateWriter};
use super::moment::Moment;
use diolkos_service::error::ServiceError;
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;

/// Maximum interval between two attempts if the file cannot be written.
const RETRY: Duration = Duration::from_secs(60);
/// Minimum pause between two writes, as a multiple of the duration of a write.
const SHARE: u32 = 50;
/// Pause between two parts, in which packets pass: the controller's lock is not fair.
const BREATH: Duration = Duration::from_micros(100);
/// Maximum wait for a change to become durable. A disk may hang for ever.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time that the last write may take before the log says what the program waits for.
const SILENCE: Duration = Duration::from_secs(3);

/// Maximum number of reloads during one write.
const TRIES: u32 = 5;

/// The phase of the program in which the state is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Begin,
    Between,
    End,
}

/// The running thread. When this is dropped, the thread ends without another write.
pub struct StateSaver {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    /// The thread's report on the last write; there is none if the thread failed, or was not asked for a last write.
    done: Receiver<Result<(), GatewayError>>,
    path: PathBuf,
    failures: Arc<AtomicU64>,
    broken: Broken,
}

/// The reason why the file is older than it should be, if it is. The thread sets it, and others read it.
type Broken = Arc<Mutex<Option<String>>>;

/// A request to the thread.
enum Request {
    /// Write now. The requester is told the result of a write that began after the request.
    Write(Option<oneshot::Sender<Result<(), Arc<GatewayError>>>>),
    /// Write for the last time, and end.
    Finish,
}

/// The thread that writes, with what it needs.
struct SaverThread {
    file: StateFile,
    controller: Arc<Controller>,
    secret: [u64; 2],
    /// Interval between two writes.
    interval: Duration,
    broken: Broken,
    /// Number of failed writes.
    failures: Arc<AtomicU64>,
}

impl StateSaver {
    /// Writes the state, so that an error is known at once, and then starts the thread. With `has_past`, there is a
    /// state to continue from, and a file that cannot be written must not end the program.
    pub fn start(
        file: StateFile,
        controller: Arc<Controller>,
        secret: [u64; 2],
        interval: Duration,
        has_past: bool,
        watch: &Watch,
    ) -> Result<StateSaver, GatewayError> {
        let failures = Arc::new(AtomicU64::new(0));
        let path = file.path().to_owned();
        let mut writing = SaverThread {
            failures: failures.clone(),
            file,
            controller,
            secret,
            interval,
            broken: Broken::default(),
        };
        let broken = writing.broken.clone();
        match writing.write(When::Begin) {
            Err(failure) if has_past => {
                tracing::warn!(
                    "{failure}; sessions and bindings continue, but changes from now on do not survive a restart until the file can be written; retrying"
                );
                // After a kill, the file must not be taken for newer than what the kernel has.
                if let Err(failure) = writing.file.mark_outdated() {
                    tracing::warn!("{failure}");
                }
                writing.set_broken(Some(failure.to_string()));
            }
            written => written?,
        }
        let (requests, asked) = channel();
        let (tell, done) = channel();
        let thread = watch.thread_with(privilege::SAVER, "saver", move || {
            if let Some(written) = writing.keep(&asked) {
                let _ = tell.send(written);
            }
            Ok(())
        });
        let thread = thread.map_err(|source| ServiceError::Thread {
            purpose: "that writes the state file",
            source,
        })?;
        Ok(StateSaver {
            requests: Some(requests),
            thread: Some(thread),
            done,
            path,
            failures,
            broken,
        })
    }

    /// Requests a write after a change that no map has.
    pub fn write_soon(&self) {
        self.ask(Request::Write(None));
    }

    /// Returns the number of failed writes.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns why the file is older than it should be, if it is.
    pub fn broken(&self) -> Option<String> {
        let broken = self.broken.lock();
        broken.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the state written, and waits. On success, every change made before the call survives a power cut.
    pub fn write_now(&self) -> impl Future<Output = Result<(), GatewayError>> + Send + 'static {
        let (answer, told) = oneshot::channel();
        self.ask(Request::Write(Some(answer)));
        let path = self.path.clone();
        async move {
            match tokio::time::timeout(PATIENCE, told).await {
                Ok(Ok(written)) => written.map_err(GatewayError::Write),
                Ok(Err(_)) => Err(GatewayError::SaverEnded),
                Err(_) => Err(GatewayError::Slow {
                    path,
                    patience_s: PATIENCE.as_secs(),
                }),
            }
        }
    }

    fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }

    /// Writes the state for the last time. No packet may change the state any more.
    pub fn finish(self) -> Result<(), GatewayError> {
        self.ask(Request::Finish);
        let done = match self.done.recv_timeout(SILENCE) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    "the state file {} is still being written: the program ends once that is done",
                    self.path.display()
                );
                self.done.recv().ok()
            }
            done => done.ok(),
        };
        done.unwrap_or_else(|| Err(GatewayError::SaverFailed(self.path.clone())))
    }
}

impl Drop for StateSaver {
    fn drop(&mut self) {
        drop(self.requests.take());
        // The alarm has reported the cause of a panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl SaverThread {
    /// Runs until no requester is left, or until the last write, and then returns the result of that.
    fn keep(mut self, asked: &Receiver<Request>) -> Option<Result<(), GatewayError>> {
        let mut least = Duration::ZERO;
        loop {
            let pause = match self.is_broken() {
                true => self.interval.min(RETRY),
                false => self.interval,
            };
            let pause = pause.max(least);
            let first = match asked.recv_timeout(pause) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return None,
            };
            // One write serves all requests until now.
            let requests: Vec<_> = first.into_iter().chain(asked.try_iter()).collect();
            // Existing sessions are being used, which changes their remaining lifetimes.
            let changed = self.controller.take_changed() || self.controller.counts().sessions > 0;
            let is_gone = self.file.is_gone() && !self.is_broken();
            if is_gone {
                let path = self.file.path().display();
                tracing::warn!("the state file {path} was removed: writing it again");
            }
            if !changed && !is_gone && requests.is_empty() && !self.is_broken() {
                continue;
            }
            let is_last = requests.iter().any(|r| matches!(r, Request::Finish));
            let begun = Instant::now();
            let written = self.write(match is_last {
                true => When::End,
                false => When::Between,
            });
            let written = written.map_err(Arc::new);
            least = begun.elapsed() * SHARE;
            let was_broken = self.set_broken(written.as_ref().err().map(ToString::to_string));
            match &written {
                Ok(()) if was_broken => tracing::info!("the state is written again"),
                Ok(()) => {}
                Err(failure) => {
                    if !was_broken && !is_last {
                        tracing::warn!("{failure}; retrying");
                    }
                }
            }
            for request in requests {
                if let Request::Write(Some(answer)) = request {
                    // The requester may have gone.
                    let _ = answer.send(written.clone());
                }
            }
            if is_last {
                return Some(written.map_err(GatewayError::Write));
            }
        }
    }

    fn is_broken(&self) -> bool {
        let broken = self.broken.lock();
        broken.unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sets or clears the reason. Returns true if there was one before.
    fn set_broken(&self, why: Option<String>) -> bool {
        let broken = self.broken.lock();
        let mut broken = broken.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *broken, why).is_some()
    }

    fn write(&mut self, when: When) -> Result<(), GatewayError> {
        let written = self.try_write(when);
        if written.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    /// Writes the state. A reload in between may change the meaning of prefix numbers; then everything is written anew.
    fn try_write(&mut self, when: When) -> Result<(), GatewayError> {
        let mut tries = 0;
        loop {
            let mut changed = false;
            let (controller, secret) = (&self.controller, self.secret);
            let written = self.file.replace(|out| {
                let put = put(out, controller, secret, when);
                changed = matches!(&put, Err(error) if error.kind() == io::ErrorKind::Interrupted);
                put
            });
            tries += 1;
            if !changed || tries == TRIES {
                return written;
            }
        }
    }
}

fn put(
    out: &mut impl io::Write,
    controller: &Controller,
    secret: [u64; 2],
    when: When,
) -> io::Result<()> {
    let pref64 = controller.pref64();
    let begun = Instant::now();
    let breath = match when {
        When::Between => BREATH,
        // No packets wait at these times.
        When::Begin | When::End => Duration::ZERO,
    };
    // At the beginning, nothing is known beyond what has just been restored.
    let asks = when != When::Begin;
    let head = Head {
        moment: Moment::now(),
        clean: when == When::End,
        secret,
        pref64: pref64.clone(),
    };
    let mut writer = StateWriter::new(out, &head)?;
    walk(
        controller,
        &pref64,
        breath,
        Controller::bindings_from,
        |view: BindingView| match view.origin {
            Origin::Operator => writer.binding(&view.binding),
            // Nodes ask again when the epoch of PCP has begun again.
            Origin::Configured | Origin::Dynamic | Origin::Inherited | Origin::Pcp => Ok(()),
        },
    )?;
    walk(
        controller,
        &pref64,
        breath,
        |of, first| of.sessions_from(first, asks),
        |mut view: SessionView| {
            // The remaining lifetime as of the time in the head.
            view.remaining += begun.elapsed();
            writer.session(&view)
        },
    )?;
    writer.finish()
}

/// A part of the tables, and where to continue.
type TablePart<T> = (Vec<T>, Option<u32>);

/// Reads the tables in parts; packets pass in between.
fn walk<T>(
    controller: &Controller,
    pref64: &[Ipv6Net],
    breath: Duration,
    part: impl Fn(&Controller, u32) -> TablePart<T>,
    mut put: impl FnMut(T) -> io::Result<()>,
) -> io::Result<()> {
    let mut next = Some(0);
    while let Some(first) = next {
        let (there, after) = part(controller, first);
        // Prefix numbers are only valid with the list that they refer to.
        if controller.pref64() != pref64 {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the prefixes have changed meanwhile",
            ));
        }
        there.into_iter().try_for_each(&mut put)?;
        next = after;
        if !breath.is_zero() {
            std::thread::sleep(breath);
        }
    }
    Ok(())
}
