// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of several NAT64 gateways may open bindings in which slice of the pool, and what they tell each other of these.
//!
//! Nothing here reads a socket, a clock or a source of randomness. The engine that keeps the state of the cluster is any
//! store with compare-and-set by revision and an ordered feed of changes, such as a bucket of NATS JetStream.
//!
//! Modules, in the order in which a binding passes them:
//!
//! * [`slice`]: the pool, cut into slices, and the slice of a source.
//! * [`preference`]: which of the live nodes should own a slice.
//! * [`entry`]: what the engine keeps, as bytes.
//! * [`timing`]: how long a lease lasts, and when a node counts as dead.
//! * [`lease`]: until when this node may act.
//! * [`peers`]: what is known of every node.
//! * [`ownership`]: all of it together: observations in, writes to the engine out, and whether a slice may be opened in.
//! * [`publisher`]: what this node owes the others: changes of its bindings, repetitions, snapshots.
//! * [`message`]: what the stream keeps, as bytes.
//! * [`standby`]: what the others have said, for slices that this node may inherit.
//! * [`model`]: what all of that takes of the engine and of memory.
//!
//! # Why no slice has two owners
//!
//! A node may open bindings in a slice while two things hold: the engine names it as the owner, and its lease runs. A lease
//! runs for [`Timing::lease`] from the moment at which the node *sent* its last renewal that the engine accepted. Another node
//! takes over only after it has written into the engine that the node is dead. It may write that after the last renewal it
//! knows of has not changed for [`Timing::dead_after`] on its own clock, counted from when it *saw* that renewal, and the
//! engine accepts the write only if that renewal still is the last one. So the lease had ended before, if no clock runs
//! faster or slower than another by more than [`Timing::drift_ppm`]. Clocks need not agree on the time of day, and neither
//! messages nor processes need be timely.
#![forbid(unsafe_code)]

pub mod entry;
mod lease;
pub mod message;
pub mod model;
pub mod ownership;
mod peers;
pub mod preference;
pub mod publisher;
mod reader;
pub mod standby;
pub mod timing;

pub use diolkos_core::slice;
pub use entry::{Key, NodeEntry, NodeId, SliceEntry, Value};
pub use message::{Change, Message};
pub use ownership::{Acquisition, Ownership, Standing, Title, Write};
pub use publisher::Publisher;
pub use slice::{Slice, SliceId, Slices};
pub use standby::Standby;
pub use timing::Timing;

/// A moment of the caller's monotonic clock, since an arbitrary beginning. It has to go on while the machine sleeps
/// (CLOCK_BOOTTIME).
pub type Moment = std::time::Duration;

/// How often the engine has changed when it accepted a write; a later write has a higher one.
pub type Revision = u64;
