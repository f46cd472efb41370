// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a NAT64 beyond the life of the program: in a file, and, with a fast path that stays in the kernel, in its
//! maps.
//!
//! tables ─► [`saver`]: when ─► [`format`]: bytes ─► [`file`]: all of them, or none ─► [`file`] ─► [`format`] ─► [`restore`] ─► tables
//!
//! [`backup`]: what the file had that cannot be used; [`owner`]: that one program has it
//!
//! maps ─► [`reconcile`] ─► tables ─► [`reconcile`] ─► maps
//!
//! The file has everything as of a [`moment`]: the pool's secret, the operator's bindings, and all sessions. The maps have
//! sessions in a steady state, and when they were used last. After a clean end both say the same. After a kill the maps
//! know better what they know at all.

mod backup;
mod file;
pub mod format;
mod moment;
mod owner;
mod reconcile;
mod restore;
mod restored;
mod saver;
mod tables;

pub use file::{Found, StateFile};
pub use moment::Moment;
pub use restore::restore;
pub use saver::StateSaver;
