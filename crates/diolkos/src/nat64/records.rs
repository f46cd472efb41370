// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who keeps a record of what the tables tell.

use std::fmt::Debug;

use diolkos_nat64::config::Nat64Config;
use diolkos_nat64::session::Event;

/// Hears every change of the tables under their lock: it must not wait for anything.
pub trait Records: Send + Debug {
    /// The tables have changed.
    fn event(&mut self, event: &Event);

    /// Another configuration is in force.
    fn follow(&mut self, config: &Nat64Config);
}
