// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals that end the program or make it reload its configuration. A task receives them, so that long work can check for
//! them in between. Signals that have no meaning for a service are ignored: by default they would kill it, and forwarding would
//! stay switched on.
//!
//! SIGHUP has two meanings. From a service manager or an operator, it means "read your configuration again" (daemon(7)). From
//! the kernel, it means that the terminal in whose foreground the program ran is gone; then the program ends. The kernel
//! removes the terminal before it sends the signal, so the program can tell the two apart.

use std::fs::File;
use std::sync::Arc;

use diolkos_sys::signal::MEANINGLESS;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch::{channel, Receiver};
use tokio::sync::Notify;

use crate::error::ServiceError;
use crate::supervise::{Task, Watch};

/// The signals that the program handles.
pub struct Signals {
    came: Came,
    reload: Arc<Notify>,
    _hears: Vec<Task>,
}

/// Tells whether a signal that ends the program has arrived, for code that runs long.
#[derive(Clone)]
pub struct Came(Receiver<bool>);

impl Came {
    /// Returns true if one has arrived: the result of the work is no longer needed.
    pub fn already(&self) -> bool {
        *self.0.borrow()
    }
}

impl Signals {
    /// Catches the signals from now on.
    pub fn new(watch: &Watch) -> Result<Signals, ServiceError> {
        let on = |kind| signal(kind).map_err(ServiceError::Signals);
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
                Ok(())
            };
            hears.push(watch.task("a signal that is ignored", ignore));
        }
        let (tell, came) = channel(false);
        let reload = Arc::new(Notify::new());
        let had_terminal = has_terminal();
        let again = reload.clone();
        let hear = async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => break,
                    _ = terminate.recv() => break,
                    _ = hangup.recv() => {}
                }
                if had_terminal && !has_terminal() {
                    break;
                }
                again.notify_one();
            }
            tracing::debug!("a signal arrived");
            tell.send_replace(true);
            // Further signals change nothing, but the default action must not come back.
            std::future::pending().await
        };
        hears.push(watch.task("signals", hear));
        Ok(Signals {
            came: Came(came),
            reload,
            _hears: hears,
        })
    }

    /// Waits until the configuration is to be read again. Several requests at a time count as one.
    pub async fn reload(&self) {
        self.reload.notified().await;
    }

    /// Waits for a signal that ends the program.
    pub async fn any(&self) {
        if self.came.0.clone().wait_for(|came| *came).await.is_err() {
            // The task ends only with the runtime.
            std::future::pending::<()>().await;
        }
    }

    /// The check for code that runs long.
    pub fn came(&self) -> Came {
        self.came.clone()
    }
}

/// Returns true if the process has a controlling terminal now.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
