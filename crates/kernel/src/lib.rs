// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's network configuration: the crate reads it, changes it and restores it.
//!
//! [`net`] is the single connection to rtnetlink: an actor that lists, changes and watches links, addresses, routes and rules.
//! [`forwarding`] sets sysctls and restores them, also after the process was killed. [`handover`] is the state that a NAT64
//! leaves in the kernel, which its next start takes over. [`neighbour`] reads and writes the messages of RFC 4861 (Neighbour
//! Discovery) that CLATs and announcements send.
//!
//! The crate knows interfaces and addresses, but neither the configuration file nor translation. Its callers decide on the
//! wanted state; the crate itself keeps only the values that it has to restore.

pub mod error;
pub mod forwarding;
pub mod handover;
pub mod neighbour;
pub mod net;
