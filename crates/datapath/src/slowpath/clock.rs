// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of a translator: time, identifications, and unpredictable numbers.

use std::time::Duration;

use diolkos_nat64::Random;
use diolkos_sys::clock;
use diolkos_xlat::Env;

use diolkos_service::random::{random, Stock};

/// The environment of one thread.
pub struct Clock {
    next_id: u16,
    stock: Stock,
}

impl Clock {
    /// Creates an environment whose first identification is unpredictable.
    pub fn new() -> Clock {
        Clock {
            next_id: random() as u16,
            stock: Stock::default(),
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

impl Env for Clock {
    fn now(&mut self) -> Duration {
        clock::monotonic()
    }

    fn ipv4_id(&mut self) -> u16 {
        self.ipv4_ids(1)
    }

    fn ipv4_ids(&mut self, count: u16) -> u16 {
        let first = self.next_id;
        self.next_id = first.wrapping_add(count);
        first
    }
}

impl Random for Clock {
    fn random(&mut self) -> u64 {
        self.stock.take()
    }
}
