// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reasons why bytes are not a state.

use std::io;

/// The version of this format. Every other format has another number.
pub const VERSION: u32 = 2;

/// The reason why bytes are not a state.
#[derive(thiserror::Error, Debug)]
pub enum Malformed {
    /// They are something else.
    #[error("it is no state file of diolkos")]
    Foreign,
    /// They have another version of the format.
    #[error("its format has version {0}, and this diolkos knows version {VERSION}")]
    Version(u32),
    /// The end is missing.
    #[error("it is truncated")]
    Truncated,
    /// They contain a value that no version writes.
    #[error("it is corrupted: {0}")]
    Corrupted(&'static str),
    /// They cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
}
