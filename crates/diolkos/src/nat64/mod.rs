// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a NAT64 (RFC 6146) while it runs: the controller owns it, the fast path has a copy, the sweeper ends what
//! has expired, the operator asks and binds.
//!
//! packet ─► controller ─► mirror ─► maps of the fast path; stamps ─► mirror ─► controller ◄─ sweeper, operator
//!           controller ─► leases ─► fast path ─► openings ─► listener ─► controller
//!
//! controller ─► mirror ─► records ─► log, which a thread writes
//!
//! other gateways ─► hands ─► tables, mirror, programs; packets without a binding here ─► mirror ─► peers
//!
//! packets of new bindings ─► deferral ─► worker of the cluster, if it is on
//!
//! controller, queues of logs ─► alarms ─► log, status, metrics
//!
//! controller ─► store ─► file; file, maps that stayed ─► store ─► controller

pub mod alarms;
mod away;
mod clocks;
mod controller;
mod conversion;
mod deferral;
mod fastpath;
mod hands;
mod leases;
mod listener;
mod loaded;
mod log;
mod mirror;
mod peers;
mod phase;
mod programs;
mod records;
mod removals;
mod selection;
mod show;
pub mod store;
mod sweeper;
mod terms;
mod top;

pub use controller::Controller;
pub use deferral::{Deferral, Departing};
pub use listener::Listener;
pub use loaded::Loaded;
pub use log::{lister, Log};
pub use mirror::own_networks;
pub use peers::Peers;
pub use selection::{Selection, Side};
pub use show::{bindings, sessions, BindingRow, Entries, SessionRow};
pub use sweeper::Sweeper;
pub use top::{top, Order, TopRow};
