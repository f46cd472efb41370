// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DNS with sockets: what `diolkos-dns64` and `diolkos-pref64` decide without any is done here.
//!
//! [`dns64`] is the DNS64 as a service (RFC 6147): listeners, upstream resolvers, and its process beside a translator. [`pref64`] looks for
//! the translation prefix of a network (RFC 7050, RFC 8781). Both send questions by [`dns_over_tcp`] where UDP is not enough.
//!
//! It knows resolvers, routers and the settings, and nothing of packets that are translated. For use from outside are `run` of the
//! DNS64 and the search of `pref64`.

pub mod dns64;
pub mod dns_over_tcp;
pub mod pref64;
