// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of others, read from the front.

/// What is left to read.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    /// The next `N` bytes; `None` if there are fewer.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
