// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How packets reach a translator and leave it, in every mode.
//!
//! [`slowpath`] reads them from the TUN device, has them translated by a [`slowpath::Engine`], and writes them.
//! [`choice`] starts the fast path according to the settings, [`labels`] carries marks through the slow path,
//! [`expiry`] and [`events`] report problems with packets, [`accept_local`] admits errors from the host's own
//! addresses, and [`trace`] predicts what would happen to a packet.
//!
//! This crate knows packets, the settings and the kernel interface, but not sessions, a cluster or the control socket:
//! a stateful translator passes its engine to it.

pub mod accept_local;
pub mod choice;
mod error;
pub mod events;
pub mod expiry;
pub mod labels;
pub mod packet_summary;
pub mod rules;
pub mod slowpath;
pub mod trace;

pub use error::DatapathError;
