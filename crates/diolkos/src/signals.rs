// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals that end the program. A task hears them, so that work which takes long can ask in between.

use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch::{channel, Receiver};
use tokio::task::AbortHandle;

use crate::failure::Failure;

/// The signals that end the program.
pub struct Signals {
    came: Came,
    hears: AbortHandle,
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
        Ok(Signals {
            came: Came(came),
            hears: tokio::spawn(hear).abort_handle(),
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
        self.hears.abort();
    }
}
