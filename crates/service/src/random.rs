// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers that nobody can guess.

/// One of them; without the kernel's generator at least one that differs from process to process.
pub fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

/// Several at a time from the kernel's generator, for those who need many.
#[derive(Debug, Default)]
pub struct Stock {
    numbers: Vec<u64>,
}

/// Numbers per call into the kernel.
const BATCH: usize = 64;

impl Stock {
    /// The next one; none is given twice.
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
