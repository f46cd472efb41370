// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals that end the program.

use tokio::signal::unix::{signal, Signal, SignalKind};

use crate::failure::Failure;

/// The signals that end the program.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on.
    pub fn new() -> Result<Signals, Failure> {
        let on =
            |kind| signal(kind).map_err(|e| Failure::run_time(format!("no signal handler: {e}")));
        Ok(Signals {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
