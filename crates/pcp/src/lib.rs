// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A PCP server (RFC 6887) for the nodes of a NAT64, which ask it for bindings that let anybody in.
//!
//! datagram ─► [`message::read`] ─► [`rate`]: may its source ask now? ─► [`Server`]: the mapping, its nonce and its end ─►
//! [`quota`] ─► [`Tables`]: the binding ─► [`message`]: the answer
//!
//! A mapping is a binding of the NAT64's own tables, with the origin `pcp`; the tables have its port, limits, shares and records.
//! This crate keeps only what PCP adds: whose nonce it is, when it ends, and how many a host, a link and a site have.
//!
//! What must never happen, whatever nodes and strangers send:
//!
//! * A mapping is for another address than the source of the request, or changes without the nonce that made it.
//! * Requests of some keep the mappings of others from being renewed: a renewal needs neither a quota nor, once a second, the
//!   rate of its source.
//! * An answer is longer than its request, or goes to anybody but the source.
//! * More is kept than `max_mappings`, and a fixed table of rates.
//!
//! No input or output, no clock, no randomness: a caller hands over datagrams, the time since any fixed moment, and a secret.

pub mod message;
pub mod quota;
pub mod rate;
mod server;
mod tally;

pub use message::PORT;
pub use server::{Server, Settings, Tables};
