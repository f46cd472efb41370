// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's network configuration, as the program reads, changes and restores it.
//!
//! [`net`] is the one connection to rtnetlink: an actor that lists, changes and watches links, addresses, routes and rules.
//! [`forwarding`] sets sysctls and puts them back, also after a kill. [`handover`] is what a NAT64 leaves for its next start, and
//! takes over. [`neighbour`] reads and writes messages of Neighbour Discovery (RFC 4861), which CLATs and announcements send.
//!
//! It knows interfaces and addresses, and neither the configuration file nor translation. Callers decide what is to be; all that
//! this crate keeps is what it has to put back.

pub mod forwarding;
pub mod handover;
pub mod neighbour;
pub mod net;
