// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments of packets (RFC 6146 section 3.4). Only the first fragment has ports, so they are remembered for later
//! ones, and fragments that arrive before the first are held. If a packet must be translated as a whole, its fragments
//! are held until `whole` can reassemble them.
//!
//! Ports are remembered once the tables have accepted the first fragment. Each family has a separate, bounded `store`.

use super::store::Store;
pub use super::store::{Gathered, Key, Released};
pub use super::whole::HeldPacket;
use crate::config::Nat64Config;
use crate::key::Keys;
use crate::session::clock::{Clock, Millis};
use diolkos_xlat::packet::Packet;
use diolkos_xlat::translate::payload::Numbers;
use diolkos_xlat::verdict::Reason;
use std::time::Duration;

/// The fragment state of both families.
#[derive(Debug)]
pub struct Fragments {
    /// The stores for IPv4 and for IPv6.
    stores: [Store; 2],
    clock: Clock,
    timeout: Millis,
    source_mask: u128,
}

impl Fragments {
    /// Creates the state without fragments.
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

    /// Applies another configuration.
    pub fn reconfigure(&mut self, config: &Nat64Config) {
        let limits = &config.limits;
        self.timeout = config.timeouts.fragments.as_millis() as Millis;
        let mask = u128::MAX << (128 - u32::from(limits.source_prefix_len));
        for store in &mut self.stores {
            store.set_limits(limits);
            if mask != self.source_mask {
                // The source prefix has changed, which would make the counts wrong. Fragments are few and are sent
                // again.
                store.forget();
            }
        }
        self.source_mask = mask;
    }

    /// Number of held fragments.
    pub fn held(&self) -> usize {
        self.stores.iter().map(Store::held).sum()
    }

    /// Number of tracked packets.
    pub fn followed(&self) -> usize {
        self.stores.iter().map(Store::len).sum()
    }

    /// Remembers the ports of a packet whose first fragment the tables have accepted.
    pub fn first(&mut self, key: Key, numbers: Numbers, now: Duration) -> Released {
        let deadline = self.clock.advance(now) + self.timeout;
        let source = self.source_of(&key);
        self.stores[usize::from(key.is_v6)].first(key, source, numbers, deadline)
    }

    /// Forgets a packet whose first fragment was refused. Returns the fragments that waited for it.
    pub fn refused(&mut self, key: Key) -> Vec<HeldPacket> {
        self.stores[usize::from(key.is_v6)].remove(&key)
    }

    /// Handles a complete later fragment. Returns the ports of the first fragment. If that has not arrived, holds the
    /// fragment and returns the number of evicted others.
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
        store.hold(key, source, fragment, deadline).map(Later::Held)
    }

    /// Returns true if the first fragment has shown that the packet must be reassembled.
    pub fn gathers(&self, key: &Key) -> bool {
        self.stores[usize::from(key.is_v6)].gathers(key)
    }

    /// Adds a complete fragment of a packet that must be reassembled.
    pub fn gather(
        &mut self,
        key: Key,
        fragment: &Packet<'_>,
        now: Duration,
    ) -> Result<Gathered, Reason> {
        let deadline = self.clock.advance(now) + self.timeout;
        let source = self.source_of(&key);
        let store = &mut self.stores[usize::from(key.is_v6)];
        store.gather(key, source, fragment, deadline)
    }

    /// Forgets packets whose timeout has expired. Returns the number of their held fragments.
    pub fn expire(&mut self, now: Duration) -> usize {
        let now = self.clock.advance(now);
        self.stores.iter_mut().map(|store| store.expire(now)).sum()
    }

    /// The earliest time on the caller's clock at which [`Fragments::expire`] has work to do. None if no packet is
    /// tracked.
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

/// The result for a fragment that is not the first.
#[derive(Debug)]
pub enum Later {
    /// The ports of its packet.
    Of(Numbers),
    /// The fragment is held. This many others were evicted.
    Held(usize),
}
