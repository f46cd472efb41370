// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread of one collector: queue → sink. It retries a collector that is away without end; meanwhile records wait in the
//! queue, which counts them when it is full.
//!
//! It also requests lists of the existing entries ([`super::listing`]), a few entries at a time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::listing::{ListPosition, Listing, IDLE};
use super::queue::{Queue, Taken};
use super::record::{Record, What};
use super::sink::Sink;
use diolkos_service::counted::{agreeing, counted};

/// Records that are read from the queue at once.
const BATCH: usize = 1024;
/// After the first record, the thread waits this long for further ones.
const GATHER: Duration = Duration::from_millis(20);
/// Time between two attempts to reach a collector that is away.
const AGAIN: Duration = Duration::from_secs(1);
/// Time between these attempts after the queue was closed.
const SOON: Duration = Duration::from_millis(100);
/// The longest time that the end of the program waits for a collector.
const FAREWELL: Duration = Duration::from_secs(3);
/// A list continues when the queue has this much room. No more than that is added under one hold of the lock.
pub const LIST_ROOM: usize = 2048;

/// Adds records of existing entries to a queue, from a position on, and returns the next position. It may hold the lock of the
/// tables, but not while it waits for a collector. Returns `None` if the tables are gone.
pub type Lister = Box<dyn FnMut(ListPosition, &Queue) -> Option<ListPosition> + Send>;

/// The counters of a collector's records.
#[derive(Default, Debug)]
pub struct CollectorCounters {
    /// Records of entries that the collector, or the kernel on the way to it, has accepted.
    pub written: AtomicU64,
    /// Records that are known to be lost on the way.
    pub bounced: AtomicU64,
    /// How often the collector was found away.
    pub away: AtomicU64,
    /// The reason why it accepts no records now; `None` if it accepts them.
    pub is_away: Mutex<Option<String>>,
}

impl CollectorCounters {
    /// The reason why the collector accepts no records now; `None` if it accepts them.
    pub fn why_away(&self) -> Option<String> {
        let why = self.is_away.lock();
        why.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_away(&self, why: Option<String>) {
        *self.is_away.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// The state of the thread.
pub struct Writer {
    pub name: String,
    pub queue: Arc<Queue>,
    pub tally: Arc<CollectorCounters>,
    pub sink: Box<dyn Sink>,
    pub lister: Lister,
}

impl Writer {
    /// Works until the queue is closed and empty, or the collector stays away for too long after that.
    pub fn run(mut self) {
        let mut batch: Vec<Record> = Vec::new();
        let mut done = 0;
        let (mut is_open, mut is_away) = (false, false);
        let mut farewell: Option<Instant> = None;
        let mut listing = Listing::new(Instant::now());
        loop {
            if farewell.is_none() && self.queue.is_closed() {
                farewell = Some(Instant::now() + FAREWELL);
            }
            if done == batch.len() {
                batch.clear();
                done = 0;
                let wait = self.list(&mut listing);
                if self.queue.take(BATCH, &mut batch, wait) == Taken::Closed {
                    return;
                }
                if batch.len() < BATCH && !batch.is_empty() && !self.queue.is_closed() {
                    self.queue.rest(GATHER);
                    let more = BATCH - batch.len();
                    self.queue.take(more, &mut batch, Duration::ZERO);
                }
                continue;
            }
            let sent = match is_open {
                true => self.sink.send(&batch[done..]),
                false => self.sink.open().map(|()| {
                    is_open = true;
                    0
                }),
            };
            match sent {
                Ok(0) => {}
                Ok(count) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!("log.bindings \"{}\": the collector is back", self.name);
                        self.tally.set_away(None);
                    }
                    self.note_written(&batch[done..done + count], &mut listing);
                    done += count;
                }
                Err(error) => {
                    is_open = false;
                    self.note_away(&error, std::mem::replace(&mut is_away, true));
                    self.note_bounced(&mut batch, done);
                    if farewell.is_some_and(|until| Instant::now() >= until) {
                        return self.give_up(&batch[done..]);
                    }
                    match farewell {
                        Some(_) => std::thread::sleep(SOON),
                        None => self.queue.rest(AGAIN),
                    }
                }
            }
        }
    }

    /// Continues a list if there is room for it. Returns the time to wait for a record.
    fn list(&mut self, listing: &mut Listing) -> Duration {
        let now = Instant::now();
        let Some(place) = listing.due(now) else {
            return listing.wait(now);
        };
        if self.queue.is_closed() || self.queue.room() < LIST_ROOM {
            return IDLE;
        }
        let next = (self.lister)(place, &self.queue);
        if let Some(bindings) = listing.note(next, now) {
            self.queue.push(Record::now(What::Listed(bindings)));
        }
        Duration::ZERO
    }

    fn note_written(&self, records: &[Record], listing: &mut Listing) {
        let entries = records.iter().filter(|r| r.is_of_entry());
        let written = &self.tally.written;
        written.fetch_add(entries.count() as u64, Ordering::Relaxed);
        for record in records {
            let What::Lost(count, _) = record.what else {
                continue;
            };
            tracing::warn!(
                "log.bindings \"{}\": {} {} missing: listing all bindings in force again",
                self.name,
                counted(count, "record"),
                agreeing(count, "is", "are")
            );
            listing.note_lost(Instant::now());
        }
    }

    fn note_away(&self, error: &io::Error, is_known: bool) {
        self.tally.set_away(Some(error.to_string()));
        if is_known {
            return;
        }
        self.tally.away.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            "log.bindings \"{}\": the collector takes no records: {error}; up to {} are queued, more are dropped and counted as \
             log.{}.lost",
            self.name,
            self.queue.most(),
            self.name
        );
    }

    /// Records the loss of undelivered records before the records that follow.
    fn note_bounced(&mut self, batch: &mut Vec<Record>, done: usize) {
        let bounced = self.sink.take_bounced();
        if bounced == 0 {
            return;
        }
        self.tally.bounced.fetch_add(bounced, Ordering::Relaxed);
        self.tally.written.fetch_sub(bounced, Ordering::Relaxed);
        let at = batch.get(done).map_or(0, |next| next.at);
        let what = What::Lost(bounced, at);
        batch.insert(done, Record { at, what });
    }

    fn give_up(&self, rest: &[Record]) {
        let mut left = rest.to_vec();
        self.queue.take(usize::MAX, &mut left, Duration::ZERO);
        let missing: u64 = left
            .iter()
            .map(|record| match record.what {
                What::Lost(count, _) => count,
                _ => u64::from(record.is_of_entry()),
            })
            .sum();
        if missing == 0 {
            return;
        }
        tracing::error!(
            "log.bindings \"{}\": {} {} not written before the end",
            self.name,
            counted(missing, "record"),
            agreeing(missing, "was", "were")
        );
    }
}
