// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that open sessions, and the controller that owns them, on several CPUs at once: in each order that matters
//! for a few packets, and in random orders for many. The controller's code is that of the program; the fast path is
//! its twin in memory, and the programs are those of `bpf/`, step by step.
//!
//! The following holds for all of it: an external port belongs to one node; a peer's packet reaches a node that has
//! sent to that peer; the tables know what programs have sent before they look at anything else; nothing that is lent
//! is lost. For each measure that ensures this, a test shows that without it one of these fails.

mod chance;
mod controller;
mod crowd;
mod fixed;
mod guide;
mod incomplete;
mod many;
mod map;
mod occupied;
mod orders;
mod pools;
mod program;
mod rates;
mod strangers;
mod twin;
mod words;
