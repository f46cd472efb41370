// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that has the controller take over what the fast path has opened by itself, when no packet gives the
//! controller a reason to do so.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use diolkos_sys::event::{Bell, Wake};

use super::controller::Controller;
use crate::error::GatewayError;
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;

/// Interval between two rounds: long enough to handle many openings at one wake-up, short enough that the ring buffer
/// does not fill.
const PAUSE: Duration = Duration::from_millis(1);

/// The running thread. It ends when this value is dropped.
pub struct Listener {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts the thread; None if there is no fast path to listen to.
    pub fn start(controller: Arc<Controller>, watch: &Watch) -> io::Result<Option<Listener>> {
        let Some(openings) = controller.openings()? else {
            return Ok(None);
        };
        let bell = Arc::new(Bell::new()?);
        let rung = bell.clone();
        let beat = watch.beat("listener");
        let listen = move || loop {
            beat.beat();
            match rung.wait_readable(openings.as_fd(), beat.every()) {
                Ok(Wake::Readable) => controller.settle(),
                Ok(Wake::Nothing) => continue,
                Ok(Wake::Bell) => return Ok(()),
                Err(error) => return Err(GatewayError::Openings(error).into()),
            }
            std::thread::sleep(PAUSE);
        };
        let thread = watch.thread_with(privilege::TABLES, "listener", listen)?;
        Ok(Some(Listener {
            bell,
            thread: Some(thread),
        }))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
