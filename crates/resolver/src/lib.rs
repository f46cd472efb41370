// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DNS with sockets: the crate sends and receives the messages on which `diolkos-dns64` and `diolkos-pref64` decide.
//!
//! [`server`] is the DNS64 service (RFC 6147): listeners, and upstream resolvers. [`pref64`] looks for the translation prefix of
//! a network (RFC 7050, RFC 8781). Both send questions by [`dns_over_tcp`] where UDP is not enough.
//!
//! The crate knows resolvers, routers and the settings, but nothing of the packets that are translated. Other crates use `run`
//! of the DNS64 and the search of `pref64`.

pub mod dns_over_tcp;
mod error;
pub mod pref64;
pub mod server;

pub use error::ResolverError;
