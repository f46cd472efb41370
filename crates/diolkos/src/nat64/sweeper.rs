// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time passes for sessions, too: a thread that has the controller end what has expired.

use std::io;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use diolkos_sys::tun::Queue;

use super::controller::Controller;
use crate::events::Events;
use crate::slowpath::{Clock, Outlet, Writer};
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(250);

/// The running thread. Dropped, it ends.
pub struct Sweeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Sends through `queue` what is to be said when a time is over.
    pub fn start(controller: Arc<Controller>, queue: Queue, watch: &Watch) -> io::Result<Sweeper> {
        let (stop, stopped) = channel();
        let beat = watch.beat("sweeper");
        // What begins here has no mark.
        let outlet = Arc::new(Outlet::new(queue, None));
        let sweep = move || {
            let (mut clock, mut events) = (Clock::new(), Events::default());
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let mut out = Writer::new(&outlet, &controller.tally, &mut events);
                controller.sweep(&mut clock, &mut out);
                beat.beat();
            }
            Ok(())
        };
        Ok(Sweeper {
            stop: Some(stop),
            thread: Some(watch.thread_with(privilege::TABLES, "sweeper", sweep)?),
        })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
