// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a node learns the translation prefixes of its network: from router advertisements (RFC 8781), and from the
//! addresses that a resolver gives ipv4only.arpa (RFC 7050).
//!
//! Nothing here reads a socket, a clock or a source of randomness. A [`Discovery`] says when to solicit and when to
//! ask, takes what comes back, and says which prefix is in force.
//!
//! Modules, in the order in which input passes them:
//!
//! * [`advertisement`]: a router advertisement as it came, and the solicitation for one.
//! * [`synthesis`]: the question for ipv4only.arpa, and the prefixes that its answer reveals.
//! * [`preference`]: which prefixes can be used, and which of several is.
//! * `known`: a prefix, who says so, and until when.
//! * `offers`: what routers offer, in shares, so that no forger shuts out the others.
//! * `unusable`: prefixes that cannot be used, and for how long.
//! * `damping`: how often another prefix is taken.
//! * [`discovery`]: what is known, for how long, and when to look again.
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
