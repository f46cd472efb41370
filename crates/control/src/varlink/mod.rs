// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Varlink protocol: a service at a Unix socket, and a client. It knows neither translators nor their requests.
//!
//! wire (messages) → buffer (bytes of a connection, bounded) → access (rights) → places (concurrent connections) → serve
//! (service)
//!
//! wire → client
//!
//! A message is a JSON object, terminated by a NUL byte. Everything has a bound: the length of a call, the number of
//! connections in all and of each user, and the time for each step.

mod access;
mod buffer;
mod client;
mod places;
mod serve;
mod wire;

use std::time::Duration;

pub use access::{Caller, Readers};
pub use client::{Client, Unanswered};
pub use serve::{bind, serve, Interface, Replies, Service, Serving};
pub use wire::{Call, Refusal};

/// The time that either side waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(5);
