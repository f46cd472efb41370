// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a running program says of itself, as numbers and sentences of one moment: counters of packets, figures of a NAT64's tables and
//! pool, findings (what is wrong, with a reason from a fixed list), translation prefixes, and how a node of a cluster stands.
//!
//! It knows what the translator and its fast path count, and neither how the control socket nor how metrics write it. Those who
//! translate fill in these types; those who tell people and monitoring read them.

pub mod cluster_status;
pub mod counters;
pub mod figures;
pub mod finding;
pub mod prefixes;
