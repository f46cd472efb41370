// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals that end the program or have it read its configuration again. A task hears them, so that work which takes
//! long can ask in between. Signals that tell a service nothing are ignored: by default they would kill it, and forwarding
//! would stay switched on.
//!
//! SIGHUP has two meanings. Sent by a service manager or an operator, it means "read your configuration again" (daemon(7));
//! sent by the kernel, the terminal is gone in whose foreground the program ran, and the program ends. The kernel takes the
//! terminal away before it sends the signal, which tells the two apart.

use std::fs::File;
use std::sync::Arc;

use diolkos_sys::signal::MEANINGLESS;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch::{channel, Receiver};
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::supervise::{Task, Watch};

/// The signals that the program hears.
pub struct Signals {
    came: Came,
    reload: Arc<Notify>,
    _hears: Vec<Task>,
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
    pub fn new(watch: &Watch) -> Result<Signals, Failure> {
        let on = |kind| {
            signal(kind)
                .map_err(|e| Failure::run_time(format!("cannot install a signal handler: {e}")))
        };
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
            // Further ones change nothing, and the default action must not come back.
            std::future::pending().await
        };
        hears.push(watch.task("signals", hear));
        Ok(Signals {
            came: Came(came),
            reload,
            _hears: hears,
        })
    }

    /// Waits until the configuration is to be read again. Several wishes at a time are one.
    pub async fn reload(&self) {
        self.reload.notified().await;
    }

    /// Waits for one that ends the program.
    pub async fn any(&self) {
        if self.came.0.clone().wait_for(|came| *came).await.is_err() {
            // The task ends with the runtime only.
            std::future::pending::<()>().await;
        }
    }

    /// For whoever works long.
    pub fn came(&self) -> Came {
        self.came.clone()
    }
}

/// Has the kernel end this process, by this signal, with the one that has started it.
pub fn end_with(parent: u32, signal: Signal) -> Result<(), Failure> {
    let failed =
        |error| Failure::run_time(format!("cannot be ended with process {parent}: {error}"));
    prctl::set_pdeathsig(signal).map_err(failed)?;
    // It may have ended before.
    match u32::try_from(getppid().as_raw()) == Ok(parent) {
        true => Ok(()),
        false => Err(Failure::run_time(format!(
            "process {parent}, which started this one, has ended"
        ))),
    }
}

/// Whether the process belongs to a terminal now.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
