// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a NAT64 (RFC 6146) while it runs: the controller owns it, the fast path has a copy, the sweeper ends what
//! has expired, the operator asks and binds.
//!
//! packet ─► controller ─► mirror ─► maps of the fast path; stamps ─► mirror ─► controller ◄─ sweeper, operator

mod controller;
mod mirror;
mod show;
mod sweeper;

pub use controller::Controller;
pub use show::{bindings, sessions, BindingRow, Entries, SessionRow};
pub use sweeper::Sweeper;
