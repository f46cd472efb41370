// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binding log (RFC 6888 section 4): which source had an address and port at which time.
//!
//! tables (under their lock, without waiting) → record → queue ─► writer ─► text, ipfix ─► sink
//!
//! Each collector has a bounded queue and a thread. Records that find no room are counted, and the log reports them at the
//! place where they are missing.
//!
//! The crate knows the records and the formats of collectors, but not the tables: the owners of the tables call
//! [`Recorders::record`], and provide a [`Lister`] for the existing entries.

mod error;
mod ipfix;
mod listing;
mod queue;
mod record;
mod sink;
mod text;
mod writer;

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::JoinHandle;

use diolkos_nat64::config::{Deterministic, Pool4};

use diolkos_config::{Collector, Destination, Settings};
use diolkos_figures::counters::Counter;
use diolkos_service::error::ServiceError;
use diolkos_service::privilege;
use diolkos_service::supervise::Watch;
pub use error::BindlogError;

pub use listing::ListPosition;
pub use queue::Queue;
pub use record::{EntryChange, Mapped, Record, What};
pub use writer::Lister;

use writer::{CollectorCounters, Writer};

/// The recorders of all collectors. The tables report each change to all of them.
#[derive(Clone, Debug, Default)]
pub struct Recorders {
    all: Arc<[Recorder]>,
}

#[derive(Debug)]
struct Recorder {
    queue: Arc<Queue>,
    sessions: bool,
}

impl Recorders {
    /// Returns true if a collector wants records of bindings.
    pub fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Returns true if a collector wants records of sessions.
    pub fn want_sessions(&self) -> bool {
        self.all.iter().any(|recorder| recorder.sessions)
    }

    /// Queues a record for each collector that wants it.
    pub fn record(&self, what: What) {
        let record = Record::now(what);
        for recorder in self.all.iter() {
            if recorder.sessions || !matches!(what, What::Session(..)) {
                recorder.queue.push(record);
            }
        }
    }
}

/// The threads of all collectors. Dropping this ends them as [`Logs::finish`] does.
#[derive(Default)]
pub struct Logs {
    running: Vec<Running>,
    instance: String,
    /// The division of ports among sources. When it changes, the existing entries have other records.
    division: Option<Division>,
}

/// Ports of a block and prefix length of a source; with fixed ports, also the settings on which their record depends.
type Division = (u16, u8, Option<(Deterministic, Vec<Pool4>, u16)>);

struct Running {
    collector: Collector,
    queue: Arc<Queue>,
    tally: Arc<CollectorCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Logs {
    /// No collectors yet.
    pub fn new() -> Logs {
        Logs::default()
    }

    /// Fails if a collector of the settings cannot be used at all. It changes nothing except that it creates files. `is_first`:
    /// this process has not logged anything yet.
    pub fn check(settings: &Settings, is_first: bool) -> Result<(), BindlogError> {
        let files = settings
            .log
            .bindings
            .iter()
            .filter(|c| c.to == Destination::File);
        for collector in files {
            let path = collector.path.clone().unwrap_or_default();
            sink::check_file(&path, is_first).map_err(|source| BindlogError::File {
                collector: collector.name().to_string(),
                path,
                source,
            })?;
        }
        Ok(())
    }

    /// Applies the settings: new collectors start, removed ones end, the others go on. `lister` makes the list of all existing
    /// entries for each new collector; its flag tells whether to include sessions. `record` makes the tables report to all
    /// collectors, before anything is listed.
    pub fn follow(
        &mut self,
        settings: &Settings,
        watch: &Watch,
        lister: impl Fn(bool) -> Lister,
        record: impl FnOnce(Recorders),
    ) -> Result<(), BindlogError> {
        let instance = settings.log_instance();
        let n = &settings.nat64;
        let fixed = n.deterministic.clone();
        let fixed = fixed.map(|fixed| (fixed, settings.pool4().to_vec(), n.max_blocks_per_source));
        let division = Some((n.ports_per_block, n.source_prefix_len, fixed));
        let is_same = (&self.instance, &self.division) == (&instance, &division);
        (self.instance, self.division) = (instance, division);
        let wanted = &settings.log.bindings;
        let (stay, gone) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|running| is_same && wanted.contains(&running.collector));
        self.running = stay;
        let mut writers = Vec::new();
        for collector in wanted {
            if !self.running.iter().any(|r| r.collector == *collector) {
                let lister = lister(collector.sessions);
                let (running, writer) = Running::new(collector, &self.instance, lister);
                self.running.push(running);
                writers.push(writer);
            }
        }
        record(self.recorders());
        // They deliver their remaining records by themselves.
        let gone: Vec<Running> = gone;
        gone.iter().for_each(Running::end);
        for writer in writers {
            let name = writer.name.clone();
            let work = move || {
                writer.run();
                Ok(())
            };
            let thread = watch
                .thread_with(privilege::LOG, format!("log {name}"), work)
                .map_err(|source| ServiceError::Thread {
                    purpose: "of a log of bindings",
                    source,
                })?;
            let mut running = self.running.iter_mut();
            if let Some(running) = running.find(|r| r.collector.name() == name) {
                running.thread = Some(thread);
            }
        }
        Ok(())
    }

    fn recorders(&self) -> Recorders {
        let all = self.running.iter().map(|running| Recorder {
            queue: running.queue.clone(),
            sessions: running.collector.sessions,
        });
        Recorders { all: all.collect() }
    }

    /// The queue of each collector, with the collector's name.
    pub fn queues(&self) -> Vec<(String, Arc<Queue>)> {
        let of = |running: &Running| (running.collector.name().to_owned(), running.queue.clone());
        self.running.iter().map(of).collect()
    }

    /// Delivers the waiting records, for a few seconds at most, and ends.
    pub fn finish(&mut self) {
        self.running.iter().for_each(Running::end);
        for mut running in self.running.drain(..) {
            if let Some(thread) = running.thread.take() {
                let _ = thread.join();
            }
        }
    }

    /// The collectors that accept no records now, with the reasons.
    pub fn away(&self) -> Vec<String> {
        let of = |running: &Running| {
            let why = running.tally.why_away()?;
            let name = running.collector.name();
            Some(format!(
                "log.bindings \"{name}\": the collector takes no records ({why}); retrying"
            ))
        };
        self.running.iter().filter_map(of).collect()
    }

    /// The counters of each collector's records.
    pub fn counters(&self) -> Vec<Counter> {
        let of = |running: &Running| {
            let name = running.collector.name().to_owned();
            let CollectorCounters {
                written,
                bounced,
                away,
                is_away: _,
            } = &*running.tally;
            let numbers = [
                ("written", written.load(Ordering::Relaxed)),
                (
                    "lost",
                    running.queue.lost() + bounced.load(Ordering::Relaxed),
                ),
                ("waiting", running.queue.waiting() as u64),
                ("away", away.load(Ordering::Relaxed)),
            ];
            numbers.map(|(what, packets)| Counter {
                name: format!("log.{name}.{what}"),
                packets,
                bytes: None,
            })
        };
        self.running.iter().flat_map(of).collect()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Running {
    fn new(collector: &Collector, instance: &str, lister: Lister) -> (Running, Writer) {
        let queue = Arc::new(Queue::new(collector.queue as usize));
        let tally = Arc::new(CollectorCounters::default());
        queue.push(Record::now(What::Started));
        let writer = Writer {
            name: collector.name().to_owned(),
            queue: queue.clone(),
            tally: tally.clone(),
            sink: sink::sink(collector, instance),
            lister,
        };
        let running = Running {
            collector: collector.clone(),
            queue,
            tally,
            thread: None,
        };
        (running, writer)
    }

    fn end(&self) {
        self.queue.push(Record::now(What::Stopped));
        self.queue.close();
    }
}
