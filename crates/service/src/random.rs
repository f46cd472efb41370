// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unpredictable numbers.

/// A random number. If the kernel's generator fails, it is at least different in each process.
pub fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

/// A stock of random numbers, read in batches from the kernel's generator, for callers that need many.
#[derive(Debug, Default)]
pub struct Stock {
    numbers: Vec<u64>,
}

/// Numbers per call into the kernel.
const BATCH: usize = 64;

impl Stock {
    /// The next number. No number is given twice.
    pub fn take(&mut self) -> u64 {
        if self.numbers.is_empty() {
            let mut bytes = [0; BATCH * 8];
            if getrandom::fill(&mut bytes).is_err() {
                return random();
            }
            let words = bytes
                .chunks_exact(8)
                .filter_map(|word| word.try_into().ok());
            self.numbers.extend(words.map(u64::from_ne_bytes));
        }
        self.numbers.pop().unwrap_or_else(random)
    }
}
