// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a DNS64 answers (RFC 6147): AAAA records for nodes that have A records only.
//!
//! Nothing here reads a socket, a clock or a source of randomness. A client's bytes become a [`Query`]; a
//! [`Resolution`] says what to ask upstream and takes the replies; its [`Answer`] is kept in a [`Cache`] and written
//! for each client that asked.
//!
//! The rooms, in the order in which a question meets them:
//!
//! * [`wire`]: a message as it came.
//! * [`policy`]: prefixes, and what is left out.
//! * [`query`]: a client's query, or why it is none.
//! * [`limit`]: how many a client may ask.
//! * [`shares`]: how many of all that wait are a client's, and who makes room when there are too many.
//! * [`cache`]: answers that are kept.
//! * [`resolution`]: from a question to its answer, with
//!   `special` (ipv4only.arpa), `chain` (CNAME and DNAME), `synthesis` (AAAA), `reverse` (PTR);
//!   [`exchange`] is the question on the wire.
//! * `build`: writing what is new.
//! * [`answer`]: what each client gets.
#![forbid(unsafe_code)]

pub mod answer;
mod build;
pub mod cache;
mod chain;
pub mod exchange;
pub mod limit;
pub mod policy;
pub mod query;
pub mod resolution;
mod reverse;
#[cfg(test)]
mod rfc6147;
pub mod shares;
mod special;
mod synthesis;
#[cfg(test)]
mod testing;
pub mod wire;

pub use answer::{write_refusal, Age, Answer, Origin};
pub use cache::Cache;
pub use limit::Limiter;
pub use policy::{Policy, Range, Rules};
pub use query::{Query, Refusal};
pub use resolution::{Ask, Resolution, Step};
pub use shares::{Evicted, Full, Shares, Ticket};
pub use wire::{Message, Question};
