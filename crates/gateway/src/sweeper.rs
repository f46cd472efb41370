// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that has the controller end expired sessions.

use std::io;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use diolkos_sys::tun::Queue;

use super::controller::Controller;
use diolkos_datapath::events::Events;
use diolkos_datapath::slowpath::{Clock, Outlet, Writer};
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;

/// Interval between two rounds.
const PAUSE: Duration = Duration::from_millis(250);

/// The running thread. It ends when this value is dropped.
pub struct Sweeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Starts the thread. Packets that an expiry requires are sent through `queue`.
    pub fn start(controller: Arc<Controller>, queue: Queue, watch: &Watch) -> io::Result<Sweeper> {
        let (stop, stopped) = channel();
        let beat = watch.beat("sweeper");
        // Packets that originate here have no mark.
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
