// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why bytes are no state.

use std::io;

/// Of this format. Another one is another number.
pub const VERSION: u32 = 2;

/// Why bytes are no state.
#[derive(thiserror::Error, Debug)]
pub enum Malformed {
    /// They are something else.
    #[error("it is no state file of diolkos")]
    Foreign,
    /// Of another format.
    #[error("its format has version {0}, and this diolkos knows version {VERSION}")]
    Version(u32),
    /// The end is missing.
    #[error("it is truncated")]
    Truncated,
    /// Something stands there that nobody writes.
    #[error("it is corrupted: {0}")]
    Corrupted(&'static str),
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}
