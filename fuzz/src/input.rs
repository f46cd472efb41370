// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Meaning out of bytes: each question takes some off the front. Where there are none left the answer is zero, so that
//! every input means something and a shorter one means less.

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        array[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        array
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes, the higher first.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// One of several, by a byte.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    /// As many bytes as a word in front of them says, or all there are.
    pub fn block(&mut self) -> &'a [u8] {
        let len = usize::from(self.word());
        let (block, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        block
    }
}
