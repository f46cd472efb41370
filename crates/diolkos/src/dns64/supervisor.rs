// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks that somebody looks after: one that panics ends the program with its message, so that no port stays deaf and no
//! question is lost unnoticed.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::failure::Failure;

/// Starts tasks of the present `LocalSet`.
#[derive(Clone)]
pub struct Supervisor(mpsc::UnboundedSender<Failure>);

/// Where panics are told.
pub struct Panics(mpsc::UnboundedReceiver<Failure>);

impl Supervisor {
    /// A supervisor, and where it tells.
    pub fn new() -> (Supervisor, Panics) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Supervisor(sender), Panics(receiver))
    }

    /// Starts a task; `what` it is stands in the message.
    pub fn spawn(
        &self,
        what: &'static str,
        work: impl Future<Output = ()> + 'static,
    ) -> AbortHandle {
        let panics = self.0.clone();
        let watched = async move {
            // Whatever a panic leaves behind, nobody goes on with it.
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
                let failure = Failure::run_time(format!(
                    "the DNS64 ends: {what} panicked: {}",
                    message(&*panic)
                ));
                let _ = panics.send(failure);
            }
        };
        tokio::task::spawn_local(watched).abort_handle()
    }
}

impl Panics {
    /// Waits for the first one.
    pub async fn next(&mut self) -> Failure {
        match self.0.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[tokio::test]
    async fn a_panic_is_a_failure_of_the_program() {
        let tasks = tokio::task::LocalSet::new();
        let failure = tasks.run_until(async {
            let (supervisor, mut panics) = Supervisor::new();
            supervisor.spawn("a good task", async {});
            supervisor.spawn("a bad task", async {
                tokio::task::yield_now().await;
                panic!("it broke");
            });
            panics.next().await
        });
        let failure = failure.await;
        assert_eq!(failure.kind, Kind::RunTime);
        assert_eq!(
            failure.to_string(),
            "the DNS64 ends: a bad task panicked: it broke"
        );
    }
}
