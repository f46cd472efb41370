// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The logic of a DNS64 (RFC 6147): AAAA records for nodes that have only A records.
//!
//! This crate reads no socket, clock or source of randomness. A client's bytes become a [`Query`]; a [`Resolution`]
//! chooses the questions to upstream and takes the replies; its [`Answer`] is cached in a [`Cache`] and written for
//! each client.
//!
//! The modules, in the order in which a question meets them:
//!
//! * [`wire`]: parses messages.
//! * [`names`]: names with a rule of their own.
//! * [`policy`]: prefixes and exclusions.
//! * [`query`]: parses a client's query, or explains why it is refused.
//! * [`limit`]: the query rate of each client.
//! * [`shares`]: the share of each client in pending queries, and eviction.
//! * [`cache`]: cached answers.
//! * [`resolution`]: from a question to its answer, with `special` (ipv4only.arpa), `chain` (CNAME and DNAME),
//!   `synthesis` (AAAA), `reverse` (PTR); [`exchange`] has the format of questions to upstream.
//! * `build`: writes new records.
//! * [`answer`]: writes the answer for each client.
#![forbid(unsafe_code)]

pub mod answer;
mod build;
pub mod cache;
mod chain;
pub mod exchange;
pub mod limit;
pub mod names;
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
pub use names::{NameLists, Synthesis};
pub use policy::{Policy, Range, Rules};
pub use query::{Query, Refusal};
pub use resolution::{Ask, Resolution, ResolutionStep};
pub use shares::{Evicted, Full, Shares, Ticket};
pub use wire::{Message, Question};
