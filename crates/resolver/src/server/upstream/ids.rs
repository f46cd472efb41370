// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unpredictable numbers (RFC 5452 section 9.2) from the kernel, fetched in batches.

use std::cell::RefCell;

/// Numbers fetched with one system call.
const BATCH: usize = 256;

/// A supply of unpredictable numbers.
pub struct Ids(RefCell<Vec<u16>>);

impl Ids {
    /// Fetches the first numbers. Fails without the kernel's generator, since there is no safe way to ask then.
    pub fn new() -> Result<Ids, getrandom::Error> {
        Ok(Ids(RefCell::new(fetch()?)))
    }

    /// The next number.
    pub fn next(&self) -> u16 {
        let mut supply = self.0.borrow_mut();
        loop {
            if let Some(id) = supply.pop() {
                return id;
            }
            // A generator that has worked once does not fail later (getrandom(2)).
            *supply = fetch().unwrap_or_default();
        }
    }
}

fn fetch() -> Result<Vec<u16>, getrandom::Error> {
    let mut bytes = [0; 2 * BATCH];
    getrandom::fill(&mut bytes)?;
    let numbers = bytes.chunks_exact(2);
    Ok(numbers.map(|b| u16::from_ne_bytes([b[0], b[1]])).collect())
}
