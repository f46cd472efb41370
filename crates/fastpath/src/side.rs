// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places of programs at an interface.

/// The direction of packets at the hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Received by the interface.
    Ingress,
    /// Sent by the interface.
    Egress,
    /// Received by the driver of the interface, before the kernel creates a packet from the frame.
    Driver,
    /// Received by the interface, before the other programs there.
    Front,
    /// Sent by the interface, before the other programs there.
    FrontEgress,
    /// Sent by the interface, and passed on by the programs of [`Side::Egress`]. It must be attached before
    /// [`Side::BehindEgress`].
    BetweenEgress,
    /// Sent by the interface, and passed on by all other programs there.
    BehindEgress,
}
