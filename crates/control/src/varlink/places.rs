// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on concurrent connections. Root and the program's own user have places of their own; all other users share a few, of
//! which no user can have more than half.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::Caller;

/// Connections of root and of the program's own user; more of them wait in the kernel's queue.
pub const TRUSTED: usize = 32;
/// Connections of all other users.
pub const OTHERS: usize = 8;
/// The most of these connections that one user can have.
pub const OF_ONE: usize = 4;

/// All places.
#[derive(Clone, Debug)]
pub struct Places {
    trusted: Arc<Semaphore>,
    others: Arc<Mutex<BTreeMap<u32, usize>>>,
}

/// The place of a connection. Dropping this frees it.
#[derive(Debug)]
pub enum ConnectionPermit {
    /// A place of root or the program's own user.
    Trusted(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit),
    /// A place of this user.
    Other(u32, Places),
}

impl Places {
    /// All places, free.
    pub fn new() -> Places {
        Places {
            trusted: Arc::new(Semaphore::new(TRUSTED)),
            others: Arc::default(),
        }
    }

    /// A place for a caller. Root waits for a free one. Other callers do not wait, because that would delay all callers.
    pub async fn take(&self, caller: Caller) -> Option<ConnectionPermit> {
        if caller.is_trusted() {
            let place = self.trusted.clone().acquire_owned().await;
            return place.ok().map(ConnectionPermit::Trusted);
        }
        let mut others = self.others();
        let own = others.get(&caller.uid()).copied().unwrap_or(0);
        if own >= OF_ONE || others.values().sum::<usize>() >= OTHERS {
            return None;
        }
        others.insert(caller.uid(), own + 1);
        Some(ConnectionPermit::Other(caller.uid(), self.clone()))
    }

    /// Waits until all trusted places are free.
    pub async fn all_free(&self) {
        let _ = self.trusted.acquire_many(TRUSTED as u32).await;
    }

    /// The number of free places of root.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.trusted.available_permits()
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let ConnectionPermit::Other(uid, places) = self else {
            return;
        };
        let mut others = places.others();
        match others.get_mut(uid) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                others.remove(uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_but_root_has_more_than_a_share() {
        let places = Places::new();
        let user = Caller::user;
        let own = diolkos_sys::peer::own_uid();
        let mut taken = Vec::new();
        for uid in [own + 1, own + 2] {
            for _ in 0..OF_ONE {
                taken.push(places.take(user(uid)).await.expect("it is his share"));
            }
            assert!(places.take(user(uid)).await.is_none());
        }
        assert!(places.take(user(own + 3)).await.is_none(), "all are taken");
        assert!(places.take(user(0)).await.is_some());
        assert!(places.take(user(own)).await.is_some());
        taken.pop();
        assert!(places.take(user(own + 3)).await.is_some());
        taken.clear();
        assert!(places.others().is_empty());
        assert_eq!(places.free(), TRUSTED);
    }
}
