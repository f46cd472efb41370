// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One of several NAT64 gateways (a *node* of a cluster) that share subscribers, without I/O and without a clock.
//!
//! # Invariants
//!
//! An external IPv4 address and port carries packets of one subscriber at a time, and goes to another one only after a
//! rest. No late message, stopped process, failed connection or missing answer changes that. What may happen is that
//! flows end. This requires clocks whose speeds differ by no more than the margin says, an engine (a store of records)
//! whose reads and writes are linearizable as long as it has the same name, and nodes that run this code. A node that
//! does not can itself translate wrongly. It cannot make another node open or forget a binding, with one exception: a
//! node that has lost its own state believes it.
//!
//! # How
//!
//! * Each address has one permanent owner, and only the owner opens bindings on it ([`config`]). A node that starts
//!   takes part when no other one serves by another file, according to the records in the engine (`admission`, with the
//!   proof).
//! * A subscriber has an order of nodes; the first that is reachable and serves opens its bindings ([`order`]).
//! * Each node sends its bindings to the others, and they keep copies ([`message`]). Packets go to the owner of their
//!   binding. If it is not reachable, copies are used ([`Node::who`], [`Node::who4`]).
//! * Copies may be used for a term after the owner confirmed them, or for a time after a read of the owner's record in
//!   the engine that does not call them void ([`record`]).
//! * Nodes change to another file together ([`Node::expect`], [`Event::Arm`]).
//! * A port is free when all other nodes have acknowledged that its binding ended. For those that do not, the owner
//!   declares their copies void, and waits until their right to use them has ended (`reuse`, with the proof).
//!
//! # Duties of the caller
//!
//! The caller holds the lock of the tables, passes events with the time of CLOCK_BOOTTIME to [`gateway::Gateway`], and
//! then carries out the resulting orders *in their order*. The gateway updates tables and programs at once, so no
//! packet comes in between: sessions made from a copy have ended before the message that follows is sent. Programs
//! translate by sessions made from copies only before the owner's deadline ([`gateway::Tables::use_copies`]). A port
//! whose binding ended stays taken until [`gateway::Tables::free`]; only a host of the same subscriber may get it
//! before. A connection keeps the order of messages, and reports how much it can take. Both ends authenticate by
//! certificates.
#![forbid(unsafe_code)]

mod admission;
mod armed;
pub mod config;
pub mod deferred;
mod engine;
mod filed;
pub mod gateway;
mod handle;
mod hear;
mod interface;
mod look;
pub mod message;
mod node;
pub mod order;
mod peer;
pub mod record;
mod rests;
mod reuse;
mod roll;
mod standing;
pub mod store;
mod tell;

pub use armed::Armed;
pub use config::{Config, NodeId};
pub use deferred::Deferred;
pub use filed::Filed;
pub use interface::{Action, Event, Reason, Report, Way};
pub use look::{Asked, Via};
pub use node::{Node, TURN};
pub use roll::Unready;
pub use standing::Standing;

/// A time of the caller's clock, which continues while the machine is suspended (CLOCK_BOOTTIME).
pub type Moment = std::time::Duration;
