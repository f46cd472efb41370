// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Supervision: every thread and task of a running service is watched, and one that panics or fails ends the program.
//!
//! thread, task → [`Watch`] → [`Alarm`] → the service loop, which cleans up and ends with exit code 1. If a part could die
//! alone, a port would have no server, or the entries of a table would not expire.

use std::any::Any;
use std::future::Future;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread::{Builder, JoinHandle};

use diolkos_sys::signal::leave_to_others;
use futures_util::FutureExt;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;

use crate::error::ServiceError;
use crate::failure::Failure;
use crate::manager::Manager;
use crate::privilege::{self, Role};
use crate::watchdog::{Heartbeat, Watchdog};

/// Starts supervised threads and tasks. All clones report to the same [`Alarm`].
#[derive(Clone)]
pub struct Watch {
    tell: UnboundedSender<Failure>,
    watchdog: Watchdog,
}

/// Reports that a supervised thread or task has panicked or failed.
pub struct Alarm(UnboundedReceiver<Failure>);

/// The supervision that a service runs under.
pub struct Supervision {
    /// Starts supervised threads and tasks.
    pub watch: Watch,
    /// Reports their failures.
    pub alarm: Alarm,
    /// Receives the state of the service.
    pub manager: Manager,
}

/// A supervised task. It is aborted when this is dropped.
#[derive(Debug)]
pub struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A watch and its alarm, without a watchdog for heartbeats.
pub fn pair() -> (Watch, Alarm) {
    pair_with(Watchdog::default())
}

/// A watch and its alarm, with this watchdog for heartbeats.
pub fn pair_with(watchdog: Watchdog) -> (Watch, Alarm) {
    let (tell, hear) = unbounded_channel();
    (Watch { tell, watchdog }, Alarm(hear))
}

impl Watch {
    /// The heartbeat of a loop that begins.
    pub fn beat(&self, name: impl Into<String>) -> Heartbeat {
        self.watchdog.beat(name)
    }

    /// The watchdog of all its loops.
    pub fn watchdog(&self) -> Watchdog {
        self.watchdog.clone()
    }

    /// Starts a thread. It may end with `Ok`; a panic or an error raises the alarm.
    pub fn thread(
        &self,
        name: impl Into<String>,
        work: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (name, tell) = (name.into(), self.tell.clone());
        Builder::new().name(name.clone()).spawn(move || {
            let done = guarded(&format!("the thread `{name}`"), work);
            // Without a receiver, the program is ending already.
            let _ = done.map_err(|failure| tell.send(failure));
        })
    }

    /// Starts a thread that keeps only the capabilities and system calls of this role. The kernel may deliver a signal of the
    /// process to any thread that does not block it, and the handler wakes the tasks by a system call. If the thread's filter
    /// refused that call, the signal would be lost, so confined threads block signals.
    pub fn thread_with(
        &self,
        role: Role,
        name: impl Into<String>,
        work: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        self.thread(name, move || {
            leave_to_others().map_err(ServiceError::SignalMask)?;
            privilege::keep(role)?;
            work()
        })
    }

    /// Starts a task on the runtime's worker. It may end with `Ok`; a panic or an error raises the alarm.
    pub fn task(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) -> Task {
        Task(tokio::spawn(self.watched(name, work)).abort_handle())
    }

    /// Starts a task that ends by itself and is never aborted.
    pub fn short_task(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let work = async move {
            work.await;
            Ok(())
        };
        tokio::spawn(self.watched(name, work));
    }

    /// The heartbeat of the runtime's worker, which runs the tasks.
    pub fn worker(&self) -> Option<Task> {
        let beat = self.beat("the tasks' worker");
        beat.every()?;
        Some(self.task("heartbeat", async move {
            loop {
                beat.due().await;
                beat.beat();
            }
        }))
    }

    fn watched(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let tell = self.tell.clone();
        async move {
            let done = AssertUnwindSafe(work).catch_unwind().await;
            let done = done.unwrap_or_else(|payload| {
                Err(panicked(&format!("the task `{name}`"), payload.as_ref()))
            });
            let _ = done.map_err(|failure| tell.send(failure));
        }
    }

    /// Starts a task in the current `LocalSet`; a panic raises the alarm. `what` names the task in the message. The task runs
    /// until it ends by itself or is aborted.
    pub fn local(
        &self,
        what: &'static str,
        work: impl Future<Output = ()> + 'static,
    ) -> AbortHandle {
        let tell = self.tell.clone();
        let watched = async move {
            if let Err(payload) = AssertUnwindSafe(work).catch_unwind().await {
                let _ = tell.send(panicked(what, payload.as_ref()));
            }
        };
        tokio::task::spawn_local(watched).abort_handle()
    }
}

impl Alarm {
    /// Waits until a supervised thread or task has panicked or failed.
    pub async fn rung(&mut self) -> Failure {
        match self.0.recv().await {
            Some(failure) => failure,
            // No supervised thread or task is left.
            None => std::future::pending().await,
        }
    }
}

/// Runs `work` on this thread, and turns a panic into a failure, so that the exit code is right.
pub fn guarded<T>(who: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // The state that the work changed is not used afterwards; a lock that it held stays poisoned.
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(panicked(who, payload.as_ref())))
}

fn panicked(who: &str, payload: &(dyn Any + Send)) -> Failure {
    let said = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gave no reason".to_owned());
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    ServiceError::Panic {
        who: who.to_owned(),
        said,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{SigSet, Signal};

    use super::*;
    use crate::failure::Exit;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime")
    }

    #[test]
    fn a_thread_that_panics_rings_the_alarm() {
        let (watch, mut alarm) = pair();
        let thread = watch
            .thread("sweeper", || panic!("the wheel\nis broken"))
            .expect("a thread");
        let failure = runtime().block_on(alarm.rung());
        assert_eq!(failure.exit(), Exit::RunTime);
        assert!(failure
            .to_string()
            .starts_with("the thread `sweeper` panicked: the wheel is broken: "));
        thread.join().expect("the panic stays inside");
    }

    #[test]
    fn a_task_that_panics_or_fails_rings_the_alarm() {
        let runtime = runtime();
        let (watch, mut alarm) = pair();
        let failures = runtime.block_on(async {
            let number = 7;
            let _panics = watch.task("netlink", async move { panic!("message {number}") });
            let first = alarm.rung().await;
            let _fails = watch.task("netlink", async {
                Err(ServiceError::Name("x".to_owned()).into())
            });
            [first, alarm.rung().await].map(|failure| failure.to_string())
        });
        assert!(failures[0].starts_with("the task `netlink` panicked: message 7: "));
        assert!(failures[1].starts_with("`x` is not a name"));
    }

    #[test]
    fn a_local_task_that_panics_rings_the_alarm() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let tasks = tokio::task::LocalSet::new();
        let failure = tasks.block_on(&runtime, async {
            let (watch, mut alarm) = pair();
            watch.local("a good task", async {});
            watch.local("a bad task", async {
                tokio::task::yield_now().await;
                panic!("it broke");
            });
            alarm.rung().await
        });
        assert_eq!(failure.exit(), Exit::RunTime);
        assert!(failure
            .to_string()
            .starts_with("a bad task panicked: it broke: "));
    }

    #[test]
    fn what_ends_as_it_should_rings_nothing() {
        let (watch, mut alarm) = pair();
        let thread = watch.thread("reader", || Ok(())).expect("a thread");
        thread.join().expect("it ended");
        assert!(alarm.rung().now_or_never().is_none());
    }

    /// A signal handler that runs in a confined thread could not wake the task that waits for the signal.
    #[test]
    fn a_confined_thread_handles_no_signal() {
        let (watch, mut alarm) = pair();
        let (tell, hear) = std::sync::mpsc::channel();
        let work = move || {
            let _ = tell.send(SigSet::thread_get_mask());
            Ok(())
        };
        let thread = watch.thread_with(privilege::WATCHDOG, "reader", work);
        thread.expect("a thread").join().expect("it ended");
        assert!(alarm.rung().now_or_never().is_none());
        let blocked = hear.recv().expect("it ran").expect("a mask");
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1] {
            assert!(blocked.contains(signal), "{signal}");
        }
        assert!(!blocked.contains(Signal::SIGSEGV));
    }

    #[test]
    fn a_panic_of_the_loop_itself_is_a_failure_with_a_promised_exit_code() {
        let done: Result<(), Failure> = guarded("the service", || panic!("at the worst moment"));
        let failure = done.expect_err("it panicked");
        assert_eq!(failure.exit() as u8, 1);
        assert!(failure.to_string().contains("at the worst moment"));
    }
}
