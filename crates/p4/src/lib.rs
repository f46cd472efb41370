// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A P4 switch as a fast path: a client of its control socket (`p4/PROTOCOL.md`) that keeps the tables of the switch equal to
//! what the controller wants.
//!
//! controller ─► [`fast`] ─► wanted ─► worker ─► requests ─► connection ─► switch
//! switch ─► counters, use of sessions ─► worker ─► wanted ─► [`fast`], `show counters`
//!
//! The switch decides nothing. It starts with empty tables and then declines every packet; what it declines reaches the slow
//! path. One thread writes the tables, so that no thread that translates packets waits for a socket.
//!
//! What must hold:
//!
//! * **No port has two owners.** A port gets no new owner before the switch has confirmed the removal of the old one
//!   ([`Switch`], `settled`).
//! * **A table that is not known is empty.** After each new connection the switch is emptied and gets all entries again, no
//!   matter which of the two was away. So no entry of an earlier run, and no half of a broken exchange, remains.
//! * **The switch is not trusted with memory or time.** Each reply has one possible length, each exchange has a time limit, and
//!   what is queued has a bound. Anything else ends the connection.
//!
//! This crate knows the interface of a fast path (`diolkos-gateway`), and neither routes nor the configuration file.

mod connection;
pub mod embedding;
pub mod entry;
mod error;
mod fast;
mod leaving;
pub mod names;
mod outcome;
mod said;
pub mod siit;
mod slots;
mod switch;
mod wanted;
pub mod wire;
mod worker;

pub use connection::Broken;
pub use error::P4Error;
pub use switch::Switch;
