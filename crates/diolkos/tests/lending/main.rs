// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that open sessions, and the controller that owns them, on several CPUs at once: in each order that matters
//! for a few packets, and in random orders for many. The controller's code is the one that runs; the fast path is its
//! twin in memory, and the programs are those of `bpf/`, step by step.
//!
//! For all of it holds: an external port is one node's; a peer's packet reaches a node that has sent to that peer; the
//! tables know of what programs have sent before they look at anything else; nothing that is lent is lost. And it is
//! shown of each thing that sees to this that without it one of these breaks.

#[expect(dead_code, reason = "only the program is one of several gateways")]
#[path = "../../src/nat64/away.rs"]
mod away;
mod chance;
#[expect(dead_code, reason = "only the program is one of several gateways")]
#[path = "../../src/nat64/clocks.rs"]
mod clocks;
mod controller;
#[path = "../../src/nat64/conversion.rs"]
mod conversion;
#[expect(dead_code, reason = "only the program is one of several gateways")]
#[path = "../../src/nat64/deferral.rs"]
mod deferral;
#[expect(dead_code, reason = "only the program uses all of it")]
#[path = "../../src/nat64/fastpath.rs"]
mod fastpath;
mod fixed;
mod guide;
mod incomplete;
#[path = "../../src/nat64/leases/mod.rs"]
mod leases;
mod map;
#[expect(dead_code, reason = "only the program uses all of it")]
#[path = "../../src/nat64/mirror/mod.rs"]
mod mirror;
mod orders;
#[expect(dead_code, reason = "only the program is one of several gateways")]
#[path = "../../src/nat64/peers.rs"]
mod peers;
#[path = "../../src/nat64/phase.rs"]
mod phase;
mod program;
#[expect(dead_code, reason = "only the program is one of several gateways")]
#[path = "../../src/nat64/programs.rs"]
mod programs;
#[path = "../../src/nat64/records.rs"]
mod records;
#[path = "../../src/nat64/removals.rs"]
mod removals;
/// What the slow path knows of other gateways.
#[path = "../../src/slowpath"]
mod slowpath {
    mod ways;

    pub use ways::Ways;
}
#[path = "../../src/nat64/terms.rs"]
mod terms;
mod twin;
mod words;
