// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the state of a NAT64 after the program has ended: in a file, and, with a fast path that stays in the kernel,
//! in its maps.
//!
//! tables ─► [`saver`]: when ─► [`format`]: bytes ─► [`file`]: all of them, or none ─► [`file`] ─► [`format`] ─► [`restore`] ─► tables
//!
//! [`backup`]: keeps a file that cannot be used; [`owner`]: ensures that only one program uses the file
//!
//! maps ─► [`reconcile`] ─► tables ─► [`reconcile`] ─► maps
//!
//! The file has everything as of a [`moment`]: the pool's secret, the operator's bindings, and all sessions. The maps
//! have sessions in a steady state, and when they were last used. After a clean end both agree. After a kill, the maps
//! are more recent about the sessions that they have.

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

pub use file::{StateFile, StoredState};
pub use format::Malformed;
pub use moment::Moment;
pub use restore::restore;
pub use saver::StateSaver;
