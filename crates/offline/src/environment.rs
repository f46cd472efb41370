// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of a translator for a capture: the capture's time, and random numbers that repeat with the seed.

use std::hash::Hasher;
use std::time::Duration;

use diolkos_nat64::Random;
use diolkos_xlat::Env;
use siphasher::sip::SipHasher24;

/// The capture's time, increasing identifications, and random numbers from a seed.
pub struct Environment {
    now: Duration,
    next_id: u16,
    seed: u64,
    drawn: u64,
}

impl Environment {
    /// The environment at time 0.
    pub fn new(seed: u64, first_id: u16) -> Environment {
        Environment {
            now: Duration::ZERO,
            next_id: first_id,
            seed,
            drawn: 0,
        }
    }

    /// Advances the time. It stands still while the capture's time stamps go back.
    pub fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// A secret for hash tables.
    pub fn secret(&mut self) -> [u64; 4] {
        [(); 4].map(|()| self.random())
    }
}

impl Env for Environment {
    fn now(&mut self) -> Duration {
        self.now
    }

    fn ipv4_id(&mut self) -> u16 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}

impl Random for Environment {
    fn random(&mut self) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.seed, 0);
        hasher.write(&self.drawn.to_le_bytes());
        self.drawn += 1;
        hasher.finish()
    }
}
