// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface to recorders of table changes.

use std::fmt::Debug;

use diolkos_nat64::config::Nat64Config;
use diolkos_nat64::session::{Event, State};

/// Receives every change of the tables under their lock, so it must not block.
pub trait Records: Send + Debug {
    /// Handles a change of the tables.
    fn event(&mut self, event: &Event);

    /// Applies another configuration, which the tables have already.
    fn follow(&mut self, config: &Nat64Config, state: &State);
}
