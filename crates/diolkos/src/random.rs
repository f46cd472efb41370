// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers that nobody can guess, for what starts at a random place.

/// One of them; without the kernel's generator at least one that differs from process to process.
pub fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
