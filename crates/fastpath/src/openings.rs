// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ring buffer in which programs report openings, read so that no record stays hidden.
//!
//! A record gets its place when it is reserved. A record that is not submitted yet hides those after it, although their
//! packets have been sent. So the reader waits until all records reserved so far are submitted. A program takes less
//! than a microsecond for that, unless its CPU stalls, as CPUs of virtual machines do.

use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use diolkos_sys::ring;
use libbpf_rs::RingBuffer;

/// The longest wait for one record; all packets of the slow path wait that long.
const PATIENCE: Duration = Duration::from_millis(10);
/// Number of polls before the CPU is yielded.
const LOOKS: u32 = 200;

/// The source of records. Positions only grow, and wrap.
trait Ring {
    /// The position up to which records are reserved.
    fn produced(&self) -> u64;
    /// The position up to which records have been read.
    fn consumed(&self) -> u64;
    /// Reads up to the first record that is not submitted.
    fn consume(&self);
}

impl Ring for RingBuffer<'_> {
    fn produced(&self) -> u64 {
        ring::produced(self)
    }

    fn consumed(&self) -> u64 {
        ring::consumed(self)
    }

    fn consume(&self) {
        // Only the callback could return an error, and it returns none.
        let _ = RingBuffer::consume(self);
    }
}

/// The reports of programs.
pub(super) struct Openings {
    ring: RingBuffer<'static>,
    waits: Waits,
}

impl Openings {
    pub fn new(ring: RingBuffer<'static>) -> Openings {
        Openings {
            ring,
            waits: Waits::default(),
        }
    }

    /// Reads all records reserved so far.
    pub fn drain(&mut self) {
        let (mut looks, mut begun) = (0, None);
        self.waits.drain(&self.ring, || {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                return true;
            }
            std::thread::yield_now();
            begun.get_or_insert_with(Instant::now).elapsed() < PATIENCE
        });
    }

    /// Number of records that were not submitted in time.
    pub fn unheard(&self) -> u64 {
        self.waits.given_up
    }
}

#[derive(Default)]
struct Waits {
    /// The position of a record that is no longer waited for.
    stuck_at: Option<u64>,
    given_up: u64,
}

impl Waits {
    /// Reads all records that are reserved at the beginning, as long as `again` returns true. Waits for a given record
    /// only once.
    fn drain(&mut self, ring: &impl Ring, mut again: impl FnMut() -> bool) {
        // The caller has removed entries from the maps before. A program whose record is not counted here does not find
        // them.
        fence(Ordering::SeqCst);
        let end = ring.produced();
        loop {
            ring.consume();
            let at = ring.consumed();
            if end.wrapping_sub(at) as i64 <= 0 {
                self.stuck_at = None;
                return;
            }
            if self.stuck_at == Some(at) {
                return;
            }
            if !again() {
                self.stuck_at = Some(at);
                self.given_up += 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Records of one byte, each submitted or not.
    #[derive(Default)]
    struct Records(RefCell<(Vec<bool>, u64)>);

    impl Ring for Records {
        fn produced(&self) -> u64 {
            self.0.borrow().0.len() as u64
        }

        fn consumed(&self) -> u64 {
            self.0.borrow().1
        }

        fn consume(&self) {
            let (records, at) = &mut *self.0.borrow_mut();
            while records.get(*at as usize) == Some(&true) {
                *at += 1;
            }
        }
    }

    fn records(submitted: &[bool]) -> Records {
        Records(RefCell::new((submitted.to_vec(), 0)))
    }

    #[test]
    fn a_record_that_is_late_hides_none() {
        let (ring, mut waits) = (records(&[true, false, true]), Waits::default());
        let mut looks = 0;
        waits.drain(&ring, || {
            looks += 1;
            ring.0.borrow_mut().0[1] = looks == 3;
            true
        });
        assert_eq!((ring.consumed(), looks, waits.given_up), (3, 3, 0));
    }

    #[test]
    fn it_waits_for_what_was_reserved_before_and_no_more() {
        let (ring, mut waits) = (records(&[false]), Waits::default());
        waits.drain(&ring, || {
            let mut all = ring.0.borrow_mut();
            all.0[0] = true;
            all.0.push(false);
            true
        });
        assert_eq!((ring.consumed(), waits.given_up), (1, 0));
    }

    #[test]
    fn for_one_that_never_comes_it_waits_once() {
        let (ring, mut waits) = (records(&[true, false, true]), Waits::default());
        waits.drain(&ring, || false);
        waits.drain(&ring, || panic!("it has waited for this one"));
        assert_eq!((ring.consumed(), waits.given_up), (1, 1));
        ring.0.borrow_mut().0[1] = true;
        ring.0.borrow_mut().0.push(false);
        waits.drain(&ring, || false);
        assert_eq!((ring.consumed(), waits.given_up), (3, 2));
    }
}
