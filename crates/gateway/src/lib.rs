// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a NAT64 (RFC 6146) at run time: the controller owns it, the fast path has a copy, the sweeper ends what
//! has expired, and the operator queries it and adds bindings.
//!
//! packet ─► controller ─► mirror ─► maps of the fast path; stamps ─► mirror ─► controller ◄─ sweeper, operator
//!           controller ─► leases ─► fast path ─► openings ─► listener ─► controller
//!
//! controller ─► mirror ─► records ─► log, which a thread writes
//!
//! nodes that ask for bindings (PCP) ─► pcp ─► controller
//!
//! other gateways ─► hands ─► tables, mirror, programs; packets without a binding here ─► mirror ─► peers
//!
//! packets of new bindings ─► deferral ─► worker of the cluster, if it is on
//!
//! controller, queues of logs ─► alarms ─► log, status, metrics
//!
//! controller ─► store ─► file; file, maps that stayed ─► store ─► controller
//!
//! Threads: each queue of the TUN device has a reader; [`Sweeper`], [`Listener`], [`store::StateSaver`] and the alarms have a
//! thread each, and all of them share the [`Controller`], whose tables have one lock. The order of locks that nest is
//! `Alarms → Mappings → Tables → Outlet → Records → ClusterView` ([`diolkos_service::ordered::Rank`]); builds with debug assertions
//! panic where a thread breaks it. `DESIGN.md` of this crate has the map of threads, and what each owns and locks.
//!
//! This crate knows the tables of `diolkos-nat64`, the maps of `diolkos-fastpath` and the engine interface of the slow path.
//! It knows neither routes nor the control socket. To use it, create a [`Controller`], pass it to the slow path as its
//! engine, and run a [`Listener`] and a [`Sweeper`] beside it. The other public modules are public for the fast-path
//! law and the tests of lending, which drive them without threads.

pub mod alarms;
pub mod away;
pub mod clocks;
mod controller;
pub mod conversion;
pub mod deferral;
mod error;
pub mod fastpath;
pub mod hands;
pub mod leases;
mod listener;
mod loaded;
mod log;
mod membership;
pub mod mirror;
mod operator;
mod pcp;
pub mod peers;
pub mod phase;
pub mod programs;
mod queries;
pub mod records;
pub mod removals;
mod show;
pub mod store;
mod sweeper;
pub mod terms;
mod top;

pub use controller::Controller;
pub use deferral::{Deferral, Departing};
pub use error::{FileAction, GatewayError, NotTrusted};
pub use listener::Listener;
pub use loaded::Loaded;
pub use log::{lister, Log};
pub use mirror::own_networks;
pub use pcp::{NewSockets, Pcp};
pub use peers::Peers;
pub use show::{bindings, sessions};
pub use sweeper::Sweeper;
pub use top::top;
