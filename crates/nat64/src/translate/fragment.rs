// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments of packets that pass the tables (RFC 6146 section 3.4): only the first has ports, so they
//! are remembered for the others, and others that come before it are held. Where no fragment can be translated without
//! the others, all of them are held until `whole` can put them together.
//!
//! Ports are remembered once the tables have accepted the first fragment. Packets of either family have a
//! `store` of their own, with bounds.

use super::store::Store;
pub use super::store::{Gathered, Key};
pub use super::whole::Held;
use crate::config::Nat64Config;
use crate::session::clock::{Clock, Millis};
use crate::session::key::Keys;
use diolkos_xlat::packet::{Label, Packet};
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

/// All of them.
#[derive(Debug)]
pub struct Fragments {
    /// Of IPv4, and of IPv6.
    stores: [Store; 2],
    clock: Clock,
    timeout: Millis,
    source_mask: u128,
}

impl Fragments {
    /// Without fragments.
    pub fn new(config: &Nat64Config, key: [u64; 2]) -> Fragments {
        let mut fragments = Fragments {
            stores: [(); 2].map(|()| Store::new(Keys(key))),
            clock: Clock::new(),
            timeout: 0,
            source_mask: 0,
        };
        fragments.reconfigure(config);
        fragments
    }

    /// Follows another configuration.
    pub fn reconfigure(&mut self, config: &Nat64Config) {
        let limits = &config.limits;
        self.timeout = config.timeouts.fragments.as_millis() as Millis;
        let mask = u128::MAX << (128 - u32::from(limits.source_prefix_len));
        for store in &mut self.stores {
            store.set_limits(limits);
            if mask != self.source_mask {
                // Whose they are would be counted two ways; they are few, and come again.
                store.forget();
            }
        }
        self.source_mask = mask;
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.stores.iter().map(Store::held).sum()
    }

    /// Packets that are followed.
    pub fn followed(&self) -> usize {
        self.stores.iter().map(Store::len).sum()
    }

    /// The tables have accepted the first fragment of a packet; returns those that waited for it, in the
    /// order of their coming, and how many others had to go.
    pub fn first(&mut self, key: Key, numbers: Numbers, now: Duration) -> (Vec<Held>, usize) {
        let deadline = self.clock.advance(now) + self.timeout;
        let source = self.source_of(&key);
        self.stores[usize::from(key.is_v6)].first(key, source, numbers, deadline)
    }

    /// The first fragment of a packet was refused; returns those that waited for it.
    pub fn refused(&mut self, key: Key) -> Vec<Held> {
        self.stores[usize::from(key.is_v6)].remove(&key)
    }

    /// Another fragment has come, whole. Returns the ports that the first one had; if it has
    /// not come yet, the fragment is held, and it is said how many others had to go.
    pub fn later(
        &mut self,
        key: Key,
        fragment: &Packet<'_>,
        now: Duration,
    ) -> Result<Later, Reason> {
        let deadline = self.clock.advance(now) + self.timeout;
        let source = self.source_of(&key);
        let store = &mut self.stores[usize::from(key.is_v6)];
        if let Some(numbers) = store.numbers(&key) {
            return Ok(Later::Of(numbers));
        }
        store
            .hold(key, source, held(fragment), deadline)
            .map(Later::Held)
    }

    /// The fragments of this packet are to be put together, as the first of them has shown.
    pub fn gathers(&self, key: &Key) -> bool {
        self.stores[usize::from(key.is_v6)].gathers(key)
    }

    /// A fragment of a packet that has to be put together, whole.
    pub fn gather(
        &mut self,
        key: Key,
        fragment: &Packet<'_>,
        now: Duration,
    ) -> Result<Gathered, Reason> {
        let deadline = self.clock.advance(now) + self.timeout;
        let source = self.source_of(&key);
        let store = &mut self.stores[usize::from(key.is_v6)];
        store.gather(key, source, held(fragment), deadline)
    }

    /// Forgets packets whose time is over; returns how many fragments had waited in vain.
    pub fn expire(&mut self, now: Duration) -> usize {
        let now = self.clock.advance(now);
        self.stores.iter_mut().map(|store| store.expire(now)).sum()
    }

    /// When, on the caller's clock, [`Fragments::expire`] has something to do at the earliest; None if nothing is followed.
    pub fn next_due(&self) -> Option<Duration> {
        let next = self.stores.iter().filter_map(Store::next).min()?;
        Some(self.clock.to_caller(next))
    }

    fn source_of(&self, key: &Key) -> u128 {
        match key.is_v6 {
            true => key.src & self.source_mask,
            false => key.src,
        }
    }
}

fn held<'a>(fragment: &'a Packet<'_>) -> (&'a [u8], Label) {
    (fragment.bytes(), fragment.offload.label)
}

/// What becomes of a fragment that is not the first.
#[derive(Debug)]
pub enum Later {
    /// Its packet has these ports.
    Of(Numbers),
    /// It is held. So many others were not to be held any longer.
    Held(usize),
}
