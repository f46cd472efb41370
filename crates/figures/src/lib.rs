// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a running program about itself, as numbers and sentences of one moment: packet counters, figures of a NAT64's
//! tables and pool, findings (each with a reason from a fixed list), the rule that raises alarms, rows of bindings and sessions
//! with their filters, translation prefixes, and the status of a cluster node.
//!
//! The crate knows the counters of the translator and of its fast path, but not the formats of the control socket and of
//! metrics. The translators fill in these types; the control socket and monitoring read them.

pub mod cluster_status;
mod cluster_table;
pub mod counters;
pub mod entries;
pub mod figures;
pub mod finding;
pub mod prefixes;
pub mod rule;
pub mod selection;
