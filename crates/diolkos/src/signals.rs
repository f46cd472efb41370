// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals that end the program. A task hears them, so that work which takes long can ask in between. Signals that
//! tell a service nothing are ignored: by default they would kill it, and forwarding would stay switched on.

use diolkos_sys::signal::MEANINGLESS;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch::{channel, Receiver};
use tokio::task::AbortHandle;

use crate::failure::Failure;

/// The signals that the program hears.
pub struct Signals {
    came: Came,
    hears: Vec<AbortHandle>,
}

/// Whether one came. For whoever works long.
#[derive(Clone)]
pub struct Came(Receiver<bool>);

impl Came {
    /// One came: nobody waits for the result any more.
    pub fn already(&self) -> bool {
        *self.0.borrow()
    }
}

impl Signals {
    /// Catches them from now on.
    pub fn new() -> Result<Signals, Failure> {
        let on =
            |kind| signal(kind).map_err(|e| Failure::run_time(format!("no signal handler: {e}")));
        let mut interrupt = on(SignalKind::interrupt())?;
        let mut terminate = on(SignalKind::terminate())?;
        let mut hangup = on(SignalKind::hangup())?;
        let mut hears = Vec::new();
        for number in MEANINGLESS {
            let mut meaningless = on(SignalKind::from_raw(number))?;
            let ignore = async move {
                while meaningless.recv().await.is_some() {
                    tracing::debug!("signal {number} is ignored");
                }
            };
            hears.push(tokio::spawn(ignore).abort_handle());
        }
        let (tell, came) = channel(false);
        let hear = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            tracing::debug!("a signal has come");
            tell.send_replace(true);
            // Further ones change nothing, and the default action must not come back.
            std::future::pending::<()>().await;
        };
        hears.push(tokio::spawn(hear).abort_handle());
        Ok(Signals {
            came: Came(came),
            hears,
        })
    }

    /// Waits for one of them.
    pub async fn any(&mut self) {
        if self.came.0.wait_for(|came| *came).await.is_err() {
            // The task ends with the runtime only.
            std::future::pending::<()>().await;
        }
    }

    /// For whoever works long.
    pub fn came(&self) -> Came {
        self.came.clone()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for task in &self.hears {
            task.abort();
        }
    }
}
