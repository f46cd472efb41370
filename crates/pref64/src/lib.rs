// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Discovers the translation prefixes of a network: from router advertisements (RFC 8781), and from the addresses
//! that a resolver returns for ipv4only.arpa (RFC 7050).
//!
//! This crate reads no socket, clock or source of randomness. A [`Discovery`] schedules solicitations and queries,
//! takes the answers, and chooses the prefix in force.
//!
//! Modules, in the order in which input passes them:
//!
//! * [`advertisement`]: parses router advertisements and builds the solicitation.
//! * [`synthesis`]: builds the query for ipv4only.arpa and extracts the prefixes from its answer.
//! * [`preference`]: which prefixes are usable, and which of them is chosen.
//! * `known`: a prefix, its source and its expiry.
//! * `offers`: the prefixes of routers, limited for each router so that forged advertisements displace no others.
//! * `unusable`: prefixes that cannot be used, and for how long.
//! * `damping`: limits how often the prefix changes.
//! * [`discovery`]: known prefixes, their lifetimes, and the schedule of queries.
#![forbid(unsafe_code)]

pub mod advertisement;
mod damping;
pub mod discovery;
mod known;
mod offers;
pub mod preference;
pub mod synthesis;
mod unusable;

pub use advertisement::Advertisement;
pub use discovery::{Action, Discovery};
pub use known::{Known, Moment, Source};
pub use synthesis::Reply;
pub use unusable::Unusable;
