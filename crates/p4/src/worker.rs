// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that writes the tables of the switch:
//!
//! connect → identify it → empty it → rules → sessions ↔ changes; every second: used sessions, counters
//!
//! After any fault it begins again. It writes all rules or leaves the switch off: with a part of the rules, the switch could
//! send a packet the wrong way.
//!
//! It logs only while it does not hold `Wanted`: threads that translate wait for that, and a log may be a full pipe.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, PoisonError};
use std::time::{Duration, Instant};

use diolkos_service::failure::Failure;
use diolkos_service::ordered::{Guard, Ordered, Rank};
use diolkos_service::watchdog::Heartbeat;
use diolkos_sys::clock;

use crate::connection::{Broken, Connection};
use crate::entry::{settings_off, Entry, EntryKey};
use crate::names::COUNTS;
use crate::outcome::{carry_out, failure, Outcome, TOGETHER};
use crate::said::Said;
use crate::wanted::{Link, Wanted};
use crate::wire::{Garbage, Op, Request, Status, MOST_USED, RECORDS};

/// Interval between two readings of the counters and of the use of sessions.
const READING: Duration = Duration::from_secs(1);
/// Interval between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(250);

/// The wanted entries, and the conditions for which threads wait.
#[derive(Debug)]
pub struct Shared {
    wanted: Ordered<Wanted>,
    /// The worker has something to do.
    pub work: Condvar,
    /// Removals are confirmed, or the switch is gone.
    pub settled: Condvar,
}

impl Shared {
    /// Wants no entries yet.
    pub fn new(most: u32) -> Shared {
        Shared {
            wanted: Ordered::new(Rank::Wanted, Wanted::new(most)),
            work: Condvar::new(),
            settled: Condvar::new(),
        }
    }

    /// Locks it. A thread that panicked here has ended the program.
    pub fn lock(&self) -> Guard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A switch that has been emptied.
#[derive(Debug)]
pub struct Empty {
    connection: Connection,
    boot: u64,
    pairs: u32,
    slots: u32,
}

/// Connects to the switch, and empties it.
pub fn connect(path: &std::path::Path) -> Result<Empty, Broken> {
    let mut connection = Connection::open(path)?;
    let (hello, _) = connection.ask(Request::of(Op::Hello, ""))?;
    if hello.status != Status::Done {
        return Err(Broken::Garbage(Garbage::Kept(hello.status)));
    }
    let empty = Empty {
        boot: hello.u64_at(0),
        pairs: hello.u32_at(8),
        slots: hello.u32_at(12),
        connection,
    };
    empty.emptied()
}

impl Empty {
    fn emptied(mut self) -> Result<Empty, Broken> {
        match failure(&mut self.connection, &[Request::of(Op::Flush, "")])? {
            None => Ok(self),
            Some(status) => Err(Broken::Garbage(Garbage::Kept(status))),
        }
    }
}

/// The work of the thread.
pub struct Worker {
    /// Shared with the threads that translate.
    pub shared: Arc<Shared>,
    /// The socket.
    pub path: PathBuf,
    /// Number of port pairs that the configuration names.
    pub pairs: u32,
    /// Tells the watchdog that the thread goes on.
    pub beat: Heartbeat,
    /// The process that was the switch last.
    boot: Option<u64>,
    said: Said,
}

impl Worker {
    /// A worker that has logged nothing yet.
    pub fn new(shared: Arc<Shared>, path: PathBuf, pairs: u32, beat: Heartbeat) -> Worker {
        Worker {
            shared,
            said: Said::nothing(path.clone()),
            path,
            pairs,
            beat,
            boot: None,
        }
    }

    /// Works until it is told to end. `first` is the switch that was there at the start.
    pub fn run(mut self, first: Result<Empty, Broken>) -> Result<(), Failure> {
        let mut next = Some(first);
        loop {
            let found = next.take().unwrap_or_else(|| connect(&self.path));
            let broken = match found.map(|empty| self.serve(empty)) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(broken)) | Err(broken) => broken,
            };
            self.shared.settled.notify_all();
            if matches!(broken, Broken::Garbage(_) | Broken::Silent) {
                self.shared.lock().figures.garbage += 1;
            }
            let line = self.said.is_gone(&broken);
            self.shared.lock().troubles = self.said.troubles.clone();
            if let Some(line) = line {
                line.log();
            }
            let wanted = self.shared.lock();
            let has_not_ended = |wanted: &mut Wanted| wanted.ended.is_none();
            let wanted = wanted.wait_timeout_while(&self.shared.work, PAUSE, has_not_ended);
            if wanted.ended.is_some() {
                return Ok(());
            }
            drop(wanted);
            self.beat.beat();
        }
    }

    fn serve(&mut self, mut empty: Empty) -> Result<(), Broken> {
        if empty.pairs != self.pairs {
            return Err(Broken::Io(std::io::Error::other(format!(
                "it has {} pairs of ports, and translator.switch_ports names {}",
                empty.pairs, self.pairs
            ))));
        }
        let mut wanted = self.shared.lock();
        wanted.figures.connections += 1;
        if self.boot.replace(empty.boot) != Some(empty.boot) {
            wanted.counts_anew();
        }
        drop(wanted);
        let served = self.follow(&mut empty);
        // Ended changes have been confirmed; what `follow` had taken it has given back.
        self.shared.lock().go_down(&[]);
        served
    }

    fn follow(&mut self, empty: &mut Empty) -> Result<(), Broken> {
        let mut rules = Rules::default();
        let mut reading = Instant::now();
        loop {
            self.beat.beat();
            let wanted = self.shared.lock();
            let until = reading.saturating_duration_since(Instant::now()).min(PAUSE);
            let version = rules.version;
            let is_idle = |wanted: &mut Wanted| {
                wanted.ended.is_none() && !wanted.has_changes() && !wanted.has_rules(version)
            };
            let mut wanted = wanted.wait_timeout_while(&self.shared.work, until, is_idle);
            if let Some(empties) = wanted.ended {
                drop(wanted);
                if empties {
                    failure(&mut empty.connection, &[Request::of(Op::Flush, "")])?;
                }
                return Ok(());
            }
            if wanted.is_behind() {
                drop(wanted);
                self.empty(&mut empty.connection)?;
                rules = Rules::default();
                continue;
            }
            let is_new = wanted.has_rules(rules.version);
            let changed = is_new.then(|| (wanted.version, wanted.rules()));
            let changes = match changed {
                None => wanted.take(TOGETHER),
                Some(_) => Vec::new(),
            };
            drop(wanted);
            if let Some((version, next)) = changed {
                self.write_rules(empty, &mut rules, next)?;
                rules.version = Some(version);
            }
            if !changes.is_empty() {
                let done = carry_out(&mut empty.connection, &changes);
                let done = done.inspect_err(|_| self.shared.lock().go_down(&changes))?;
                self.settle(&done);
            }
            if Instant::now() >= reading {
                reading = Instant::now() + READING;
                self.read(&mut empty.connection, empty.slots)?;
            }
        }
    }

    /// Empties the switch. Until then, its old sessions count as alive.
    fn empty(&self, connection: &mut Connection) -> Result<(), Broken> {
        match failure(connection, &[Request::of(Op::Flush, "")])? {
            None => {}
            Some(status) => return Err(Broken::Garbage(Garbage::Kept(status))),
        }
        self.shared.lock().go_down(&[]);
        self.shared.settled.notify_all();
        Ok(())
    }

    /// Writes the rules. If the switch refuses one of them, it stays off.
    fn write_rules(
        &mut self,
        empty: &mut Empty,
        rules: &mut Rules,
        next: BTreeMap<EntryKey, Entry>,
    ) -> Result<(), Broken> {
        let is_first = !rules.are_written;
        let (count, connection) = (next.len(), &mut empty.connection);
        match rules.write(connection, next)? {
            None if is_first => {
                let mut wanted = self.shared.lock();
                wanted.go_up(empty.slots);
                let line = self.said.translates(count, wanted.sessions());
                wanted.troubles = self.said.troubles.clone();
                drop(wanted);
                line.log();
            }
            None => {}
            Some((table, status)) => {
                self.empty(connection)?;
                if !rules.are_refused {
                    let line = self.said.refuses_rules(count, (table, status));
                    self.shared.lock().troubles = self.said.troubles.clone();
                    if let Some(line) = line {
                        line.log();
                    }
                }
                *rules = Rules {
                    are_refused: true,
                    ..Rules::default()
                };
            }
        }
        Ok(())
    }

    /// Notes the results of changes. Logs once that the switch begins to refuse sessions, and once that it takes them again.
    fn settle(&mut self, done: &[Outcome]) {
        let mut wanted = self.shared.lock();
        let (mut is_settled, mut refused, mut has_put) = (false, None, false);
        for outcome in done {
            match outcome {
                Outcome::Done(change) => {
                    is_settled |= wanted.confirmed(change);
                    has_put |= matches!(change, crate::wanted::SessionUpdate::Put(_));
                }
                Outcome::Refused(known, status) => {
                    wanted.refused(known);
                    refused = Some(*status);
                }
            }
        }
        let sessions = wanted.sessions();
        let line = self.said.takes_sessions(refused, has_put, sessions);
        wanted.troubles = self.said.troubles.clone();
        drop(wanted);
        if is_settled {
            self.shared.settled.notify_all();
        }
        if let Some(line) = line {
            line.log();
        }
    }

    /// Reads which sessions were used, and the counters.
    fn read(&self, connection: &mut Connection, slots: u32) -> Result<(), Broken> {
        let mut wanted = self.shared.lock();
        if wanted.link == Link::Down {
            drop(wanted);
            // Is it there?
            return connection.ask(Request::of(Op::Hello, "")).map(|_| ());
        }
        // The switch reads multiples of eight.
        let count = wanted
            .begin_reading()
            .next_multiple_of(8)
            .min(slots / 8 * 8);
        drop(wanted);
        for first in (0..count).step_by(MOST_USED as usize) {
            let part = (count - first).min(MOST_USED);
            let now = clock::monotonic();
            let (reply, bits) = connection.ask(Request::part(Op::Used, "used", first, part))?;
            if reply.status != Status::Done {
                return Err(Broken::Garbage(Garbage::Kept(reply.status)));
            }
            self.shared.lock().used(first, bits, now);
        }
        self.shared.lock().end_reading();
        let request = Request::part(Op::Read, "counts", 0, COUNTS.len() as u32);
        let (reply, numbers) = connection.ask(request)?;
        if reply.status != Status::Done {
            return Err(Broken::Garbage(Garbage::Kept(reply.status)));
        }
        let numbers: Vec<u64> = numbers
            .chunks_exact(8)
            .filter_map(|bytes| bytes.first_chunk().copied().map(u64::from_be_bytes))
            .collect();
        self.shared.lock().counted(&numbers);
        Ok(())
    }
}

/// The rules that the switch has.
#[derive(Default)]
struct Rules {
    version: Option<u64>,
    written: BTreeMap<EntryKey, Entry>,
    are_written: bool,
    /// The last ones were refused, and the log says so.
    are_refused: bool,
}

impl Rules {
    /// Replaces them. If one is refused, returns its table and the reason; then the switch has an unknown part of them.
    fn write(
        &mut self,
        connection: &mut Connection,
        next: BTreeMap<EntryKey, Entry>,
    ) -> Result<Option<(&'static str, Status)>, Broken> {
        let gone = self
            .written
            .iter()
            .filter(|(place, _)| !next.contains_key(place));
        let gone = gone.filter_map(|(_, entry)| entry.delete());
        let is_new = |entry: &&Entry| self.written.get(&entry.place) != Some(entry);
        let new = next.values().filter(is_new);
        let (switches, others): (Vec<&Entry>, Vec<&Entry>) = new.partition(|e| e.is_default());
        let mut requests: Vec<Request> =
            gone.chain(others.into_iter().map(Entry::insert)).collect();
        let mut last: Vec<Request> = switches.into_iter().map(Entry::insert).collect();
        if requests.len() + last.len() > RECORDS {
            // No packet may see a part of them.
            requests.insert(0, settings_off().insert());
            let settings = next.values().filter(|entry| entry.is_default());
            last = settings.map(Entry::insert).collect();
        }
        requests.append(&mut last);
        for some in requests.chunks(RECORDS) {
            if let Some(status) = failure(connection, some)? {
                let table = some.first().map_or("", |request| request.table);
                return Ok(Some((table, status)));
            }
        }
        self.written = next;
        self.are_written = true;
        self.are_refused = false;
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
