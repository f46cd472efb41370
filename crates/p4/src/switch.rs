// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running switch, as a router sees it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diolkos_figures::counters::Counter;
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;
use ipnet::Ipv6Net;

use crate::entry::Entry;
use crate::error::P4Error;
use crate::names::{COUNTS, TRANSLATED_4TO6, TRANSLATED_6TO4};
use crate::wanted::{Link, Wanted};
use crate::worker::{connect, Shared, Worker};

/// Time after which the log reports that a new binding waits for the switch to confirm the end of the old one. It goes on
/// waiting: the worker gives up a switch that does not answer, and empties one that is far behind.
const SETTLED: Duration = Duration::from_secs(8);

/// The switch, and the thread that writes its tables. The thread ends when this is dropped.
#[derive(Debug)]
pub struct Switch {
    pub(crate) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Switch {
    /// Empties the switch that serves the socket, if there is one, and begins to write its tables. `pairs` is the number of
    /// its port pairs, `most` the maximum number of sessions.
    ///
    /// # Errors
    ///
    /// A switch is there and does not answer: it may still have sessions of an earlier run, whose ports must not be used.
    pub fn start(path: &Path, pairs: u32, most: u32, watch: &Watch) -> Result<Switch, P4Error> {
        let found = match connect(path) {
            Err(broken) if !broken.is_absent() => {
                return Err(P4Error::NotEmptied {
                    path: path.to_owned(),
                    broken,
                })
            }
            found => found,
        };
        let shared = Arc::new(Shared::new(most));
        let beat = watch.beat("switch");
        let worker = Worker::new(shared.clone(), path.to_owned(), pairs, beat);
        let thread = watch
            .thread_with(privilege::SWITCH, "switch", move || worker.run(found))
            .map_err(P4Error::Thread)?;
        Ok(Switch {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Sets the prefixes and the rules of the configuration.
    pub fn set_base(&self, prefixes: &[Ipv6Net], rules: Vec<Entry>) {
        self.shared.lock().set_base(prefixes, rules);
        self.shared.work.notify_one();
    }

    /// Sets the rules of interfaces and routes.
    pub fn set_hops(&self, rules: Vec<Entry>) {
        self.shared.lock().set_hops(rules);
        self.shared.work.notify_one();
    }

    /// Returns true if the switch translates.
    pub fn is_up(&self) -> bool {
        self.shared.lock().link == Link::Up
    }

    /// Returns what is wrong with it, in a sentence; the log has it as well.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().troubles.now().map(str::to_owned)
    }

    /// Returns the counters, at most a second old. Those of earlier runs of the switch are included.
    pub fn counters(&self) -> Vec<Counter> {
        let wanted = self.shared.lock();
        let figures = wanted.figures.clone();
        let ours = [
            ("up", u64::from(wanted.link == Link::Up)),
            ("sessions", wanted.sessions() as u64),
            ("refused", figures.refused),
            ("connections", figures.connections),
            ("garbage", figures.garbage),
        ];
        drop(wanted);
        let names = COUNTS.into_iter().zip(figures.counts);
        let counter = |(name, packets): (&str, u64)| Counter {
            name: format!("p4.{name}"),
            packets,
            bytes: None,
        };
        names.chain(ours).map(counter).collect()
    }

    /// Returns the packets that the switch has translated: from IPv4, and from IPv6.
    pub fn translated(&self) -> [u64; 2] {
        let counts = self.shared.lock().figures.counts;
        [TRANSLATED_4TO6, TRANSLATED_6TO4].map(|at| counts[at])
    }

    /// Ends the thread. With `empties`, the switch then declines everything; otherwise it goes on with its entries.
    pub fn finish(&self, empties: bool) {
        self.shared.lock().ended.get_or_insert(empties);
        self.shared.work.notify_one();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }

    /// Waits until the switch has no entries of a port for another node.
    pub(crate) fn settled(&self, outer: crate::leaving::Outer, inner: crate::leaving::Inner) {
        let is_of_another = |wanted: &mut Wanted| wanted.leaving.is_of_another(outer, inner);
        let mut wanted = self.shared.lock();
        loop {
            wanted = wanted.wait_timeout_while(&self.shared.settled, SETTLED, is_of_another);
            if !is_of_another(&mut wanted) {
                return;
            }
            drop(wanted);
            tracing::warn!(
                "the switch does not confirm that a session has ended: new ones of its port wait"
            );
            wanted = self.shared.lock();
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.finish(true);
    }
}
