// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for another gateway are sent on the link to it, in separate network namespaces.
//!
//! * `once`: packets that programs forward; packets from such a link are not forwarded again.
//! * `slowly`: packets that the slow path sends.
//! * `forged`: packets that imitate a label of a program.
//! * `world`: common code.

mod forged;
mod once;
mod slowly;
mod world;
