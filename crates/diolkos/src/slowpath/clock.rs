// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a translator asks of the world: time, identifications, and numbers that nobody can guess.

use std::time::Duration;

use diolkos_core::nat64::Random;
use diolkos_core::Env;
use diolkos_sys::clock;

use crate::random::{random, Stock};

/// For one thread.
pub struct Clock {
    next_id: u64,
    stock: Stock,
}

impl Clock {
    /// With identifications that begin at a place nobody can guess.
    pub fn new() -> Clock {
        Clock {
            next_id: random(),
            stock: Stock::default(),
        }
    }
}

impl Env for Clock {
    fn now(&mut self) -> Duration {
        clock::monotonic()
    }

    /// SplitMix64: an identification need not be secret, only rarely the same.
    fn ipv4_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.next_id;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u16
    }
}

impl Random for Clock {
    fn random(&mut self) -> u64 {
        self.stock.take()
    }
}
