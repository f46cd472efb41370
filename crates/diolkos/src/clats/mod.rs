// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Brings CLATs up and down for network managers: the Varlink interface `org.diolkos.Clat`.
//!
//! ask (the command line) → interface (calls and replies) → serve → orders (what shall run) → keeper (a process for each)
//!
//! Each CLAT is a process of its own, so that a fault ends one of them, and the manager needs no privilege but that to start
//! them. They end with the manager, however that ends.

mod ask;
mod interface;
mod keeper;
mod orders;
mod serve;

pub use ask::{down, end, follow, list, up};
pub use interface::{shown, Spec};
pub use serve::run;

/// By what the manager is found in its network namespace, as a translator by its device.
pub const NAME: &str = "clat-manager";
