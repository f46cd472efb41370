// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records that wait for a collector. The code that changes the tables adds records and never waits. When the queue is
//! full, a record is not stored but counts as lost, at the place where it is missing.

use std::collections::VecDeque;
use std::sync::Condvar;
use std::time::{Duration, Instant};

use diolkos_service::ordered::{Guard, Ordered, Rank};

use super::record::{Record, What};

/// The most gaps that wait: beyond that, the last one grows. Gaps do not take room from records.
const GAPS: usize = 64;

/// The queue of one collector.
#[derive(Debug)]
pub struct Queue {
    inner: Ordered<Inner>,
    filled: Condvar,
    most: usize,
}

#[derive(Default, Debug)]
struct Inner {
    waiting: VecDeque<Record>,
    gaps: usize,
    /// Lost records of entries.
    lost: u64,
    is_closed: bool,
    /// The reader sleeps.
    is_awaited: bool,
}

/// The result of a read.
#[derive(PartialEq, Eq, Debug)]
pub enum Taken {
    /// The queue is open; records may have been read, or the wait may be over.
    Open,
    /// No more records will come.
    Closed,
}

impl Queue {
    /// A queue with room for `most` records.
    pub fn new(most: usize) -> Queue {
        Queue {
            inner: Ordered::new(Rank::Records, Inner::default()),
            filled: Condvar::new(),
            most,
        }
    }

    /// Adds a record, or counts it as lost.
    pub fn push(&self, record: Record) {
        let mut inner = self.lock();
        if inner.is_closed {
            return;
        }
        if inner.waiting.len() - inner.gaps < self.most {
            inner.waiting.push_back(record);
        } else {
            inner.lose(record);
        }
        if std::mem::take(&mut inner.is_awaited) {
            drop(inner);
            self.filled.notify_one();
        }
    }

    /// Moves up to `at_most` records into `into`; waits at most `wait` for the first one.
    pub fn take(&self, at_most: usize, into: &mut Vec<Record>, wait: Duration) -> Taken {
        let mut inner = self.lock();
        if inner.waiting.is_empty() && !inner.is_closed && !wait.is_zero() {
            inner.is_awaited = true;
            // No code panics while it holds the lock, and no state here is ever half changed.
            inner = inner.wait_timeout(&self.filled, wait);
            inner.is_awaited = false;
        }
        let count = inner.waiting.len().min(at_most);
        let before = into.len();
        into.extend(inner.waiting.drain(..count));
        let taken = into[before..].iter();
        let gaps = taken.filter(|r| matches!(r.what, What::Lost(..)));
        inner.gaps -= gaps.count();
        if inner.waiting.is_empty() && inner.waiting.capacity() > 1024 {
            // Returns the memory of a burst.
            inner.waiting = VecDeque::new();
        }
        match inner.is_closed && into.is_empty() && inner.waiting.is_empty() {
            true => Taken::Closed,
            false => Taken::Open,
        }
    }

    /// Closes the queue: no more records come, but the waiting ones can be read.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Returns true if the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Waits for this time, or until the queue is closed.
    pub fn rest(&self, long: Duration) {
        let (begin, mut inner) = (Instant::now(), self.lock());
        while !inner.is_closed && begin.elapsed() < long {
            let left = long.saturating_sub(begin.elapsed());
            inner = inner.wait_timeout(&self.filled, left);
        }
    }

    /// The room of the empty queue, in records.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The number of waiting records.
    pub fn waiting(&self) -> usize {
        let inner = self.lock();
        inner.waiting.len() - inner.gaps
    }

    /// The room that is left, in records.
    pub fn room(&self) -> usize {
        self.most - self.waiting()
    }

    /// Records of entries that found no room.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Inner {
    fn lose(&mut self, record: Record) {
        if !record.is_of_entry() {
            return;
        }
        self.lost += 1;
        let is_full_of_gaps = self.gaps >= GAPS;
        let last = match is_full_of_gaps {
            true => self
                .waiting
                .iter_mut()
                .rev()
                .find(|r| matches!(r.what, What::Lost(..))),
            false => self.waiting.back_mut(),
        };
        if let Some(Record {
            at,
            what: What::Lost(count, _),
        }) = last
        {
            *count += 1;
            *at = record.at;
            return;
        }
        self.gaps += 1;
        self.waiting.push_back(Record {
            at: record.at,
            what: What::Lost(1, record.at),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::EntryChange;
    use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn record(at: u64) -> Record {
        let binding = Binding {
            protocol: Protocol::Udp,
            v4: Endpoint4 {
                addr: Ipv4Addr::new(192, 0, 2, 1),
                port: 1024,
            },
            v6: Endpoint6 {
                addr: Ipv6Addr::LOCALHOST,
                port: 5,
            },
        };
        Record {
            at,
            what: What::Binding(EntryChange::Created, binding),
        }
    }

    fn all(queue: &Queue) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        queue.take(usize::MAX, &mut taken, Duration::ZERO);
        let shown = |r: &Record| match r.what {
            What::Lost(count, since) => (since, count),
            _ => (r.at, 0),
        };
        taken.iter().map(shown).collect()
    }

    /// RFC 6888 does not demand it, but a log that lacks records without saying so proves nothing.
    #[test]
    fn what_finds_no_room_is_counted_where_it_is_missing() {
        let queue = Queue::new(3);
        (1..=5).for_each(|at| queue.push(record(at)));
        assert_eq!((queue.waiting(), queue.room(), queue.lost()), (3, 0, 2));
        let mut two = Vec::new();
        queue.take(1, &mut two, Duration::ZERO);
        queue.take(1, &mut two, Duration::ZERO);
        assert_eq!(two, [record(1), record(2)]);
        (6..=9).for_each(|at| queue.push(record(at)));
        assert_eq!(all(&queue), [(3, 0), (4, 2), (6, 0), (7, 0), (8, 2)]);
        assert_eq!((queue.waiting(), queue.lost()), (0, 4));
    }

    #[test]
    fn every_record_is_delivered_or_counted_once() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let queue = Queue::new(16);
            let (mut pushed, mut delivered, mut counted) = (0u64, 0, 0);
            for _ in 0..5_000 {
                if random.u8(..) < 200 {
                    pushed += 1;
                    queue.push(record(pushed));
                    continue;
                }
                let mut taken = Vec::new();
                // Two reads, as the writer does it.
                queue.take(random.usize(..3), &mut taken, Duration::ZERO);
                queue.take(random.usize(..2), &mut taken, Duration::ZERO);
                for record in taken {
                    // The records are in order, with a gap where the first missing record would be.
                    match record.what {
                        What::Lost(count, since) => {
                            assert_eq!(since, delivered + counted + 1, "seed {seed}");
                            counted += count;
                        }
                        _ => {
                            delivered += 1;
                            assert_eq!(record.at, delivered + counted, "seed {seed}");
                        }
                    }
                }
                assert!(queue.lock().waiting.len() <= 16 + GAPS, "seed {seed}");
            }
            for (_, count) in all(&queue) {
                match count {
                    0 => delivered += 1,
                    count => counted += count,
                }
            }
            assert_eq!(pushed, delivered + counted, "seed {seed}");
            assert_eq!(queue.lost(), counted, "seed {seed}");
        }
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_takes_nothing() {
        let queue = Queue::new(4096);
        queue.push(record(1));
        queue.close();
        queue.push(record(2));
        let mut taken = Vec::new();
        let wait = Duration::from_secs(600);
        assert_eq!(queue.take(9, &mut taken, wait), Taken::Open);
        assert_eq!(taken, [record(1)]);
        taken.clear();
        assert_eq!(queue.take(9, &mut taken, wait), Taken::Closed);
    }
}
