// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places of programs at an interface.

/// Which way packets go at the hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Received by the interface.
    Ingress,
    /// Sent by the interface.
    Egress,
    /// Received by the interface's driver, before the kernel makes a packet of the frame.
    Driver,
    /// Received by the interface, and seen before the other programs there.
    Front,
    /// Sent by the interface, and seen before the other programs there.
    FrontEgress,
    /// Sent by the interface, and left by the programs of [`Side::Egress`]. It must be attached before [`Side::BehindEgress`].
    BetweenEgress,
    /// Sent by the interface, and left to the kernel by the other programs there.
    BehindEgress,
}
