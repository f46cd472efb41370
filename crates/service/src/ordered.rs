// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The locks that nest, and the order in which a thread may take them.
//!
//! A thread that holds a lock takes only locks of later ranks. So no two threads can wait for each other. In builds with
//! debug assertions, which all tests run, a thread that breaks the order panics at once, whether or not another thread
//! holds the lock.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, LockResult, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The place of a lock in the order, the first one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// The alarms of a NAT64, and which of them are raised.
    Alarms,
    /// The mappings of the PCP server.
    Mappings,
    /// The tables of a NAT64, with their mirror, its leases and the node of a cluster.
    Tables,
    /// A queue of the TUN device with the slot of its label.
    Outlet,
    /// The records that wait for a collector of the log of bindings.
    Records,
    /// What the worker of a cluster shows to others.
    ClusterView,
    /// The entries that a P4 switch should have.
    Wanted,
}

/// A lock with a rank.
#[derive(Debug)]
pub struct Ordered<T> {
    rank: Rank,
    inner: Mutex<T>,
}

/// The locked value. The lock is free when this is dropped.
pub struct Guard<'a, T> {
    // The lock is released before the rank.
    inner: MutexGuard<'a, T>,
    held: RankGuard,
}

impl<T> Ordered<T> {
    /// A lock of this rank.
    pub fn new(rank: Rank, value: T) -> Ordered<T> {
        Ordered {
            rank,
            inner: Mutex::new(value),
        }
    }

    /// Waits for the lock. The error is as that of [`Mutex::lock`].
    ///
    /// # Panics
    ///
    /// With debug assertions: the thread holds a lock of this or a later rank.
    pub fn lock(&self) -> LockResult<Guard<'_, T>> {
        let held = RankGuard::take(self.rank);
        match self.inner.lock() {
            Ok(inner) => Ok(Guard { inner, held }),
            Err(poisoned) => Err(PoisonError::new(Guard {
                inner: poisoned.into_inner(),
                held,
            })),
        }
    }

    /// Returns true if a thread panicked while it held the lock.
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }
}

impl<T> Guard<'_, T> {
    /// Releases the lock until the condition is notified or the time is over, and takes it again, poisoned or not.
    pub fn wait_timeout(self, condition: &Condvar, most: Duration) -> Self {
        let Guard { inner, held } = self;
        let waited = condition.wait_timeout(inner, most);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }

    /// As [`Guard::wait_timeout`], and waits again while `waits` returns true and the time is not over.
    pub fn wait_timeout_while(
        self,
        condition: &Condvar,
        most: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> Self {
        let Guard { inner, held } = self;
        let waited = condition.wait_timeout_while(inner, most, waits);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Guard { inner, held }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(debug_assertions)]
use debug::RankGuard;
#[cfg(not(debug_assertions))]
use release::RankGuard;

#[cfg(debug_assertions)]
mod debug {
    use std::cell::RefCell;

    use super::Rank;

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// The rank of a lock that this thread holds, or waits for.
    pub struct RankGuard(Rank);

    impl RankGuard {
        pub fn take(rank: Rank) -> RankGuard {
            // While the thread ends, it has no list any more.
            let last = HELD.try_with(|held| held.borrow().iter().max().copied());
            if let Ok(Some(last)) = last {
                assert!(
                    last < rank,
                    "lock order: a thread that holds {last:?} takes {rank:?}"
                );
            }
            let _ = HELD.try_with(|held| held.borrow_mut().push(rank));
            RankGuard(rank)
        }
    }

    impl Drop for RankGuard {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                let at = held.iter().rposition(|rank| *rank == self.0);
                at.map(|at| held.swap_remove(at))
            });
        }
    }
}

#[cfg(not(debug_assertions))]
mod release {
    use super::Rank;

    /// Nothing is checked.
    pub struct RankGuard;

    impl RankGuard {
        pub fn take(_: Rank) -> RankGuard {
            RankGuard
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn locks() -> (Ordered<u8>, Ordered<u8>) {
        (
            Ordered::new(Rank::Tables, 1),
            Ordered::new(Rank::Records, 2),
        )
    }

    #[test]
    fn locks_are_taken_in_their_order() {
        let (tables, records) = locks();
        for _ in 0..2 {
            let first = tables.lock().expect("it is whole");
            let second = records.lock().expect("it is whole");
            assert_eq!((*first, *second), (1, 2));
            // The order of the release does not matter.
            drop(first);
        }
        *records.lock().expect("it is free") = 3;
        let value = *records.lock().expect("it is free");
        *tables.lock().expect("it is free") = value;
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a thread that holds Records takes Tables")]
    fn a_lock_that_is_taken_out_of_order_panics() {
        let (tables, records) = locks();
        let _second = records.lock().expect("it is whole");
        let _first = tables.lock();
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a thread that holds Tables takes Tables")]
    fn two_locks_of_one_rank_do_not_nest() {
        let (tables, other) = (locks().0, locks().0);
        let _one = tables.lock().expect("it is whole");
        let _two = other.lock();
    }

    #[test]
    fn each_thread_has_its_own_order() {
        let (tables, records) = locks();
        let tables = Arc::new(tables);
        let _second = records.lock().expect("it is whole");
        let other = tables.clone();
        let done = thread::spawn(move || *other.lock().expect("it is free"));
        assert_eq!(done.join().expect("it took the lock"), 1);
    }

    #[test]
    fn a_panic_poisons_the_lock_and_frees_the_rank() {
        let tables = Arc::new(locks().0);
        let other = tables.clone();
        let broke = thread::spawn(move || {
            let _held = other.lock().expect("it is whole");
            panic!("half changed");
        });
        assert!(broke.join().is_err() && tables.is_poisoned());
        for _ in 0..2 {
            let value = *tables.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(value, 1);
        }
    }

    #[test]
    fn a_wait_gives_the_lock_back_and_keeps_the_rank() {
        let (tables, records) = locks();
        let nothing = Condvar::new();
        let guard = records.lock().expect("it is whole");
        let guard = guard.wait_timeout(&nothing, Duration::ZERO);
        assert_eq!(*guard, 2);
        drop(guard);
        drop(tables.lock().expect("nothing is held"));
        let mut asked = 0;
        let waits = |value: &mut u8| {
            asked += 1;
            *value == 2
        };
        let guard = records.lock().expect("it is whole");
        let guard = guard.wait_timeout_while(&nothing, Duration::ZERO, waits);
        assert_eq!(*guard, 2);
        drop(guard);
        assert!(asked > 0);
        drop(tables.lock().expect("nothing is held"));
    }
}
