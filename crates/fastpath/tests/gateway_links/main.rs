// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for another gateway leave by the link to it, in network namespaces of their own.
//!
//! * `once`: those that programs forward; what comes by such a link does not leave again.
//! * `slowly`: those that the slow path sends.
//! * `forged`: what looks as if a program had given it a label.
//! * `world`: what they have in common.

mod forged;
mod once;
mod slowly;
mod world;
